"""Inference in bf16 and fp16 beside float32."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import bertkit
from bertkit.inference.loaded import load
from bertkit.runtime.errors import CheckpointError, PlacementError
from bertkit.runtime.placement.inference import inference_dtype

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def test_bf16_vectors_are_near_those_of_float32(stock_models, tmp_path):
    folder = stock_models.stock_checkpoint(tmp_path, "roberta", "AutoModel")
    exact, near = (
        bertkit.load(folder, device="cpu", precision=name).embed(list(stock_models.TEXTS)) for name in ("auto", "bf16")
    )
    assert near.dtype == np.float32
    assert not np.array_equal(exact, near)
    np.testing.assert_allclose(near, exact, atol=5e-2, rtol=5e-2)


def in_fp16(folder, monkeypatch):
    """Loads a checkpoint as on a GPU, but on the CPU."""
    with monkeypatch.context() as patch:
        patch.setattr("bertkit.inference.predictor.inference_dtype", lambda *_: inference_dtype("auto", "cuda"))
        return load(folder, device="cpu")


@pytest.mark.parametrize(("precision", "near"), [("bf16", 5e-2), ("fp16", 1e-2)])
def test_logits_in_half_precision_are_near_those_of_float32(stock_models, tmp_path, monkeypatch, precision, near):
    """CPUs differ by a factor of three in the error of fp16, because some add the products in fp16 as well."""
    head, labels = "AutoModelForSequenceClassification", ["a", "b", "c"]
    folder = stock_models.stock_checkpoint(tmp_path, "bert", head, labels, initializer_range=0.2)
    exact = load(folder, device="cpu", precision="float32")
    half = in_fp16(folder, monkeypatch) if precision == "fp16" else load(folder, device="cpu", precision="bf16")
    assert {weight.dtype for weight in half.model.parameters()} == {DTYPES[precision]}
    texts = list(stock_models.TEXTS)
    expected, found = (
        each.outputs(each.task.encode(each.task.read_input(texts), each.tokenizer)) for each in (exact, half)
    )
    assert found.dtype == np.float32
    assert not np.array_equal(found, expected)
    largest = np.abs(expected).max()
    assert largest > 1  # so that the tolerance means something
    np.testing.assert_allclose(found, expected, atol=near * largest, rtol=0)


def test_overflow_in_fp16_is_one_message(stock_models, tmp_path, monkeypatch):
    folder = stock_models.stock_checkpoint(tmp_path, "bert", "AutoModelForSequenceClassification", ["a", "b"])
    loaded = in_fp16(folder, monkeypatch)
    torch.nn.init.constant_(loaded.model.classifier.bias, float("inf"))
    with pytest.raises(CheckpointError, match="in fp16; give --precision bf16 or float32"):
        loaded.predict(["a film"])


@pytest.mark.slow
def test_an_onnx_model_keeps_its_own_precision(stock_models, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    folder = stock_models.stock_checkpoint(tmp_path / "model", "bert", "AutoModelForSequenceClassification")
    bertkit.export(folder, tmp_path / "onnx", to="onnx")
    with pytest.raises(PlacementError, match="an ONNX model has its own precision; remove --precision bf16"):
        bertkit.load(tmp_path / "onnx", precision="bf16")
    # On a GPU machine auto is fp16 for other checkpoints; an ONNX model runs on the CPU there too.
    monkeypatch.setattr("bertkit.inference.predictor.inference_dtype", lambda *_: torch.float16)
    assert bertkit.load(tmp_path / "onnx").predict("a film")[0]["label"] in ("LABEL_0", "LABEL_1")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("precision", ["auto", "bf16", "fp16"])
def test_on_a_gpu_scores_agree_with_float32(stock_models, tmp_path, precision):
    folder = stock_models.stock_checkpoint(
        tmp_path, "bert", "AutoModelForSequenceClassification", ["a", "b", "c"], initializer_range=0.1
    )
    texts = list(stock_models.TEXTS)
    exact, near = (bertkit.load(folder, precision=name).predict(texts) for name in ("float32", precision))
    for one, other in zip(exact, near, strict=True):
        expected = list(one["probabilities"].values())
        np.testing.assert_allclose(list(other["probabilities"].values()), expected, atol=1e-2)
