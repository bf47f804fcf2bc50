"""The way through by the commands a user types, on small made-up data: text → BERT → SST-2 → a prediction."""

from __future__ import annotations

import json
import random

import pytest

SMALL = [
    "--set=model.num_hidden_layers=1",
    "--set=model.hidden_size=32",
    "--set=model.intermediate_size=64",
    "--set=data.max_predictions_per_seq=5",
    "--placement=cpu",
]


@pytest.fixture
def data(tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HOME", str(tmp_path / "cache"))
    rng = random.Random(0)
    words = "the a film plot story is was lovely awful very and then we saw it".split()
    corpus = tmp_path / "text"
    corpus.mkdir()
    for number in range(6):
        lines = [" ".join(rng.choices(words, k=7)).capitalize() + "." for _ in range(20)]
        (corpus / f"{number}.txt").write_text("\n\n".join(lines))
    glue = tmp_path / "SST-2"
    glue.mkdir()
    for name in ("train", "dev"):
        rows = [
            f"the {rng.choice(['film', 'plot'])} is {('awful', 'lovely')[index % 2]}\t{index % 2}"
            for index in range(32)
        ]
        (glue / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    (glue / "test.tsv").write_text("index\tsentence\n0\tthe film is lovely\n")
    return tmp_path


def test_the_whole_way(bertkit, data):
    pretrained, tuned = data / "bert", data / "sst2"
    outcome = bertkit(
        "pretrain", "--recipe", "bert-tiny", "--corpus", data / "text", "--vocab-size", 80, "--output-dir", pretrained,
        "--max-steps", 3, "--global-train-batch-size", 8, "--max-seq-length", 32, *SMALL,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    results, _, following = outcome.out.partition("next:\n")
    assert [line.rsplit(" ", 1)[0] for line in results.splitlines()] == [
        "held-out masked LM loss",
        "held-out masked LM accuracy",
        "held-out next sentence loss",
        "held-out next sentence accuracy",
        "results, checkpoint and model card:",
    ]
    assert all(line.startswith("  bertkit ") for line in following.splitlines())
    assert "pretrain: step 3/3" in outcome.err

    outcome = bertkit(
        "finetune", "glue", "--task", "sst2", "--model", pretrained, "--data-dir", data, "--output-dir", tuned,
        "--num-train-epochs", 1, "--max-seq-length", 32, "--placement", "cpu", "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)  # exactly one JSON object
    assert result["output_dir"] == str(tuned)

    outcome = bertkit("evaluate", tuned, "--data-dir", data, "--json")
    assert json.loads(outcome.out)["metrics"]["eval_accuracy"] == result["eval_accuracy"]
    assert (
        bertkit("evaluate", tuned, "--data-dir", data).out.splitlines()[0] == f"accuracy {result['eval_accuracy']:.4f}"
    )

    outcome = bertkit("predict", tuned, "the film is lovely", "the plot is awful")
    assert outcome.code == 0
    rows = [line.split("\t") for line in outcome.out.splitlines()]
    assert [row[2] for row in rows] == ["the film is lovely", "the plot is awful"]
    assert all(row[0] in ("negative", "positive") and 0.5 <= float(row[1]) <= 1 for row in rows)

    out = data / "predictions.jsonl"
    texts = data / "texts.txt"
    texts.write_text("the film is lovely\nthe plot is awful\n")
    outcome = bertkit("predict", tuned, "--input", texts, "--output", out)
    assert (outcome.code, outcome.out) == (0, "")
    assert [json.loads(line)["label"] for line in out.read_text().splitlines()] == [row[0] for row in rows]
