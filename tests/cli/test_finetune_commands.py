"""``bertkit finetune`` by the commands a user types: tables of one's own, several tasks of GLUE, other encoders; what
predict and evaluate make of the results; wrong input."""

from __future__ import annotations

import csv
import json
import shlex
import sys
from pathlib import Path

import pandas
import pytest
import torch

WORDS = {"awful": "neg", "bad": "neg", "good": "pos", "lovely": "pos"}
ROWS = [{"text": f"the {noun} is {word}", "label": WORDS[word]} for noun in ("film", "plot") for word in WORDS] * 2
PAIRS = [{"premise": "a good film", "hypothesis": row["text"], "label": row["label"]} for row in ROWS]
STORIES = [
    {"context": "the film", "ending0": "is lovely", "ending1": "or plot", "ending2": ("", "awful")[row % 2]}
    | {"label": str(row % 2)}
    for row in range(12)
]
SMALL = """--max-seq-length 16 --num-train-epochs 2 --learning-rate 1e-3 --placement cpu
    --set placement.mixed_precision=no --set train.global_train_batch_size=8""".split()


def write_table(path: Path, rows: list[dict[str, str]]) -> Path:
    """Rows in the form that the name of the file asks for."""
    frame = pandas.DataFrame(rows)
    frame.to_json(path, orient="records", lines=True) if path.suffix == ".jsonl" else frame.to_csv(path, index=False)
    return path


@pytest.fixture
def classify(bertkit, checkpoint, tmp_path):
    """``bertkit finetune classification`` on rows in files of a kind, to ``run``."""

    def run(kind: str, rows: list[dict[str, str]], *more: object) -> dict[str, float]:
        train, dev = (write_table(tmp_path / f"{name}.{kind}", rows) for name in ("train", "dev"))
        test = write_table(
            tmp_path / f"test.{kind}", [{k: v for k, v in row.items() if k != "label"} for row in rows[:3]]
        )
        outcome = bertkit(
            "finetune", "classification", "--train-file", train, "--validation-file", dev, "--test-file", test,
            "--model", checkpoint, "--output-dir", tmp_path / "run", "--json", *SMALL, *more,
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)

    return run


def test_unclear_columns_are_asked_for_with_the_command_to_repeat(bertkit, checkpoint, tmp_path):
    rows = [{"nr": row, "mail": f"{each['text']}, is it not", "dept": each["label"]} for row, each in enumerate(ROWS)]
    table = write_table(tmp_path / "two words.csv", rows)
    given = ("finetune", "classification", "--train-file", table, "--model", checkpoint)
    outcome = bertkit(*given, "--output-dir", tmp_path / "run", *SMALL)
    outcome.refuses()
    _, command = outcome.err.rstrip().rsplit("\n  ", 1)
    name, *words = shlex.split(command)
    assert (name, words[:4]) == ("bertkit", ["finetune", "classification", "--train-file", str(table)])
    assert words[-4:] == ["--text-column", "mail", "--label-column", "dept"]
    assert bertkit(*words).code == 0


def scores(out: Path) -> dict[str, float]:
    """Returns the metrics that ``eval_results.json`` and ``bertkit evaluate`` share."""
    found = json.loads((out / "eval_results.json").read_text())
    return {key: value for key, value in found.items() if key in ("eval_accuracy", "eval_f1", "eval_f1_macro")}


def test_set_takes_a_separator_that_yaml_reads_otherwise(classify, tmp_path):
    rows = [{**row, "label": f"{row['label']}|film" if row["label"] == "pos" else row["label"]} for row in ROWS]
    classify("csv", rows, "--set", "task.label_separator=|", "--set", "train.max_steps=1e0")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["label2id"] == {"film": 0, "neg": 1, "pos": 2}


