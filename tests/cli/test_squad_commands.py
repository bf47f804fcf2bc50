"""``bertkit finetune squad`` by the commands a user types, what predict and evaluate make of it, and wrong input."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bertkit import load, metrics

WORDS = ("film", "story", "plot")
SMALL = """--max-seq-length 24 --max-query-length 6 --doc-stride 4 --max-steps 30 --learning-rate 1e-2 --placement cpu
    --set placement.mixed_precision=no --set train.global_train_batch_size=8""".split()


def question(index: int, negative: bool) -> dict[str, Any]:
    """The answer is the word after "good"; where the text has no "good" there is none. Long texts take two windows."""
    word = WORDS[index % 3]
    has_answer = not negative or index % 2 == 0
    context = "the plot is bad or awful the " * (index % 3 + 1) + f"{'good' if has_answer else 'bad'} {word} is lovely"
    answers = [{"text": word, "answer_start": context.rindex(word)}] if has_answer else []
    asked = {"id": f"q{index}", "question": "good", "answers": answers}
    return {"context": context, "qas": [asked | ({"is_impossible": not has_answer} if negative else {})]}


def write_files(folder: Path, negative: bool) -> tuple[Path, Path]:
    """Writes SQuAD's JSON, where it is not there yet: 24 questions to train on, and 9."""
    paths = folder / "train.json", folder / "dev.json"
    for path, count in zip(paths, (24, 9), strict=True):
        paragraphs = [question(index, negative) for index in range(count)]
        if not path.exists():
            path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    return paths


def words(folder: Path, negative: bool, model: Path, *more: object) -> list[object]:
    """The words of ``bertkit finetune squad`` from files in a folder to its ``run``."""
    train, dev = write_files(folder, negative)
    flags = ["--version-2-with-negative"] if negative else []
    files = ["--train-file", train, "--validation-file", dev, "--output-dir", folder / "run"]
    return ["finetune", "squad", *flags, *files, "--model", model, *SMALL, *more]


@pytest.fixture
def squad(bertkit, checkpoint, tmp_path):
    """``bertkit finetune squad`` to ``run``; gives the outcome."""

    def run(negative: bool, *more: object, model: Path = checkpoint) -> Any:
        return bertkit(*words(tmp_path, negative, model, *more))

    return run


class Answered:
    """A run: its folder, its result, and the files that it has written; the context and answers of each question."""

    def __init__(self, folder: Path, negative: bool, result: dict[str, Any]):
        self.negative, self.result, self.out, self.dev = negative, result, folder / "run", folder / "dev.json"
        rows = [question(index, negative) for index in range(9)]
        self.asked = {row["qas"][0]["id"]: (row["context"], row["qas"][0]["answers"]) for row in rows}
        self.predicted = json.loads((self.out / "predictions.json").read_text())
        self.best = json.loads((self.out / "nbest_predictions.json").read_text())
        odds = self.out / "null_odds.json"
        self.odds = json.loads(odds.read_text()) if odds.exists() else {}
        self.threshold = json.loads((self.out / "config.json").read_text())["bertkit_task"]["task"]["predict_threshold"]


