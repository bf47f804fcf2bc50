"""Predictions and vectors without padding, by a variable of the environment: the same as of padded batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertkit
from bertkit.inference.forward import ATTENTION, asks_to_join
from bertkit.model import joined
from bertkit.runtime.errors import PlacementError
from tests.fine_tuned import fine_tuned as fine_tune

pytestmark = pytest.mark.numeric

TEXTS = ["a good film", "the plot is lovely or awful", "bad", "a good film story " * 5, "good"]
INPUTS = {
    "film": TEXTS,
    "chunks": TEXTS,
    "topics": TEXTS,
    "entities": TEXTS,
    "pairs": ["a film\ta good film", "the plot is lovely or awful\tbad", "bad\tgood"],
    "choices": ["the film\tis good\tis bad", "the plot\tis good\tis bad\tis awful"],
}


@pytest.fixture
def join(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Function that sets the variable. A CPU joins by the reference, and networks are those of a GPU."""
    monkeypatch.setattr("bertkit.inference.plain_bert.load_plain_bert", lambda *given: None)
    monkeypatch.setattr(joined, "missing_on_device", lambda device: "")
    return lambda: monkeypatch.setenv(ATTENTION, "joined")


def rows_of(*networks: Any) -> set[int]:
    """The numbers of rows that the first layers of networks will compute; with joined sequences they are all 1."""
    seen: set[int] = set()
    for network in networks:
        layer = network.base_model.encoder.layer[0]
        layer.register_forward_hook(lambda layer, args, output: seen.add(output.shape[0]))
    return seen


def rounded(values: Any) -> Any:
    """Predictions whose numbers are compared up to rounding."""
    if isinstance(values, dict):
        return {name: rounded(each) for name, each in values.items()}
    if isinstance(values, list):
        return [rounded(each) for each in values]
    return pytest.approx(values, abs=1e-5) if isinstance(values, float) else values


@pytest.mark.parametrize("kind", INPUTS)
def test_predictions_are_those_of_padded_batches(fine_tuned: Any, join: Callable[[], None], kind: str):
    folder = fine_tuned(kind)
    padded = bertkit.load(folder)
    rows = rows_of(padded.model)
    expected = padded.predict(INPUTS[kind])
    assert max(rows) > 1
    join()
    bert = bertkit.load(folder)
    rows = rows_of(bert.model)
    assert bert.predict(INPUTS[kind]) == rounded(expected)
    assert rows == {1}


def test_answers_are_those_of_padded_batches(fine_tuned: Any, join: Callable[[], None]):
    folder, given = fine_tuned("answers"), {"question": ["which film", "who"], "context": "the plot is lovely " * 9}
    expected = bertkit.load(folder).predict(**given)
    join()
    bert = bertkit.load(folder)
    rows = rows_of(bert.model)
    assert bert.predict(**given) == rounded(expected)
    assert rows == {1}


def test_ensembles(checkpoint: Path, tmp_path: Path, join: Callable[[], None]):
    folder = tmp_path / "ensemble"
    for name in ("one", "two"):
        fine_tune("film", checkpoint, folder / name)
    (folder / "ensemble.json").write_text(json.dumps({"members": ["one", "two"]}))
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((folder / "one" / name).read_bytes())
    expected = bertkit.load(folder).predict(TEXTS)
    join()
    bert = bertkit.load(folder)
    rows = rows_of(*bert.model.members)
    assert bert.predict(TEXTS) == rounded(expected)
    assert rows == {1}


@pytest.mark.parametrize("options", [{}, {"pooling": "cls"}, {"layers": (-1, 0)}, {"max_seq_length": 8}], ids=str)
def test_vectors_are_those_of_padded_batches(checkpoint: Path, join: Callable[[], None], options: dict[str, Any]):
    expected = bertkit.load(checkpoint).embed(TEXTS, **options)
    join()
    bert = bertkit.load(checkpoint)
    rows = rows_of(bert.embedder.model)
    np.testing.assert_allclose(bert.embed(TEXTS, **options), expected, rtol=1e-3, atol=1e-5)
    assert (rows == {1}) is ("layers" not in options)  # hidden states of several layers are computed with padding


def test_masks_are_filled_as_in_padded_batches(checkpoint: Path, join: Callable[[], None]):
    texts = ["a [MASK] film", "the plot is [MASK] or [MASK] story story", "[MASK]"]
    expected = bertkit.load(checkpoint).fill_mask(texts)
    join()
    bert = bertkit.load(checkpoint)
    rows = rows_of(bert.mask_filler.model)
    for found, of_text in zip(bert.fill_mask(texts), expected, strict=True):
        for own, others in zip(found, of_text, strict=True):
            assert [each.probability for each in own] == pytest.approx([each.probability for each in others], abs=1e-5)
    assert rows == {1}


def test_files(fine_tuned: Any, tmp_path: Path, join: Callable[[], None]):
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS))
    folder = fine_tuned("film")
    expected = [row for block in bertkit.predict(folder, input_file=file) for row in block.rows]
    join()
    assert [row for block in bertkit.predict(folder, input_file=file) for row in block.rows] == rounded(expected)


def test_lengths_are_told_to_the_model(checkpoint: Path, join: Callable[[], None], monkeypatch: pytest.MonkeyPatch):
    """On a GPU, to count the tokens of a batch would be a wait for it."""
    join()
    bert = bertkit.load(checkpoint)
    monkeypatch.setattr(torch.Tensor, "count_nonzero", lambda *given: pytest.fail("the tokens were counted"))
    assert len(bert.embed(TEXTS)) == len(TEXTS)


def test_what_cannot_join_says_why_and_pads(
    fine_tuned: Any,
    stock_models: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv(ATTENTION, "joined")
    bertkit.load(fine_tuned("film")).predict(TEXTS)
    [line] = [line for line in capsys.readouterr().err.splitlines() if ATTENTION in line]
    assert "needs an NVIDIA GPU" in line
    monkeypatch.setattr(joined, "missing_on_device", lambda device: "")
    assert not asks_to_join("cuda", torch.float32)
    assert "needs half precision" in capsys.readouterr().err
    other = stock_models.stock_checkpoint(tmp_path, "roberta", "AutoModel")
    assert len(bertkit.load(other).embed(TEXTS)) == len(TEXTS)
    assert "is not possible: the layers of" in capsys.readouterr().err


def test_other_values_are_refused(fine_tuned: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(ATTENTION, "joint")
    with pytest.raises(PlacementError, match=f"{ATTENTION}=joint: expected joined"):
        bertkit.load(fine_tuned("film"))