@pytest.mark.parametrize(("kind", "rows"), [("csv", ROWS), ("jsonl", PAIRS)])
def test_a_table_is_trained_on_scored_and_predicted(bertkit, classify, tmp_path, kind, rows):
    result = classify(kind, rows)
    out = tmp_path / "run"
    assert result["output_dir"] == str(out)
    assert scores(out).items() <= result.items()
    evaluated = json.loads(bertkit("evaluate", out, "--validation-file", tmp_path / f"dev.{kind}", "--json").out)
    assert evaluated["examples"] == len(rows)
    for key, value in scores(out).items():
        assert evaluated["metrics"][key] == pytest.approx(value, abs=1e-6)

    written = tmp_path / "predictions.jsonl"
    outcome = bertkit("predict", out, "--input", tmp_path / f"dev.{kind}", "--output", written)
    assert (outcome.code, outcome.out) == (0, "")
    predicted = [json.loads(line) for line in written.read_text().splitlines()]
    texts = [key for key in rows[0] if key != "label"]
    assert [[row[key] for key in texts] for row in predicted] == [[row[key] for key in texts] for row in rows]
    right = sum(row["label"] == given["label"] for row, given in zip(predicted, rows, strict=True))
    assert result["eval_accuracy"] == pytest.approx(right / len(rows))  # the score counts what predict says
    tested = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    assert [row["label"] for row in tested] == [row["label"] for row in predicted[:3]]


def test_labels_are_named_before_the_training(bertkit, checkpoint, tmp_path):
    """Classes as pandas writes them, in a run and in its evaluation; no class overwrites a metric."""
    numbers = [{**row, "label": f"{row['label'] == 'pos':.1f}"} for row in ROWS]
    names = [{**row, "label": "average" if row["label"] == "pos" else "overall"} for row in ROWS]
    for rows, line in ((numbers, "'0.0', '1.0' are read as '0', '1'"), (names, "('average' ")):
        table, out = write_table(tmp_path / "rows.csv", rows), tmp_path / f"run-{rows[0]['label']}"
        files = ("--train-file", table, "--validation-file", table)
        outcome = bertkit("finetune", "classification", *files, "--model", checkpoint, "--output-dir", out, *SMALL)
        assert outcome.code == 0
        said = outcome.err.partition("step 1")[0]
        assert "train: problem: single_label with 2 classes" in said
        assert line in said
        assert any(line in note for note in json.loads((out / "run.json").read_text())["data"]["train"]["notes"])
    found = json.loads((out / "eval_results.json").read_text())
    assert {f"eval_class/{name}/f1" for name in ("average", "overall")} <= found.keys()
    assert 0 <= found["eval_average_precision"] <= 1
    write_table(tmp_path / "rows.csv", numbers)
    evaluated = bertkit("evaluate", tmp_path / "run-0.0", "--validation-file", tmp_path / "rows.csv")
    assert "validation: '0.0', '1.0' are read as '0', '1'" in evaluated.err


def test_texts_come_in_every_form(bertkit, classify, tmp_path, monkeypatch):
    classify("csv", ROWS)
    out, texts = tmp_path / "run", ["the film is good", 'awful, "bad" film']
    given = bertkit("predict", out, *texts).out
    assert [line.split("\t")[2] for line in given.splitlines()] == texts
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(texts) + "\n")
    assert bertkit("predict", out, "--input", lines).out == given
    table = write_table(tmp_path / "in.csv", [{"id": "7", "text": text} for text in texts])
    assert bertkit("predict", out, "--input", table).out == given
    with lines.open() as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        assert bertkit("predict", out, "--input", "-").out == given

    for name in ("out.csv", "out.jsonl"):
        assert bertkit("predict", out, "--input", table, "--output", tmp_path / name).code == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    with (tmp_path / "out.csv").open(newline="") as file:
        flat = list(csv.DictReader(file))
    assert [row["text"] for row in flat] == [row["text"] for row in rows] == texts
    for one, other, line in zip(flat, rows, given.splitlines(), strict=True):
        assert one["label"] == other["label"] == line.split("\t")[0]
        assert float(one["probabilities.pos"]) == pytest.approx(other["probabilities"]["pos"], rel=1e-5)
        assert float(one["probability"]) == pytest.approx(float(line.split("\t")[1]), abs=5e-5)