@pytest.fixture(scope="module", params=[False, True], ids=["1.1", "2.0"])
def answered(request, checkpoint, forks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("answered")
    command = [forks.folder / "bertkit", *words(folder, request.param, checkpoint, "--json")]
    done = subprocess.run(list(map(str, command)), env=forks.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Answered(folder, request.param, json.loads(done.stdout))


def test_the_files_alone_give_the_scores_of_the_run(answered):
    assert answered.predicted.keys() == answered.asked.keys()
    rows = [{"id": key, "prediction_text": text} for key, text in answered.predicted.items()]
    references = [
        {"id": key, "answers": {name: [each[name] for each in answers] for name in ("text", "answer_start")}}
        for key, (_, answers) in answered.asked.items()
    ]
    assert bool(answered.odds) == answered.negative
    if answered.negative:
        assert [bool(text) for text in answered.predicted.values()] == [odds <= 0 for odds in answered.odds.values()]
        rows = [{**row, "no_answer_probability": answered.odds[row["id"]]} for row in rows]
        scores = metrics.load("squad_v2").compute(predictions=rows, references=references, no_answer_threshold=0.0)
        assert answered.result["eval_NoAns_total"] == 4
    else:
        scores = metrics.load("squad").compute(predictions=rows, references=references)
    for name in ("exact", "f1") if answered.negative else ("exact_match", "f1"):
        assert answered.result[f"eval_{name}"] == pytest.approx(scores[name])
    assert all(each["text"] in answered.asked[key][0] for key, spans in answered.best.items() for each in spans)


def test_evaluating_and_predicting_say_the_same_as_the_run(bertkit, answered, tmp_path):
    evaluated = json.loads(bertkit("evaluate", answered.out, "--validation-file", answered.dev, "--json").out)
    assert evaluated["examples"] == 9
    for name, value in evaluated["metrics"].items():
        assert answered.result[name] == pytest.approx(value, abs=1e-4), name
    written, best = tmp_path / "out.jsonl", answered.best
    assert bertkit("predict", answered.out, "--input", answered.dev, "--output", written).code == 0
    assert answered.threshold == (answered.result["eval_best_f1_thresh"] if answered.negative else None)
    rows = map(json.loads, written.read_text().splitlines())
    for row, (key, (context, _)) in zip(rows, answered.asked.items(), strict=True):
        if answered.negative:
            # The best threshold is the value of one of the questions; in another batch its last digits may differ.
            if abs(answered.odds[key] - answered.threshold) > 1e-5:
                assert bool(row["answer"]) == (answered.odds[key] < answered.threshold)
            assert 0 <= row["no_answer_probability"] <= 1
        else:
            assert row["answer"] == answered.predicted[key]
        if row["answer"]:
            assert context[row["start"] : row["end"]] == row["answer"]
            assert row["probability"] == pytest.approx(best[key][best[key][0]["text"] == ""]["probability"], rel=1e-3)
        else:
            assert (row["start"], row["end"]) == (None, None)


def test_several_questions_of_one_context(bertkit, answered, tmp_path):
    """At the shell and from Python."""
    odds, out = answered.odds, answered.out
    surest = max(odds, key=lambda key: abs(odds[key] - answered.threshold)) if odds else "q2"
    context = answered.asked[surest][0]
    (tmp_path / "context.txt").write_text(context)
    found = load(out, device="cpu").predict(question=["good", "lovely"], context=context)
    expected = [{"question": asked} | row for asked, row in zip(("good", "lovely"), found, strict=True)]
    for given in (("--context", context), ("--context-file", tmp_path / "context.txt")):
        outcome = bertkit("predict", out, "--question", "good", "--question", "lovely", *given, "--json")
        assert json.loads(outcome.out)["predictions"] == expected
    (alone,) = load(out, device="cpu").predict(question="good", context=context)
    assert alone["probability"] == pytest.approx(found[0]["probability"], rel=1e-4)
    (line,) = bertkit("predict", out, f"good\t{context}").out.splitlines()
    assert line.split("\t")[0] == (found[0]["answer"] or "(no answer)")


def test_another_encoder_answers_too(squad, stock_models, tmp_path):
    """RoBERTa: bytes are its tokens, two separators stand between question and text, and it has no token types."""
    roberta = stock_models.stock_checkpoint(tmp_path / "roberta", "roberta", "AutoModelForMaskedLM")
    outcome = squad(True, "--max-seq-length", 40, "--max-steps", 3, "--json", model=roberta)
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["eval_total"] == 9
    predicted = json.loads((tmp_path / "run" / "nbest_predictions.json").read_text())
    for index in range(9):
        asked = question(index, negative=True)
        (row,) = load(tmp_path / "run", device="cpu").predict(question="good", context=asked["context"])
        assert asked["context"][row["start"] or 0 : row["end"] or 0] == row["answer"]
        best = predicted[asked["qas"][0]["id"]][0]
        if row["answer"] and best["text"]:
            assert (row["answer"], row["probability"]) == (best["text"], pytest.approx(best["probability"], rel=1e-3))


@pytest.mark.slow
def test_it_finds_answers_of_second_windows(squad, tmp_path):
    outcome = squad(False, "--max-steps", 150, "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["eval_exact_match"] > 80
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["data"]["validation"]["examples"] == 9
    assert record["truncation"]["validation"]["of_examples"] > 9  # windows


def test_a_resumed_run_with_nothing_left_to_train_writes_its_predictions_again(squad, tmp_path):
    files = [tmp_path / "run" / name for name in ("predictions.json", "null_odds.json", "nbest_predictions.json")]
    assert squad(True, "--set", "train.save_steps=10").code == 0
    written = [file.read_text() for file in files]
    for file in files:
        file.unlink()
    resumed = squad(True, "--set", "train.save_steps=10", "--resume")
    assert resumed.code == 0, resumed.err
    assert [file.read_text() for file in files] == written


def test_misplaced_answers_and_cut_questions_are_recorded(squad, tmp_path):
    train, _ = write_files(tmp_path, False)
    document = json.loads(train.read_text())
    document["data"][0]["paragraphs"][5]["qas"][0]["answers"][0]["answer_start"] += 1
    document["data"][0]["paragraphs"][6]["qas"][0]["question"] = "good bad film story plot is lovely or awful"
    train.write_text(json.dumps(document))
    outcome = squad(False)
    assert outcome.code == 0, outcome.err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    (note,) = record["data"]["train"]["notes"]
    assert note.startswith("answers that are not in the context at answer_start: 1, 1 of 24 questions dropped: q5 (")
    assert f"train: {note}" in outcome.err
    assert record["data"]["train"]["examples"] == 23
    assert (record["truncation"]["train"]["examples"], record["truncation"]["train"]["tokens"]) == (1, 3)
    assert "a larger --max-query-length keeps more" in outcome.err


# ---- wrong input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--doc-stride", 15],
            ["data.doc_stride: 15, but windows have 15 tokens", "expected 0 to 14"],
        ),
        (["--null-score-diff-threshold", -1], ["null_score_diff_threshold: needs version_2_with_negative"]),
        (["--validation-file", "none.json"], ["none.json: cannot be read: No such file"]),
    ],
)
def test_wrong_input(squad, tmp_path, arguments, expected):
    outcome = squad(False, *arguments)
    outcome.refuses(*expected, without=tmp_path / "run")


