"""Reports of runs: every number equals the results or scikit-learn's, and hostile names do no harm."""

from __future__ import annotations

import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, confusion_matrix, precision_recall_fscore_support

from bertkit import compare, finetune, report
from bertkit.features.reporting.comparison import comparison_of
from bertkit.features.reporting.content import content_of
from bertkit.features.reporting.run_files import read_run
from bertkit.inference import predictor
from bertkit.inference.comparison import system_of
from bertkit.inference.evaluation import outcome_of
from bertkit.inference.outcome import OUT_OF_FOLD
from bertkit.runtime.errors import CheckpointError, DataError, RecipeError
from bertkit.runtime.files import write_json
from bertkit.runtime.markdown import escape
from bertkit.tasks.base import softmax
from bertkit.tasks.registry import load_recipe
from bertkit.training.runs import record as run_record
from tests.features.reporting.conftest import HOSTILE, Page


def test_a_page_has_no_links_to_others(hostile_run):
    found = Page(hostile_run.output_dir / "report.html")
    assert found.tags.count("script") == 1
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)
    assert "url(http" not in found.source
    assert len(found.ids) == len(set(found.ids))
    pictures = sorted(path.name for path in (hostile_run.output_dir / "figures").iterdir())
    assert len(found.images) == len(pictures)
    assert all(found.images)
    for name in pictures:
        assert (hostile_run.output_dir / "figures" / name).read_bytes().startswith(b"\x89PNG")


def test_labels_and_texts_are_escaped(hostile_run):
    found = Page(hostile_run.output_dir / "report.html")
    assert HOSTILE not in found.source
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in found.source
    assert "<img src=http" not in found.source
    assert HOSTILE in [row[0] for row in found.tables["Scores of each class"]]
    assert len(found.source) < 1_500_000
    assert "x" * 1000 not in found.source
    assert "more characters" in found.source


def test_numbers_are_those_of_results_and_scikit_learn(hostile_run):
    found = Page(hostile_run.output_dir / "report.html")
    results = json.loads((hostile_run.output_dir / "all_results.json").read_text())
    shown = {row[0]: row[1] for row in found.tables["All results"][1:]}
    assert shown.keys() == results.keys()
    assert found.tiles["accuracy"] == f"{results['eval_accuracy']:.4f}"
    outcome = outcome_of(hostile_run.output_dir)
    labels, names = np.asarray(outcome.features["labels"]), outcome.task.settings.label_names
    probabilities = softmax(outcome.outputs)
    predicted = probabilities.argmax(axis=1)
    scores = precision_recall_fscore_support(labels, predicted, labels=range(len(names)), zero_division=0)
    for c, row in enumerate(found.tables["Scores of each class"][1:]):
        assert row[0] == names[c]
        ap = average_precision_score(labels == c, probabilities[:, c])
        assert [float(cell) for cell in row[1:5]] == pytest.approx([*(each[c] for each in scores[:3]), ap], abs=2e-4)
        assert row[5:7] == [str(scores[3][c]), str((predicted == c).sum())]
    right = np.trace(confusion_matrix(labels, predicted))
    assert any(f"{right} of {len(labels)} examples on the diagonal" in alt for alt in found.images)
    wrong = found.tables["Wrong predictions"][1:]
    assert len(wrong) == (predicted != labels).sum()
    surest = np.lexsort((np.arange(len(labels)), -probabilities.max(axis=1).round(4)))
    assert [int(row[0].split()[0]) for row in wrong] == [row + 1 for row in surest if predicted[row] != labels[row]]


def test_the_card_shows_figure_and_classes(hostile_run):
    card = (hostile_run.output_dir / "README.md").read_text()
    assert "(figures/confusion.png)" in card
    assert "[report.html](report.html)" in card
    assert "| class | precision | recall |" in card


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes(copied):
    run = copied()
    first = [report(run).read_bytes(), *(path.read_bytes() for path in sorted((run / "figures").iterdir()))]
    again = [report(run).read_bytes(), *(path.read_bytes() for path in sorted((run / "figures").iterdir()))]
    assert first == again