def test_multiple_choice(bertkit, checkpoint, tmp_path):
    table, out = write_table(tmp_path / "stories.csv", STORIES), tmp_path / "run"
    outcome = bertkit(
        "finetune", "multiple-choice", "--train-file", table, "--validation-file", table, "--test-file", table,
        "--model", checkpoint, "--output-dir", out, *SMALL,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    accuracy = scores(out)["eval_accuracy"]
    assert f"validation accuracy {accuracy:.4f}" in outcome.out.splitlines()
    evaluated = json.loads(bertkit("evaluate", out, "--validation-file", table, "--json").out)
    assert evaluated["metrics"]["eval_accuracy"] == pytest.approx(accuracy, abs=1e-6)
    tested = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    assert [len(row["probabilities"]) for row in tested] == [2, 3] * 6
    assert accuracy == pytest.approx(
        sum(str(row["choice"]) == given["label"] for row, given in zip(tested, STORIES, strict=True)) / 12
    )
    line = "the film\tis lovely\tor plot"
    said = bertkit("predict", out, line).out.split("\t")
    assert said[0] == str(tested[0]["choice"])
    assert float(said[1]) == pytest.approx(tested[0]["probability"], abs=1e-4)
    written = tmp_path / "out.csv"
    assert bertkit("predict", out, "--input", table, "--output", written).code == 0
    with written.open(newline="") as file:
        assert [int(row["choice"]) for row in csv.DictReader(file)] == [row["choice"] for row in tested]


@pytest.mark.parametrize("family", ["roberta", pytest.param("distilbert", marks=pytest.mark.slow)])
def test_another_encoder_is_tuned_and_loads_without_bertkit(bertkit, stock_models, tmp_path, family):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    start = stock_models.stock_checkpoint(tmp_path / family, family, "AutoModelForMaskedLM", initializer_range=0.1)
    out = tmp_path / "run"
    table = write_table(tmp_path / "t.csv", ROWS)
    outcome = bertkit(
        "finetune", "classification", "--train-file", table, "--validation-file", table, "--model", start,
        "--output-dir", out, "--json", *SMALL,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    model = AutoModelForSequenceClassification.from_pretrained(out).eval()
    assert type(model).__module__.startswith(f"transformers.models.{family}")
    tokens = AutoTokenizer.from_pretrained(out)([row["text"] for row in ROWS], padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]).logits
    labels = [model.config.id2label[index] for index in logits.argmax(-1).tolist()]
    right = sum(label == row["label"] for label, row in zip(labels, ROWS, strict=True))
    assert json.loads(outcome.out)["eval_accuracy"] == pytest.approx(right / len(ROWS))
    predicted = bertkit("predict", out, *[row["text"] for row in ROWS]).out
    assert [line.split("\t")[0] for line in predicted.splitlines()] == labels
    card = (out / "README.md").read_text()
    assert "import bertkit" not in card
    assert "trust_remote_code" not in card
    assert f"- {family}\n" in card
    assert f"# {family} fine-tuned on classification\n" in card
    assert not list(out.glob("*.py"))


# ---- several tasks of GLUE ------------------------------------------------------------------------------------------


@pytest.fixture
def glue(tmp_path):
    """RTE and WNLI, six rows each."""
    for folder, labels in (("RTE", ("entailment", "not_entailment")), ("WNLI", ("0", "1"))):
        (tmp_path / "glue" / folder).mkdir(parents=True)
        rows = [f"{row}\tthe film is good\tthe plot is bad\t{labels[row % 2]}" for row in range(6)]
        for name in ("train", "dev"):
            text = "\n".join(["index\tsentence1\tsentence2\tlabel", *rows]) + "\n"
            (tmp_path / "glue" / folder / f"{name}.tsv").write_text(text)
        (tmp_path / "glue" / folder / "test.tsv").write_text("index\tsentence1\tsentence2\n0\tthe film\tthe plot\n")
    return tmp_path / "glue"


def test_several_tasks_print_a_table_or_json(bertkit, checkpoint, glue, tmp_path):
    out = tmp_path / "out"
    command = ("finetune", "glue", "--task", "rte,wnli", "--model", checkpoint, "--data-dir", glue, "--output-dir", out)
    outcome = bertkit(*command, *SMALL, "--resume")  # there is nothing to resume yet
    assert outcome.code == 0, outcome.err
    # Half of the rows of a set have each label, and all have the same text.
    assert [line.partition(", collapsed: all predictions are ")[0] for line in outcome.out.splitlines()] == [
        "task     score  metrics",
        "rte      50.0   accuracy 0.5000",
        "wnli     50.0   accuracy 0.5000",
        "average  50.0   of 2 tasks, on dev",
        f"for the leaderboard: {out}/glue_submission.zip; the leaderboard also requires CoLA.tsv, MNLI-m.tsv, "
        "MNLI-mm.tsv, AX.tsv, MRPC.tsv, QNLI.tsv, QQP.tsv, SST-2.tsv, STS-B.tsv",
    ]
    for more in ((), ("--resume",)):
        again = bertkit(*command, *SMALL, *more, "--json")
        result = json.loads(again.out)
        assert again.err == f"1/2 rte: already finished; {out}/rte\n2/2 wnli: already finished; {out}/wnli\n"
        assert result["scores"] == {"rte": 50.0, "wnli": 50.0}
        assert result["average"] == 50.0
        assert list(result["collapsed"]) == ["rte", "wnli"]
        assert result["submission"] == str(out / "glue_submission.zip")
        assert "RTE.tsv" not in result["missing"]


# ---- wrong input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--task", "rte,wnli,rte"], ["--task rte,wnli,rte: names a task twice"]),
        (["--task", "rte,wnli", "--recipe", "sst2"], ["--recipe is for one run, and --task rte,wnli names several"]),
        (["--task", "all"], ["CoLA/dev.tsv", "the other tasks have no faults: --task rte,wnli"]),
        (["--task", "rte,wnli", "--max-seq-length", "900"], ["900 tokens, but", "has 64 positions"]),
        (["--task", "rte,wnli", "--set", "train.early_stopping_patience=1", "--set", "train.eval_strategy=no"],
         ["train.early_stopping_patience: nothing is evaluated during training; set train.eval_strategy"]),
    ],
)  # fmt: skip
def test_wrong_input_of_several_tasks(bertkit, checkpoint, glue, tmp_path, arguments, expected):
    out = tmp_path / "out"
    outcome = bertkit(
        "finetune", "glue", *arguments, "--model", checkpoint, "--data-dir", glue, "--output-dir", out,
        "--placement", "cpu",
    )  # fmt: skip
    outcome.refuses(*expected, without=out)


