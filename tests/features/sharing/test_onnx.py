"""ONNX: every head computes what PyTorch computes, at batches and lengths that the export never saw."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import bertkit
from bertkit.features.sharing.export import quantize
from bertkit.inference.networks import OnnxModel
from bertkit.model.checkpoint.encoders import head_class
from bertkit.model.checkpoint.load import load_config, load_model, load_tokenizer
from bertkit.model.modeling_bert import AUTO_CLASSES
from bertkit.runtime.errors import CheckpointError, RecipeError

SEQUENCE = "BertForSequenceClassification"
HEADS = [
    head if head == SEQUENCE else pytest.param(head, marks=pytest.mark.slow)
    for head in dict.fromkeys(model.__name__ for model in AUTO_CLASSES.values())
]


@pytest.fixture(scope="module")
def make(checkpoint: Path, fine_tuned: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A checkpoint with a head, of weights so large that outputs differ from text to text."""

    def checkpoint_with(head: str) -> Path:
        if head == SEQUENCE:
            return fine_tuned("film")
        folder = tmp_path_factory.mktemp(head)
        torch.manual_seed(0)
        config = load_config(str(checkpoint), {"initializer_range": 0.3, "num_hidden_layers": 1})
        getattr(bertkit, head)(config).save_pretrained(folder)
        load_tokenizer(checkpoint).save_pretrained(folder)
        return folder

    return checkpoint_with


