"""The form of sentence-transformers: the vectors of `bertkit.embed`, with the pooling of the checkpoint."""

from __future__ import annotations

import json

import numpy as np
import pytest

import bertkit
from bertkit.inference.embedding import SentencePooling, recorded_pooling
from bertkit.runtime.errors import CheckpointError, RecipeError

pytestmark = pytest.mark.numeric

TEXTS = ["a lovely film", "the plot", "the story is awful, the film is bad or good " * 4]


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("sentence_transformers")


def vectors(library, folder, texts=TEXTS):
    return library.SentenceTransformer(str(folder), device="cpu").encode(texts, show_progress_bar=False)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
@pytest.mark.parametrize("normalize", [False, True])
def test_vectors_are_those_of_embed(library, checkpoint, tmp_path, pooling, normalize):
    done = bertkit.export(
        checkpoint, tmp_path / "out", to="sentence-transformers", pooling=pooling, normalize=normalize
    )
    assert done.comparison.difference <= 1e-5
    expected = bertkit.load(checkpoint).embed(TEXTS, pooling=pooling)
    if normalize:
        expected = expected / np.linalg.norm(expected, axis=-1, keepdims=True)
    np.testing.assert_allclose(vectors(library, done.folder), expected, rtol=0, atol=1e-5)
    assert (done.folder / "2_Normalize").is_dir() == normalize


def test_a_fine_tuned_checkpoint_loses_its_head(library, fine_tuned, tmp_path):
    done = bertkit.export(fine_tuned("film"), tmp_path / "out", to="sentence-transformers")
    expected = bertkit.load(fine_tuned("film")).embed(TEXTS)
    theirs = vectors(library, done.folder)
    length = np.linalg.norm(expected, axis=-1, keepdims=True)
    np.testing.assert_allclose(theirs / length, expected / length, rtol=0, atol=1e-5)
    assert any("mean pooling, vectors not normalized" in note for note in done.notes)


@pytest.mark.parametrize("family", ["roberta", "distilbert", "mpnet", "modernbert"])
def test_other_families(library, stock_models, tmp_path, family):
    stock = stock_models.stock_checkpoint(tmp_path / "stock", family, "AutoModel")
    done = bertkit.export(stock, tmp_path / "out", to="sentence-transformers", normalize=True)
    expected = bertkit.load(stock).embed(TEXTS[:2])
    expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
    np.testing.assert_allclose(vectors(library, done.folder, TEXTS[:2]), expected, rtol=0, atol=1e-5)


def test_what_sentence_transformers_saved_keeps_its_pooling(library, checkpoint, tmp_path):
    first = bertkit.export(checkpoint, tmp_path / "first", to="sentence-transformers", pooling="cls", normalize=True)
    assert recorded_pooling(str(first.folder)) == SentencePooling("cls", True, 64)
    model = library.SentenceTransformer(str(first.folder), device="cpu")
    model.max_seq_length = 20
    model.save(str(tmp_path / "saved"))
    again = bertkit.export(tmp_path / "saved", tmp_path / "again", to="sentence-transformers")
    assert recorded_pooling(str(again.folder)) == SentencePooling("cls", True, 20)
    both = (vectors(library, each.folder, TEXTS[:2]) for each in (again, first))
    np.testing.assert_allclose(*both, rtol=0, atol=1e-6)


def test_without_a_record_embed_s_pooling_is_used(checkpoint):
    assert recorded_pooling(str(checkpoint)) == SentencePooling("mean", False, None)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "modules.json",
            lambda steps: [*steps, {"type": "x.Dense", "path": "2_Dense"}],
            "steps Transformer, Pooling, Dense; .* or `bertkit embed` with --pooling",
        ),
        ("modules.json", lambda steps: {"a": 1}, "modules.json in this folder cannot be loaded"),
        (
            "1_Pooling/config.json",
            lambda config: {**config, "pooling_mode_lasttoken": True},
            "mean, lasttoken; expected one",
        ),
        ("1_Pooling/config.json", lambda config: [1], "config.json in this folder cannot be loaded .expected a dict"),
        ("sentence_bert_config.json", lambda limits: [1], "expected a dict, got list"),
        ("1_Pooling/config.json", lambda config: {}, "its pooling is none; expected one of cls, mean, max"),
    ],
)
def test_other_steps_and_poolings_are_refused(library, checkpoint, tmp_path, file, change, message):
    made = bertkit.export(checkpoint, tmp_path / "made", to="sentence-transformers").folder
    (made / file).write_text(json.dumps(change(json.loads((made / file).read_text()))))
    with pytest.raises(CheckpointError, match=message):
        bertkit.export(made, tmp_path / "out", to="sentence-transformers")
    assert not (tmp_path / "out").exists()


def test_another_pooling_is_refused(library, checkpoint, tmp_path):
    with pytest.raises(RecipeError, match="--pooling sum: expected cls, mean, max"):
        bertkit.export(checkpoint, tmp_path / "out", to="sentence-transformers", pooling="sum")
    assert list(tmp_path.iterdir()) == []


def test_a_limit_too_short_for_any_text_is_refused(library, checkpoint, tmp_path):
    done = bertkit.export(checkpoint, tmp_path / "long", to="sentence-transformers")
    (done.folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 3}))
    with pytest.raises(CheckpointError, match="reads 3 tokens of a text, and the shortest one that is compared has 4"):
        bertkit.export(done.folder, tmp_path / "out", to="sentence-transformers")
    assert not (tmp_path / "out").exists()
