"""``--check`` and ``bertkit check`` by the words that users type."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import bertkit as package
from bertkit.data.tables import read_table
from bertkit.features.checks.command import describe_plan
from bertkit.features.checks.findings import Finding, Report
from bertkit.features.checks.plan import _find_available_memory
from bertkit.runtime.errors import OutputError, RecipeError
from bertkit.training import progress

from .conftest import WORDS, all_codes, write_json_lines

DOCS = Path(package.__file__).parents[1] / "docs" / "guides" / "checks.md"


@pytest.fixture
def words(table, no_trial):
    """The words of a run on clean tables."""
    table.write()
    files = [f"--{split}-file={table.folder / split}.csv" for split in ("train", "validation")]
    values = [f"--set={key}={value}" for key, value in table.overrides.items() if not key.endswith("_file")]
    return ["finetune", "classification", *files, *values, "--model", table.model, "--output-dir", table.folder / "run"]


def without_memory(text: str) -> str:
    return re.sub(r"memory_available_bytes\": \d+|disk_free_bytes\": \d+|of [\d.]+ [GMT]i?B", "", text)


def test_both_ways_to_check_are_the_same(bertkit, words, table):
    for more in ([], ["--json"]):
        one, other = bertkit(*words, "--check", *more), bertkit("check", *words, *more)
        assert one[0] == other[0] == 0
        assert without_memory(one[1]) == without_memory(other[1])
    assert not (table.folder / "run").exists()
    code, out, _ = bertkit("check", *words[:-2])  # the folder of the run can be left out
    assert (code, without_memory(out)) == (one[0], without_memory(bertkit("check", *words)[1]))


def test_an_option_without_its_value_is_refused_and_does_not_take_the_flag(bertkit, words):
    code, _, err = bertkit("check", *words[:-2], "--label-separator")
    assert (code, "'--label-separator' requires an argument" in " ".join(err.split())) == (2, True)


def test_no_folder_is_asked_for_where_none_can_be_made(bertkit, words, monkeypatch):
    monkeypatch.setattr("os.access", lambda place, _: Path(place).resolve() != Path.cwd())
    code, out, _ = bertkit("check", *words[:-2])
    assert (code, "0 errors" in out) == (0, True)


@pytest.mark.parametrize(
    ("folder", "more", "code", "message"),
    [
        ("out", {"corpus": "none.txt"}, "data", "none.txt"),
        ("out", {"data_dir": "glue"}, "recipe", "data.data_dir: unknown key"),
        # A full disk is met again in any folder.
        ("out", {"overrides": {"task.pair_objective": "none"}}, "output-dir", "no space"),
        (None, {"overrides": {"task.pair_objective": "none"}}, "output-dir", "no space"),
    ],
)
def test_a_pre_training_that_is_refused_has_its_own_message_once(corpus, monkeypatch, folder, more, code, message):
    def refuse(*_, **__):
        raise OutputError("cache: cannot be written: no space")

    if message == "no space":
        monkeypatch.setattr("bertkit.features.checks.check.prepare_pretraining", refuse)
    corpus.write()
    given = {"model": corpus.model, "corpus": corpus.corpus, **more}
    [found] = package.check(corpus.recipe, output_dir=folder and corpus.folder / folder, **given).findings
    assert (found.code, message in found.message) == (code, True)


def test_labels_are_asked_for_where_there_are_some(corpus):
    pytest.importorskip("cleanlab", reason="the extra checks is not installed")
    corpus.write()
    with pytest.raises(RecipeError, match="--check-labels: a pre-training has no labels"):
        package.check(corpus.recipe, model=corpus.model, corpus=corpus.corpus, labels=True)
    with pytest.raises(RecipeError, match=r"--fix: is for finetune classification .*; this is pretraining"):
        package.check(corpus.recipe, model=corpus.model, corpus=corpus.corpus, fix="out.csv")


def test_exit_codes_and_json(bertkit, words, table):
    found = json.loads(bertkit(*words, "--check", "--json")[1])
    assert list(found) == ["findings", "errors", "warnings", "plan"]
    assert (found["findings"], found["errors"], found["warnings"]) == ([], 0, 0)
    few = [*words, "--check", "--json", "--max-steps", 20]
    code, out, _ = bertkit(*few)
    [finding] = json.loads(out)["findings"]
    assert (code, finding["code"], finding["level"]) == (0, "few-steps", "warning")
    assert list(finding) == ["code", "level", "where", "message", "remedy"]
    code, out, _ = bertkit(*few, "--strict")
    assert code == 2
    assert (json.loads(out)["errors"], json.loads(out)["warnings"]) == (1, 0)
    code, out, err = bertkit(*words, "--check", "--set", "train.learning_rat=1")
    assert code == 2
    assert "did you mean" in " ".join(out.split())
    assert "Traceback" not in err


def test_the_table_names_level_code_place_and_remedy(bertkit, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = bertkit(*words, "--check", "--max-steps", 20)
    assert code == 0
    for part in ("warnings (1)", "few-steps", "20 optimizer steps", "→ set more", "0 errors, 1 warning"):
        assert part in out
    assert "\nlabels: problem: single_label with 2 classes ('no' 200, 'yes' 200), inferred" in out
    assert max(map(len, out.splitlines()[:-2])) <= 100


@pytest.mark.parametrize("flag", ["--strict", "--check-labels"])
def test_options_of_the_check_alone(bertkit, words, flag):
    bertkit(*words, flag).refuses(f"{flag} is for --check")


@pytest.mark.parametrize("given", [[], ["predict", "x"], ["--json"], ["classification", "--train-file", "a.csv"]])
def test_check_needs_the_words_of_a_run(bertkit, given):
    near = (
        "Did you mean 'bertkit check finetune classification'?" if "--train-file" in given else "expected the words of"
    )
    bertkit("check", *given).refuses(near)


@pytest.mark.parametrize("more", [[], ["--seeds", 2]], ids=["runs", "grids"])
def test_several_tasks_give_one_report(bertkit, table, no_trial, tmp_path, more):
    for folder in ("RTE", "SST-2"):
        (tmp_path / folder).mkdir()
    rows = [(row["text"], int(row["label"] == "yes")) for row in table.train]
    for name in ("train", "dev"):
        lines = [f"{text}\t{label}" for text, label in rows[:: 1 if name == "train" else 10]]
        (tmp_path / "SST-2" / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    code, out, _ = bertkit(
        "check", "finetune", "glue", "--task", "sst2,rte", "--set", f"data.data_dir={tmp_path}", "--model", table.model,
        "--max-seq-length", 32, "--output-dir", tmp_path / "run", "--json", "--placement", "cpu", *more,
    )  # fmt: skip
    found = json.loads(out)
    assert code == 2
    assert {finding["where"].partition(":")[0] for finding in found["findings"]} == {"sst2", "rte"}
    [(name, plan)] = [(name, plan) for name, plan in found["plan"].items() if plan]  # RTE has no data
    assert name.startswith("sst2")
    assert plan["steps"] > 0
    assert not (tmp_path / "run").exists()


def test_a_corpus_that_is_clean_starts(corpus, capfd):
    corpus.write()
    report = corpus.report()
    assert report.findings == ()
    assert report.plan["seconds"] or report.plan["seconds_unknown"]
    assert not (corpus.folder / "hf").exists()
    capfd.readouterr()
    given = {"model": corpus.model, "overrides": {**corpus.overrides, "train.max_steps": 2}, "corpus": corpus.corpus}
    package.pretrain(corpus.recipe, output_dir=corpus.folder / "run", **given)
    printed = capfd.readouterr().err
    inputs, held_out = re.search(r"(\d+) inputs in the first epoch, (\d+) held-out", printed).groups()
    assert report.plan["examples"] == {"train": int(inputs), "validation": int(held_out)}
    assert report.plan["checkpoints"] == len(list((corpus.folder / "run").glob("checkpoint-*"))) == 1
    # 120 steps of 8 inputs; for the Trainer it is one epoch, since its data set covers the whole run.
    assert report.plan["epochs"] == round(120 * 8 / int(inputs), 2)


def test_the_passes_over_a_stream_are_not_known(corpus, no_trial):
    corpus.overrides["data.streaming"] = True
    report = corpus.report()
    assert (report.findings, report.plan["epochs"]) == ((), None)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"save_strategy": "no"}, 0),
        ({"save_strategy": "steps", "save_steps": 500}, 1),  # after the last step
        ({"save_strategy": "steps", "save_steps": 0}, 1),
        ({"save_strategy": "steps", "save_steps": 4, "save_total_limit": 5}, 3),
        ({"save_strategy": "steps", "save_steps": 0.5, "save_total_limit": 5}, 2),
        ({"save_strategy": "steps", "save_steps": 2, "save_total_limit": 1}, 2),  # one more while it is replaced
        ({"save_strategy": "epoch"}, 1),
    ],
)
def test_the_plan_counts_the_checkpoints_of_a_run(table, no_trial, values, expected):
    del table.train[100:], table.validation[8:]
    table.overrides |= {f"train.{key}": value for key, value in {"max_steps": 10, **values}.items()}
    table.overrides |= {"train.load_best_model_at_end": False}
    assert table.report().plan["checkpoints"] == expected
    package.finetune(table.recipe, output_dir=table.folder / "run", model=table.model, overrides=table.overrides)
    left = min(expected, values.get("save_total_limit", 2))
    assert len(list((table.folder / "run").glob("checkpoint-*"))) == left


def test_memory_and_examples_are_those_of_the_run(table, monkeypatch):
    """With inputs of the maximum length, the estimates are equal; the passes of the check change no number."""
    table.overrides["data.max_seq_length"] = 8
    estimates = []
    whole = progress.estimate_memory
    monkeypatch.setattr(progress, "estimate_memory", lambda *given: estimates.append(whole(*given)) or estimates[-1])
    plan = table.report().plan
    assert (plan["examples"]["train"], plan["steps"]) == (400, 100)
    assert plan["checkpoints"] == 2  # an epoch each
    given = {"model": table.model, "overrides": {**table.overrides, "train.max_steps": 1}}
    package.finetune(table.recipe, output_dir=table.folder / "run", **given)
    of_run = estimates[-1]
    assert plan["memory_bytes"] == of_run.states + of_run.activations


@pytest.mark.parametrize(("epochs", "drop_last", "steps"), [(2, False, 6), (1.5, False, 5), (1.5, True, 3)])
def test_steps_and_tokens_are_those_of_the_run(table, no_trial, epochs, drop_last, steps):
    """20 rows in batches of 8: the last one of an epoch has four rows, or is left out."""
    del table.train[20:], table.validation[4:]
    table.overrides |= {"train.num_train_epochs": epochs, "train.dataloader_drop_last": drop_last}
    plan = table.report().plan
    package.finetune(table.recipe, output_dir=table.folder / "run", model=table.model, overrides=table.overrides)
    last = max((table.folder / "run").rglob("trainer_state.json"), key=lambda path: path.stat().st_mtime_ns)
    state = json.loads(last.read_text())
    assert plan["steps"] == state["global_step"] == steps
    # In part of an epoch the batches may be those with more rows.
    assert plan["tokens"] == pytest.approx(state["num_input_tokens_seen"], rel=0.1 if epochs % 1 else 0)


def test_the_memory_of_several_inputs_is_not_estimated(table, tmp_path, no_trial):
    """Choices differ in number and length; the run prints the same."""
    rows = [{"context": f"row {row}", "endings": ["a", "b"], "label": row % 2} for row in range(40)]
    path = write_json_lines(tmp_path / "rows.jsonl", rows)
    given = {"train_file": path, "validation_file": path}
    plan = package.check("finetune/multiple-choice", model=table.model, max_seq_length=16, **given).plan
    assert plan["memory_unknown"] == "activations that are not estimated for such inputs or encoders"
    assert plan["memory_bytes"] == pytest.approx(16 * plan["parameters"], rel=0.01)
    assert "MiB without activations that are not estimated for such inputs or encoders, of " in describe_plan(plan)


def test_a_finished_run_is_checked_for_resumption(table, no_trial):
    table.write()
    given = {"model": table.model, "overrides": {**table.overrides, "train.max_steps": 2}}
    package.finetune(table.recipe, output_dir=table.folder / "run", **given)
    table.overrides["train.max_steps"] = 120
    before = {path: path.stat().st_mtime_ns for path in (table.folder / "run").rglob("*")}
    assert table.report(resume=True).findings == ()
    table.train[0]["text"] = WORDS[0] + table.train[0]["text"]
    assert [finding.code for finding in table.report(resume=True).findings] == ["data"]
    assert {path: path.stat().st_mtime_ns for path in (table.folder / "run").rglob("*")} == before


@pytest.mark.parametrize(("copies", "wrong"), [(1, 20), (5, 4)])
def test_wrong_labels_are_found(table, no_trial, copies, wrong):
    """Also where all copies of a text have the wrong label, so that only other texts tell."""
    pytest.importorskip("cleanlab", reason="the extra checks is not installed")
    for row in table.train:
        first = WORDS[:5] if row["label"] == "yes" else WORDS[5:10]
        row["text"] = " ".join([*first, *row["text"].split()[:3]])
    for row in range(wrong):
        table.train[row]["label"] = {"yes": "no", "no": "yes"}[table.train[row]["label"]]
    if copies > 1:
        table.train[:] = [dict(row) for row in table.train[:40] for _ in range(copies)]
    out = table.folder / "out.csv"  # of an encoder of 64 positions
    found = [finding for finding in table.report(labels=True, fix=out).findings if finding.code == "label-noise"]
    said = "160 of 200 examples have the text of an earlier example; copies are in one fold"
    assert any(said in finding.message for finding in found) == (copies > 1)
    lines = {int(each.where.rpartition(" ")[2].rstrip(")")) for each in found if each.level == "warning"}
    assert len(lines & set(range(2, 22))) >= 16
    suspects = read_table(out.with_name("out.suspects.csv")).columns["line"]
    assert len({*map(int, suspects)} & set(range(2, 22))) >= (16 if copies == 1 else wrong - 1)


def test_labels_that_vectors_of_texts_do_not_tell_are_not_checked(table, ner, no_trial, tmp_path):
    """The place of the right ending; and the only entity of each sentence, whose class is not that of the sentence."""
    pytest.importorskip("cleanlab", reason="the extra checks is not installed")
    rows = [{"context": f"row {row}", "endings": [f"{row} a", f"{row} b"], "label": row % 2} for row in range(40)]
    path = write_json_lines(tmp_path / "rows.jsonl", rows)
    given = {"train_file": path, "validation_file": path, "max_seq_length": 16}
    of_choices = package.check("finetune/multiple-choice", model=table.model, labels=True, **given)
    for report in (of_choices, ner.report(labels=True)):
        [found] = [finding for finding in report.findings if finding.code == "label-noise"]
        assert found.message.startswith("the labels were not checked: this is for tasks with one class per text")


@pytest.mark.parametrize("frequent", [4, 50])
def test_labels_of_few_examples_are_not_checked(table, no_trial, frequent):
    pytest.importorskip("cleanlab", reason="the extra checks is not installed")
    table.train[:] = table.train[: 4 + frequent]
    for row, each in enumerate(table.train):
        each["label"] = "no" if row < 4 else "yes"
    report = table.report(labels=True)
    [found] = [finding for finding in report.findings if finding.code == "label-noise"]
    assert found.message == "the labels were not checked: that needs two classes of 5 different texts or more"


def test_a_grid_has_the_runs_of_each_setting(bertkit, words):
    grid = ["--grid", "train.weight_decay=0,0.1", "--seeds", 2]
    code, printed, _ = bertkit(*words, *grid, "--check")
    printed = " ".join(printed.split())
    assert code == 0
    assert "01-weight_decay=0: 2 runs, each: learning rate " in printed
    assert "4 runs of 2 settings" in printed
    assert printed.count("labels: problem: single_label") == 1
    code, as_json, _ = bertkit("check", *words, *grid, "--json")
    assert [plan["runs"] for plan in json.loads(as_json)["plan"].values()] == [2, 2]


def test_the_runs_of_a_search_are_those_of_its_trials(bertkit, words):
    pytest.importorskip("optuna", reason="the extra search is not installed")
    search = ["--search", "train.weight_decay=0,0.1,0.2", "--trials", 40, "--seeds", 2]
    code, printed, _ = bertkit(*words, *search, "--check")
    assert (code, "80 runs of 40 settings" in " ".join(printed.split())) == (0, True)


def test_the_copies_of_files_in_a_container_are_free_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("bertkit.features.checks.plan._CGROUP", tmp_path)
    for name, text in (("max", "1000"), ("current", "900"), ("stat", "anon 300\ninactive_file 600")):
        (tmp_path / f"memory.{name}").write_text(f"{text}\n")
    assert _find_available_memory("cpu") == 700


def test_the_memory_that_others_use_on_a_gpu_is_not_available(monkeypatch):
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (300, 1000))
    monkeypatch.setattr("torch.cuda.memory_reserved", lambda: 50)
    assert _find_available_memory("cuda") == 350


def test_equal_faults_of_rows_are_one_finding(table, no_trial):
    for row in range(30):
        table.train[row]["text"] = " "
    [found] = [finding for finding in table.report().findings if finding.code == "data"]
    assert found.message.count("text is empty") == 1
    assert "line 2: text is empty; write a text, or remove the row (30 times, also line 3, line 4, " in found.message
    assert "--fix OUT.csv" in found.remedy


def test_docs_list_every_code():
    documented = set(re.findall(r"^\| `([a-z][a-z-]*)` \|", DOCS.read_text(), re.M))
    assert documented == all_codes()


def test_a_report_shows_itself_in_notebooks():
    shown = Report((Finding(code="a", level="warning", where="train", message="m", remedy="r"),), {})._repr_html_()
    assert "<b>0 errors, 1 warning</b>" in shown
    assert "<th>warning: a</th><td>train: m → r</td>" in shown