def test_a_report_that_is_killed_has_no_page(copied, monkeypatch):
    moved: list[str] = []
    monkeypatch.setattr("os.replace", lambda _, target: moved.append(Path(target).name))
    report(copied())
    assert len(moved) == moved.index("report.html") + 1 > 1


def test_texts_can_be_left_out(hostile_run, tmp_path):
    path = report(hostile_run.output_dir, output=tmp_path / "without.html", texts=False)
    source = path.read_text()
    assert "Wrong predictions" not in source
    assert "more characters" not in source
    rows = [json.loads(line) for line in (hostile_run.output_dir.parent / "validation.jsonl").read_text().splitlines()]
    assert not [row for row in rows if len(row["text"]) > 20 and row["text"] in source]
    assert "Scores of each class" in Page(path).tables


def test_an_unfinished_run_has_a_partial_report(copied):
    run = copied()
    for name in ("trainer_state.json", "all_results.json", "eval_results.json", "model.safetensors"):
        (run / name).unlink()
    write_json(run / "run.json", {**json.loads((run / "run.json").read_text()), "finished": False})
    found = Page(report(run))
    assert "This run has not finished: the report shows its last checkpoint, after step 6 of 6" in found.source
    assert "unfinished" in found.source
    for state in (run / "trainer_state.json", *run.glob("checkpoint-*/trainer_state.json")):
        state.unlink(missing_ok=True)
    assert "the report shows no score, since it has no checkpoint yet. Continue" in Page(report(run)).source
    assert "Loss" in found.source
    assert "Scores of each class" not in found.tables


def test_a_run_continued_after_its_end_is_that_of_its_last_checkpoint(copied):
    run = copied()
    write_json(run / "run.json", {**json.loads((run / "run.json").read_text()), "finished": False})
    assert read_run(run).results, "nothing is known after the end yet"
    state = json.loads((run / "trainer_state.json").read_text())
    later = {"step": 9, "epoch": 4.5, "loss": 0.25}
    (run / "checkpoint-9").mkdir()
    write_json(
        run / "checkpoint-9" / "trainer_state.json",
        {**state, "global_step": 9, "max_steps": 12, "log_history": [*state["log_history"], later]},
    )
    files = read_run(run)
    assert (files.step, files.max_steps, files.history[-1], files.results) == (9, 12, later, {})
    assert "the report shows its last checkpoint, after step 9 of 12" in Page(report(run)).source


def test_what_is_no_run_is_refused(tmp_path, copied):
    with pytest.raises(CheckpointError, match="no such folder"):
        report(tmp_path / "missing")
    with pytest.raises(RecipeError, match="give one or more"):
        report()
    run = copied()
    with pytest.raises(RecipeError, match="each run once"):
        report(run, run / ".." / run.name)
    (run / "run.json").write_text("{")
    with pytest.raises(DataError, match=r"run\.json: damaged"):
        report(run)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_changed_data_are_refused_and_the_report_stays(copied, split):
    run = copied()
    record = json.loads((run / "run.json").read_text())
    record["data"][split]["fingerprint"] = "sha256:other"
    write_json(run / "run.json", record)
    before = (run / "report.html").read_bytes()
    with pytest.raises(DataError, match=rf"the data of {split} .* have changed since the run"):
        report(run)
    assert (run / "report.html").read_bytes() == before
    if split == "validation":
        with pytest.raises(DataError, match="have changed since the run"):
            compare(run, copied("other"))


def test_a_run_from_the_hub_has_its_report(copied):
    run = copied()
    (run / "run.json").unlink()
    with pytest.raises(CheckpointError, match=r"as a run from the Hub; its report is .*report\.html"):
        report(run)
    recipe = (run / "recipe.yaml").read_text()
    (run / "recipe.yaml").write_text(re.sub(r"_file: .*/", "_file: …/", recipe))
    with pytest.raises(CheckpointError, match="names no folders"):
        outcome_of(run)


def shown(path):
    """The text of a page without its pictures: their coordinates have more digits than the numbers that are shown."""
    source = re.sub(r'src="data:[^"]*"', "", path.read_text())
    return re.sub(r'data-value="[^"]*"', "", source)