@pytest.mark.parametrize(
    ("table", "arguments", "expected"),
    [
        ("text,label\ngood,1\nbad\n", [], ["t.csv, line 3"]),
        (
            "text,label\ngood,1\nbad,0\n",
            ["--text-column", "txt"],
            ["--text-column: no column 'txt'", "mean 'text'?"],
        ),
        (
            "text,verdict\ngood,1\nbad,0\n",
            [],
            ["which of its columns has the labels", "--label-column verdict"],
        ),
        ("text,label\ngood,1\nbad,0\n", ["--stride", "4"], ["data.stride: 4 needs long_text: chunk"]),
    ],
)
def test_wrong_input_of_classification(bertkit, checkpoint, tmp_path, table, arguments, expected):
    file, out = tmp_path / "t.csv", tmp_path / "out"
    file.write_text(table)
    command = ("finetune", "classification", "--train-file", file, "--validation-file", file, "--model", checkpoint)
    bertkit(*command, "--output-dir", out, *SMALL, *arguments).refuses(*expected, without=out)


def test_no_table_at_all(bertkit, checkpoint, tmp_path):
    out = tmp_path / "out"
    for command in ("classification", "multiple-choice"):
        outcome = bertkit("finetune", command, "--model", checkpoint, "--output-dir", out, *SMALL)
        outcome.refuses("no table to read; give --train-file", without=out)
