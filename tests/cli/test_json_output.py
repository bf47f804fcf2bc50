"""``--json``: commands print one JSON value on stdout."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pyarrow
import pyarrow.parquet as parquet
import pytest


def test_recipes(bertkit, tmp_path):
    assert "finetune/ner" in json.loads(bertkit("recipes", "list", "--json").out)
    assert json.loads(bertkit("recipes", "show", "cpu", "--json").out) == {
        "placement": {"device": "cpu", "mixed_precision": "no"}
    }
    target = tmp_path / "own.yaml"
    assert json.loads(bertkit("recipes", "copy", "cpu", target, "--json").out) == {"recipe": str(target)}
    assert json.loads(bertkit("recipes", "validate", target, "--json").out) == {"valid": [str(target)]}
    assert json.loads(bertkit("recipes", "schema", "--kind", "ner").out)["title"].endswith("task ner")


def test_tokenizers_and_corpora(bertkit, tmp_path):
    (tmp_path / "text.txt").write_text("The cat sees the dog. The dog sees a tree.\n\nA house is near the river.\n" * 9)
    tokenizer = tmp_path / "tokenizer"
    made = bertkit(
        "tokenizer", "train", "--corpus", tmp_path / "text.txt", "--vocab-size", 60, "--output-dir", tokenizer, "--json"
    )
    found = json.loads(made.out)
    assert found.keys() == {"output_dir", "vocab_size"}
    assert 5 < found["vocab_size"] <= 60
    store = tmp_path / "store"
    built = bertkit(
        "corpus", "build", "--corpus", tmp_path / "text.txt", "--tokenizer", tokenizer, "--output-dir", store,
        "--workers", 1, "--json",
    )  # fmt: skip
    found = json.loads(built.out)
    assert found["output_dir"] == str(store)
    assert found["documents"] == 1
    assert found["tokens"] > found["sentences"] > 9


def test_the_address_of_a_server(monkeypatch, bertkit):
    """A server prints it when connections are accepted; with --port 0 nobody else knows it."""
    import bertkit as package

    for command in ("serve", "demo"):
        monkeypatch.setattr(package, command, lambda checkpoint, ready=None, **_: ready and ready("http://[::1]:7"))
        assert json.loads(bertkit(command, "x", "--json").out) == {"address": "http://[::1]:7"}
        assert bertkit(command, "x").out == ""


@pytest.mark.parametrize("name", ["empty.txt", "header.csv", "empty.jsonl"])
def test_an_empty_file_gives_an_empty_list(bertkit, fine_tuned, tmp_path, name):
    (tmp_path / name).write_text("text\n" if name == "header.csv" else "")
    done = bertkit("predict", fine_tuned("film"), "--input", tmp_path / name, "--json")
    assert (done.code, json.loads(done.out)) == (0, {"predictions": []})
    assert f"--input {tmp_path / name}: contains no texts" in done.err
    done = bertkit("predict", fine_tuned("film"), "--input", tmp_path / name)
    assert (done.code, done.out) == (0, "")
    done = bertkit("embed", fine_tuned("film"), "--input", tmp_path / name, "--output", tmp_path / "out.npz")
    assert (done.code, done.out) == (0, f"0 texts, 32 numbers each: {tmp_path / 'out.npz'}\n")


def test_a_block_whose_inputs_were_all_skipped(bertkit, fine_tuned, tmp_path):
    (tmp_path / "pairs.txt").write_text("no pair\n" * 1024 + "a film\tgood\n")
    command = ["predict", fine_tuned("pairs"), "--input", tmp_path / "pairs.txt", "--on-error", "skip", "--json"]
    assert [row["text"] for row in json.loads(bertkit(*command).out)["predictions"]] == ["a film\tgood"]
    (tmp_path / "pairs.txt").write_text("no pair\n")
    bertkit(*command).refuses("the only input was skipped")


def test_values_that_json_lacks_are_those_of_files(bertkit, fine_tuned, tmp_path):
    rows = {"text": ["a film"], "day": [date(2024, 2, 29)], "price": [Decimal("1.50")], "image": [b"\xff"]}
    parquet.write_table(pyarrow.table(rows), tmp_path / "rows.parquet")
    command = ["predict", fine_tuned("film"), "--input", tmp_path / "rows.parquet"]
    [printed] = json.loads(bertkit(*command, "--json").out)["predictions"]
    assert (printed["day"], printed["price"], printed["image"]) == ("2024-02-29", "1.50", "/w==")
    for name in ("out.jsonl", "out.csv"):
        assert bertkit(*command, "--output", tmp_path / name).code == 0
    assert json.loads((tmp_path / "out.jsonl").read_text()) == printed
    assert ",2024-02-29,1.50,/w==," in (tmp_path / "out.csv").read_text()


def test_ten_labels_are_printed_by_default(bertkit, fine_tuned):
    for options, labels in (((), 10), (("--all-probabilities",), 15)):
        [row] = json.loads(bertkit("predict", fine_tuned("intents"), "a film", "--json", *options).out)["predictions"]
        assert len(row["probabilities"]) == labels