def test_a_report_made_again_shows_the_same_numbers(hostile_run, tmp_path, monkeypatch):
    """Also on a device whose own precision is another one, as fp16 is on GPUs."""
    recipe = load_recipe(hostile_run.output_dir / "recipe.yaml", {"placement.mixed_precision": "bf16"})
    clock = iter(range(0, 10_000, 7))  # also for the time of the run, though drawing takes some
    monkeypatch.setattr(run_record.time, "time", lambda: next(clock))
    monkeypatch.setattr(torch.backends, "fp32_precision", "tf32")
    of_process = torch.backends.fp32_precision
    run = finetune(recipe, output_dir=tmp_path / "run")
    assert torch.backends.fp32_precision == of_process
    monkeypatch.undo()
    record = json.loads((run.output_dir / "run.json").read_text())
    assert record["placement"]["evaluation_precision"] == "float32"
    of_device = predictor.inference_dtype
    monkeypatch.setattr(
        predictor,
        "inference_dtype",
        lambda precision, device: torch.bfloat16 if precision == "auto" else of_device(precision, device),
    )
    outcome = outcome_of(run.output_dir)
    again = outcome.task.score(outcome.outputs, outcome.features, outcome.examples)
    for name, value in again.items():
        assert f"{value:.4f}" == f"{run.metrics[f'eval_{name}']:.4f}"
    assert shown(report(run.output_dir, output=tmp_path / "again.html")) == shown(run.output_dir / "report.html")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("trainer_state.json", '{"log_history": 3}'),
        ("trainer_state.json", '{"log_history": [1, {"step": 2, "loss": 1.0}]}'),
        ("trainer_state.json", '{"log_history": [{"step": 1, "train_runtime": "a", "num_input_tokens_seen": 3}]}'),
        ("trainer_state.json", '{"log_history": [], "global_step": "x"}'),
        ("trainer_state.json", "[]"),
        ("run.json", '{"finished": true, "data": 3}'),
        ("run.json", '{"finished": true, "data": {"train": 3}}'),
        ("run.json", '{"finished": true, "warnings": "none"}'),
        ("all_results.json", '{"eval_accuracy": "x"}'),
    ],
)
def test_damaged_files_are_named(copied, name, content):
    run = copied()
    (run / name).write_text(content)
    with pytest.raises(DataError, match=rf"{re.escape(name)}: damaged \(.*\); restore it"):
        report(run)