@pytest.fixture(scope="module")
def classifier(onnx_extra: None, make: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A fine-tuned checkpoint, and what it is as ONNX."""
    folder, out = make(SEQUENCE), tmp_path_factory.mktemp("onnx") / "out"
    bertkit.export(folder, out, to="onnx")
    return folder, out


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_every_head_at_other_batches_and_lengths(head, onnx_extra, make, request, tmp_path):
    if head == SEQUENCE:
        folder, out = request.getfixturevalue("classifier")
    else:
        folder, out = make(head), tmp_path / "out"
        assert bertkit.export(folder, out, to="onnx").comparison.difference < 1e-4
    config = load_config(str(folder))
    model, _ = load_model(head, str(folder), config, new_head=False)
    exported = OnnxModel(out, config)
    for batch, length in ((1, 1), (1, 64), (5, 2), (3, 33)):
        shape = (batch, 4, length) if head == "BertForMultipleChoice" else (batch, length)
        mask = torch.ones(shape, dtype=torch.int64)
        mask[-1, ..., 1 + length // 2 :] = 0
        inputs = {
            "input_ids": torch.randint(5, config.vocab_size, shape),
            "attention_mask": mask,
            "token_type_ids": torch.randint(2, shape),
        }
        with torch.inference_mode():
            expected = model.eval()(**inputs)
        found = exported(**inputs)
        assert list(found) == list(expected.keys())
        for name, values in expected.items():
            torch.testing.assert_close(found[name], values, rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(  # those whose code in transformers is their own
    "encoder",
    ["albert", "deberta", "deberta-v2", "distilbert", "electra", "modernbert", "mpnet", "roberta"],
    indirect=True,
)
def test_every_family_is_exported_and_predicts_the_same(encoder, onnx_extra, checkpoint, fine_tuned, tmp_path):
    tokenizer, film = load_tokenizer(checkpoint), load_config(str(fine_tuned("film")))
    encoder.vocab_size, encoder.initializer_range = len(tokenizer), 0.3
    encoder.bertkit_task, encoder.id2label = film.bertkit_task, film.id2label
    torch.manual_seed(0)
    head_class(SEQUENCE, encoder, "here")(encoder).save_pretrained(tmp_path / "run")
    tokenizer.save_pretrained(tmp_path / "run")
    texts = ["a lovely film", "an awful, bad story with no plot", "good"]
    expected = bertkit.load(tmp_path / "run").predict(texts)
    bertkit.export(tmp_path / "run", tmp_path / "out", to="onnx")
    for one, other in zip(expected, bertkit.load(tmp_path / "out").predict(texts), strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-4)
    quantize(tmp_path / "out")
    for one, other in zip(expected, bertkit.load(tmp_path / "out").predict(texts), strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=0.1)


def test_predict_and_evaluate_take_the_folder(classifier, tmp_path):
    folder, out = classifier
    texts = ["a lovely film", "an awful, bad story with no plot", "good"]
    here, there = bertkit.load(folder).predict(texts), bertkit.load(out).predict(texts)
    for one, other in zip(here, there, strict=True):
        assert one["label"] == other["label"]
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)
    table = tmp_path / "dev.csv"
    table.write_text("text,label\n" + "".join(f"{text},good\n" for text in ("a film", "bad", "lovely plot")))
    scores = [bertkit.evaluate(each, validation_file=table).metrics for each in classifier]
    assert scores[0] == scores[1]


@pytest.mark.slow
def test_int8_is_smaller_and_scored_before_and_after(onnx_extra, make, tmp_path):
    folder, table = make(SEQUENCE), tmp_path / "dev.csv"
    rows = ["film is bad,bad", "film is ok,good", "plot is bad,bad", "plot is ok,good"]
    table.write_text("\n".join(["text,label", *rows]) + "\n")
    result = bertkit.export(folder, tmp_path / "out", to="onnx", int8=True, validation_file=str(table))
    before, after = result.scores["accuracy"]
    assert result.examples == 4
    assert before == bertkit.evaluate(folder, validation_file=table).metrics["eval_accuracy"]
    assert after == bertkit.evaluate(tmp_path / "out", validation_file=table).metrics["eval_accuracy"]
    assert b"MatMulInteger" in (tmp_path / "out" / "model.onnx").read_bytes()
    assert [path.name for path in (tmp_path / "out").glob("*.onnx")] == ["model.onnx"]
    here, there = (bertkit.load(each).predict("a lovely film")[0] for each in (folder, tmp_path / "out"))
    difference = abs(here["probabilities"]["good"] - there["probabilities"]["good"])
    assert 0 < difference < 0.1
    data = f"{{train_file: {table}, validation_file: {table}, max_eval_samples: 1}}"
    (folder / "recipe.yaml").write_text(f"task: {{kind: classification, metrics: [glue/mrpc]}}\ndata: {data}\n")
    for given, number in ((None, 1), (3, 3)):
        out = tmp_path / f"out-{number}"
        result = bertkit.export(folder, out, to="onnx", int8=True, max_samples=given)
        assert result.examples == number
        assert "mrpc_accuracy" in result.scores


@pytest.mark.slow
def test_what_is_assumed_of_a_checkpoint_is_said_once_and_of_no_temporary_folder(onnx_extra, make, tmp_path, capsys):
    folder = shutil.copytree(make(SEQUENCE), tmp_path / "stock", ignore=shutil.ignore_patterns("recipe.yaml"))
    config = json.loads((folder / "config.json").read_text())
    del config["bertkit_task"]
    (folder / "config.json").write_text(json.dumps(config))
    (tmp_path / "dev.csv").write_text("text,label\nfilm is bad,bad\nfilm is ok,good\n")
    bertkit.export(folder, tmp_path / "out", to="onnx", int8=True, validation_file=tmp_path / "dev.csv")
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "records no task" in line)
    assert line.startswith(f"{folder} ")


def test_what_cannot_be_exported_is_refused(onnx_extra, checkpoint, fine_tuned, tmp_path):
    with pytest.raises(RecipeError, match="has no task, so that --int8 has no scores; remove the options of the data"):
        bertkit.export(checkpoint, tmp_path / "out", to="onnx", int8=True, validation_file="x.csv")
    with pytest.raises(CheckpointError, match=r"pools the windows of long texts.* export it with --to bert"):
        bertkit.export(fine_tuned("chunks"), tmp_path / "out", to="onnx")
    with pytest.raises(CheckpointError, match="vectors of several texts; export it with --to sentence-"):
        bertkit.export(fine_tuned("similar"), tmp_path / "out", to="onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_named(classifier, tmp_path):
    for file in classifier[1].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[: 200 if file.suffix == ".onnx" else None])
    with pytest.raises(CheckpointError, match=r"model\.onnx cannot be loaded"):
        bertkit.load(tmp_path)
