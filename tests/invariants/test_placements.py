"""Placement changes the speed and never the result: each command as one process, accumulated, as two processes and with
shared weights gives the same losses, gradients, weights, scores and predictions."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stock_models import stock_checkpoint
from tests.training.conftest import WORDS, curve

from .conftest import NO_DROPOUT, NO_REPORT, weights

pytestmark = pytest.mark.multiprocess

ONE, REAL = "1 × 8", "2 processes × 4"
WAYS = {
    ONE: [],
    "4 × 2": ["--set", "placement.per_device_train_batch_size=2"],
    REAL: ["--num-processes", "2"],
    "2 processes × 2 × 2": ["--num-processes", "2", "--set", "placement.per_device_train_batch_size=2"],
    "2 processes, fsdp": ["--set", "placement.strategy=fsdp", "--num-processes", "2"],
}
FEWER = {way: WAYS[way] for way in (ONE, "2 processes × 2 × 2", "2 processes, fsdp")}
"""Accumulation by several processes, for what shares the Trainer of GLUE; GLUE is run in every way, with reports."""
RUN = "--placement cpu --global-train-batch-size 8 --learning-rate 1e-3 --json".split()
RUN += "--set train.logging_steps=1 --set placement.per_device_eval_batch_size=3 --set train.weight_decay=0.1".split()


def config(folder: Path) -> dict[str, Any]:
    """The configuration, without the threshold that is found by the scores: it is among these."""
    found = json.loads((folder / "config.json").read_text())
    found.get("bertkit_task", {}).get("task", {}).pop("predict_threshold", None)
    return found


def assert_same(folder: Path, one: Path, files: tuple[str, ...] = ()) -> None:
    np.testing.assert_allclose(curve(folder), curve(one), rtol=1e-5, atol=1e-7)
    expected, got = weights(one), weights(folder)
    assert got.keys() == expected.keys()
    for name, tensor in expected.items():
        if name.endswith(("key.bias", "qa_outputs.bias")):
            continue  # softmax does not see them: their gradients are rounding, which Adam makes large
        np.testing.assert_allclose(got[name], tensor, rtol=1e-5, atol=1e-6, err_msg=name)
    results = [json.loads((each / "all_results.json").read_text()) for each in (folder, one)]
    scores = [{key: value for key, value in each.items() if key.startswith(("eval_", "predict_"))} for each in results]
    timing = ("_runtime", "_per_second", "_time")
    for key in [key for key in scores[1] if not key.endswith(timing)]:
        assert scores[0][key] == pytest.approx(scores[1][key], rel=1e-5), key
    assert {path.name for path in folder.glob("*.*")} == {path.name for path in one.glob("*.*")}
    assert config(folder) == config(one)
    state = [json.loads((each / "trainer_state.json").read_text())["num_input_tokens_seen"] for each in (folder, one)]
    assert state[0] == state[1]
    for name in files:
        assert (folder / name).read_text() == (one / name).read_text(), name


def compare(
    bertkit, tmp_path, command: list[str | Path], files: tuple[str, ...] = (), ways: dict[str, list[str]] = WAYS
) -> None:
    for way, flags in ways.items():
        # Processes that a user starts differ in the order of their sets; forks do not.
        more = [*flags, *([] if ways is WAYS else NO_REPORT), "--output-dir", tmp_path / way]
        done = bertkit([*command, *RUN, *more], real=way == REAL)
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)  # one process speaks
        assert done.stderr.count("placement:") == 1
        assert "Warning" not in done.stderr
    for way in list(ways)[1:]:
        assert_same(tmp_path / way, tmp_path / ONE, files)


def test_glue(bertkit, tmp_path, start, glue_folder):
    command = ["finetune", "glue", "--task", "sst2", "--model", start, "--data-dir", glue_folder]
    compare(bertkit, tmp_path, [*command, "--num-train-epochs", "2"], ("predict_results_sst2.tsv",))


def test_squad(bertkit, tmp_path, start, squad_files):
    train, validation = squad_files
    command = ["finetune", "squad", "--version-2-with-negative", "--model", start, "--max-seq-length", "40"]
    command += ["--doc-stride", "8", "--max-query-length", "10", "--train-file", train, "--validation-file", validation]
    compare(bertkit, tmp_path, [*command, "--num-train-epochs", "1"], ("predictions.json",), FEWER)


def test_ner_with_weights_of_classes(bertkit, tmp_path, start, ner_files):
    command = ["finetune", "ner", "--model", start, "--num-train-epochs", "2", "--class-weights", "balanced"]
    command += [part for split, file in ner_files.items() for part in (f"--{split}-file", file)]
    compare(bertkit, tmp_path, command, ("predictions.conll",), FEWER)


@pytest.mark.parametrize(("pair_objective", "tied"), [("nsp", "true"), ("none", "false")])
def test_pretrain(bertkit, tmp_path, corpus, pair_objective, tied):
    command = ["pretrain", "--recipe", "bert-tiny", "--corpus", corpus, "--vocab-size", "90", "--max-steps", "4"]
    command += ["--set", "model.num_hidden_layers=1", "--set", "model.hidden_size=32", *NO_DROPOUT]
    command += ["--set", "model.intermediate_size=64", "--set", "data.phases={16: 0.5, 32: 0.5}"]
    command += ["--set", "data.max_predictions_per_seq=5", "--pair-objective", pair_objective]
    command += ["--set", f"model.tie_word_embeddings={tied}"]
    compare(bertkit, tmp_path, command, ways=FEWER)


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_pretrain_other_encoders(bertkit, tmp_path, corpus, family):
    folder = stock_checkpoint(tmp_path / "start", family, "AutoModelForMaskedLM", initializer_range=0.02)
    command = ["pretrain", "--model", folder, "--pair-objective", "none", "--corpus", corpus, "--max-steps", "4"]
    command += ["--max-seq-length", "32", "--set", "train.vocabulary_steps=2"]
    command += NO_DROPOUT if family == "roberta" else []
    compare(bertkit, tmp_path, command, ways=FEWER)


@pytest.mark.parametrize("objective", ["distilbert", "minilm"])
def test_distill_in_pretraining(bertkit, tmp_path, corpus, start, objective):
    command = ["distill", "--teacher", start, "--student-layers", "1", "--corpus", corpus, "--max-steps", "4"]
    command += ["--max-seq-length", "32", "--objective", objective]
    command += ["--alpha", "0.5", *(["--hidden", "0.5"] if objective == "distilbert" else [])]
    ways = {way: WAYS[way] for way in (ONE, "2 processes × 2 × 2")}
    compare(bertkit, tmp_path, command, ways=ways)
    refused = bertkit([*command, *RUN, *WAYS["2 processes, fsdp"], "--output-dir", tmp_path / "sharded"])
    assert refused.returncode == 2
    assert refused.stderr.count("is not supported on fsdp; use another placement") == 1


@pytest.fixture
def passages(tmp_path) -> Path:
    """A table of queries, each with a passage and a negative."""
    file = tmp_path / "passages.csv"
    first = itertools.permutations(WORDS[:6], 2)
    rows = [f"{a} {b},the {a},a {b}" for a, b in first]
    file.write_text("\n".join(["query,passage,negative", *rows[:24]]))
    return file


def test_reranking(bertkit, tmp_path, start, passages):
    command = ["finetune", "reranking", "--model", start, "--train-file", passages, "--max-seq-length", "16"]
    ways = {way: WAYS[way] for way in (ONE, "2 processes × 2 × 2")}
    compare(bertkit, tmp_path, command, ways=ways)


def test_similarity_needs_one_process(bertkit, tmp_path, start, passages):
    pytest.importorskip("sentence_transformers")
    command = ["finetune", "similarity", "--model", start, "--train-file", passages, "--max-seq-length", "16"]
    for flags in (WAYS[REAL], WAYS["4 × 2"]):
        refused = bertkit([*command, *RUN, *flags, "--output-dir", tmp_path / "divided"])
        assert refused.returncode == 2
        assert refused.stdout == ""
        assert refused.stderr.count("compare") == 1  # one process speaks
        assert not (tmp_path / "divided").exists()