def test_a_recipe_that_cannot_be_read_is_named(copied):
    run = copied()
    (run / "recipe.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(RecipeError, match=r"recipe\.yaml: cannot be read: .*byte 0xff"):
        report(run)


def test_the_verdict_is_the_same_everywhere(hostile_run, copied):
    """At the end of the run, in its record, its card, its report, and the report made again."""
    sentences, folder = hostile_run.verdict.sentences, hostile_run.output_dir
    assert "examples are right" in sentences[0]
    assert json.loads((folder / "run.json").read_text())["verdict"] == list(sentences)
    run, outcome = read_run(folder), outcome_of(folder, with_training=True)
    assert content_of(run, outcome, texts=True).verdict == hostile_run.verdict
    without = replace(run, record={**run.record, "verdict": []})  # as of a run that has not finished
    assert sentences[:2] == content_of(without, outcome, texts=True).verdict.sentences[:2]
    for page in (folder / "report.html", report(copied())):
        source = html.unescape(page.read_text()).replace("<wbr>", "").replace("\xa0%", " %")
        assert all(f"<li>{sentence}</li>" in source for sentence in sentences)
        assert hostile_run.verdict.proposal.line() in source
    card = (folder / "README.md").read_text()
    assert all(f"- {escape(sentence)}\n" in card for sentence in sentences)


def test_mistakes_are_named_by_their_lines(hostile_run):
    """A label is wrong in a line of the file, not in an example of the validation set."""
    run, outcome = read_run(hostile_run.output_dir), outcome_of(hostile_run.output_dir)
    wrong = replace(outcome, outputs=20 * np.eye(4)[(np.asarray(outcome.features["labels"]) + 1) % 4])
    content = content_of(run, wrong, texts=True)
    texts = [json.loads(line)["text"] for line in Path(outcome.source).read_text().splitlines()]
    assert content.unit == "line"
    assert content.mistakes
    for mistake in content.mistakes:
        assert texts[mistake.number - 1][:50] == mistake.texts[0][1][:50]
    assert system_of("run", [wrong]).places[0] == f"{Path(outcome.source).name}, line {wrong.number(0)}"


def test_intervals_without_a_width_are_not_shown(hostile_run):
    run, outcome = read_run(hostile_run.output_dir), outcome_of(hostile_run.output_dir, with_training=True)
    right = replace(outcome, outputs=20 * np.eye(4)[np.asarray(outcome.features["labels"])])
    intervals = [(score.low, score.high) for score in content_of(run, right, texts=True).scores]
    assert all(low is None or low < high for low, high in intervals)


def test_the_step_that_was_kept_is_named(copied):
    run = copied()
    write_json(run / "run.json", {**json.loads((run / "run.json").read_text()), "kept": "kept: step 2 of <3>"})
    assert "<li>Kept: step 2 of &lt;3&gt;.</li>" in report(run).read_text()


def test_facts_of_a_record_are_named(hostile_run):
    """The step of a resumption, and documents, which are not called examples."""
    run = read_run(hostile_run.output_dir)
    assert "resumed" not in content_of(run, None, texts=True).facts["Cost"]
    corpus = {"files": ["books"], "documents": 40, "held_out_documents": 1, "fingerprint": "0"}
    record = {**run.record, "resumed_from_step": 4, "data": {"corpus": corpus}}
    content = content_of(replace(run, record=record), None, texts=True)
    assert content.facts["Cost"]["resumed"] == "after step 4; times and speed are of the steps since then"
    assert content.data.columns[2] == "documents"
    assert content.data.note == "1 document is held out, as the validation set."


def test_files_of_one_name_are_told_apart(copied, tmp_path):
    runs = [copied("one"), copied("two")]
    for number, run in enumerate(runs):
        recipe = load_recipe(run / "recipe.yaml", {"data.test_file": f"/ada/v{number}/test.csv"})
        recipe.save(run / "recipe.yaml", "")
    settings = Page(report(*runs, output=tmp_path / "both.html")).tables["Settings"]
    assert ["data.test_file", "…/v0/test.csv", "…/v1/test.csv"] in settings


def test_corpora_of_one_name_are_told_apart(copied):
    content = content_of(read_run(copied("run")), None, texts=True)
    corpora = [["/ada/v0/a.txt", "/ada/b.txt"], ["/ada/v1/a.txt", "/ada/b.txt"]]
    recipes = [load_recipe("pretrain/albert-base", {"data.corpus": corpus}) for corpus in corpora]
    contents = [replace(content, run=replace(content.run, recipe=recipe)) for recipe in recipes]
    settings = comparison_of(["one", "two"], contents, [None, None]).settings
    assert settings.rows == [("data.corpus", "…/v0/a.txt, …/ada/b.txt", "…/v1/a.txt, …/ada/b.txt")]


def test_names_from_the_hub_stay_beside_folders_of_one_name(copied):
    content = content_of(read_run(copied("run")), None, texts=True)
    models = ["ada/bert", "/v0/bert", "/v1/bert"]
    recipes = [load_recipe("finetune/classification", {"model.name_or_path": model}) for model in models]
    contents = [replace(content, run=replace(content.run, recipe=recipe)) for recipe in recipes]
    settings = comparison_of(["one", "two", "three"], contents, [None] * 3).settings
    assert settings.rows == [("model.name_or_path", "ada/bert", "…/v0/bert", "…/v1/bert")]


def test_two_runs_show_the_sentences_of_compare(copied, tmp_path):
    one, two = copied("one"), copied("two")
    write_json(one / "run.json", {**json.loads((one / "run.json").read_text()), "kept": "kept: step 2 of <3>"})
    found = Page(report(one, two, output=tmp_path / "both.html"))
    assert "<li>Kept: step 2 of &lt;3&gt;.</li>" in found.source
    [comparison] = compare(one, two).comparisons
    assert "A: one, B: two." in found.source
    assert comparison.models in html.unescape(found.source)
    assert comparison.settings in html.unescape(found.source)
    assert "Not tested: 1 run of A and 1 run of B" in comparison.settings
    assert len(found.ids) == len(set(found.ids))
    title = "Scores on the validation set, with 95 % intervals"
    scores = {row[0].partition(" (")[0]: row[1:] for row in found.tables[title][1:]}
    assert scores["accuracy"][0] == scores["accuracy"][1]
    assert any(row[0] == f"accuracy ({compare(one, two).units})" for row in found.tables[title])
    accuracy = json.loads((one / "all_results.json").read_text())["eval_accuracy"]
    assert scores["accuracy"][0].startswith(f"{accuracy:.4f}")


@pytest.mark.parametrize(
    ("texts", "expected"), [(True, "all predictions are 'good' on"), (False, "predictions for all examples")]
)
def test_a_collapsed_run_is_named(hostile_run, texts, expected):
    run, outcome = read_run(hostile_run.output_dir), outcome_of(hostile_run.output_dir, with_training=True)
    labels = np.asarray(outcome.features["labels"])
    good = np.full_like(labels, outcome.task.settings.label_names.index("good"))
    outcomes = [replace(outcome, outputs=np.eye(4)[each]) for each in (good, labels)]
    contents = [content_of(run, each, texts=texts) for each in outcomes]
    assert expected in contents[0].notices[0]
    assert not contents[1].notices
    both = comparison_of(["one", "other"], contents, outcomes)
    assert both.scores.note == "Collapsed, with the same prediction for all examples: one."


def test_runs_with_other_labels_are_not_compared(hostile_run):
    """The numbers of the classes are the same, and so the digests of the examples."""
    run, outcome = read_run(hostile_run.output_dir), outcome_of(hostile_run.output_dir, with_training=True)
    names = outcome.task.settings.label_names
    other = replace(outcome, task=outcome.task.with_settings(label_names=names[::-1]), scored=OUT_OF_FOLD)
    contents = [content_of(run, each, texts=True) for each in (outcome, other)]
    found = comparison_of(["one", "other"], contents, [outcome, other])
    assert "not compared, since the runs have different scored examples or labels" in found.differences[0][1]
    assert found.scores.title == f"Scores on the validation set or {OUT_OF_FOLD}, with 95 % intervals"


def test_an_undefined_score_is_shown_as_undefined(copied):
    run = copied()
    results = json.loads((run / "all_results.json").read_text())
    write_json(run / "all_results.json", {**results, "eval_accuracy": None})
    assert Page(report(run)).tiles["accuracy"] == "undefined"


def test_a_failed_report_keeps_the_run(hostile_run, tmp_path, monkeypatch, capfd):
    from bertkit.features.reporting import report as module

    def fails(*given, **options):
        raise ValueError("no fonts\nat all")

    monkeypatch.setattr(module, "draw_charts", fails)
    recipe = load_recipe(hostile_run.output_dir / "recipe.yaml", {"train.max_steps": 2})
    run = finetune(recipe, output_dir=tmp_path / "run")
    assert json.loads((run.output_dir / "run.json").read_text())["finished"] is True
    assert not (run.output_dir / "report.html").exists()
    assert "report.html" not in (run.output_dir / "README.md").read_text()
    said = [line for line in capfd.readouterr().err.splitlines() if "its report failed" in line]
    assert said == [
        "warning: the run is complete, but its report failed: ValueError: no fonts at all; to try again: "
        f"bertkit report {run.output_dir}"
    ]


def test_a_report_has_the_name_of_its_run(hostile_run, copied, tmp_path):
    page = (hostile_run.output_dir / "report.html").read_text()
    assert f"<h1>{hostile_run.output_dir.name}</h1>" in page
    assert f"<title>{hostile_run.output_dir.name}</title>" in page
    grid = tmp_path / "mails"
    shutil.copytree(copied(), grid / "best")
    assert "<h1>mails/best</h1>" in report(grid / "best").read_text()