def test_questions_without_answers_are_for_2_0(squad, tmp_path):
    write_files(tmp_path, True)
    squad(False).refuses("(id q1): no answer; give --version-2-with-negative if questions may have none")


def test_a_validation_set_is_required(bertkit, checkpoint, tmp_path):
    train, _ = write_files(tmp_path, True)
    command = ("finetune", "squad", "--train-file", train, "--model", checkpoint, "--output-dir", tmp_path / "run")
    bertkit(*command, *SMALL).refuses("no questions to score; give --validation-file")


def test_wrong_questions(bertkit, fine_tuned):
    for arguments, expected in (
        (["--question", "who"], "--question and --context (or --context-file) must be given together"),
        (["--context", "a"], "must be given together"),
        (["--question", "a", "--context", "b", "--context-file", "c"], "--context-file: give only one of them"),
        (["--question", "a", "--context", "b", "text"], "give texts as arguments, or a file"),
        (["--question", "", "--context", "b"], "question 1: empty; give"),
        (["--question", "a", "--context-file", "none.txt"], "none.txt"),
        (["no tab"], "input 1: expected a question and a text separated by a tab, got 'no tab'"),
    ):
        bertkit("predict", fine_tuned("answers"), *arguments).refuses(expected)


def test_questions_are_no_texts_to_classify(bertkit, fine_tuned):
    asked = bertkit("predict", fine_tuned("film"), "--question", "a", "--context", "b")
    asked.refuses("classification: expected texts only, without question or context")
