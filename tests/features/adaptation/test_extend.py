"""A checkpoint with more words."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

import bertkit
from bertkit.runtime.errors import CheckpointError, DataError, OutputError, RecipeError
from tests.stock_models import FAMILIES, TEXTS, stock_checkpoint

CORPUS = "Unbelievable transformers transform; unbelievably awfuller films of Transylvania\n"


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.txt").write_text(CORPUS * 6)
    return tmp_path / "corpus.txt"


@pytest.fixture(params=FAMILIES)
def start(request, tmp_path):
    return stock_checkpoint(tmp_path / "start", request.param, "AutoModelForMaskedLM", vocab_size=512)


def logits(checkpoint, text):
    model, tokenizer = (each.from_pretrained(checkpoint) for each in (AutoModelForMaskedLM, AutoTokenizer))
    with torch.no_grad():
        inputs = tokenizer(text, return_tensors="pt")
        return inputs["input_ids"][0].tolist(), model.eval()(**inputs).logits[0]


def test_old_texts_have_the_same_outputs(start, corpus, tmp_path):
    extension = bertkit.extend_tokenizer(start, [corpus], tmp_path / "new", add=12)
    assert 4 <= len(extension.pieces) <= 12
    for text in TEXTS[:3]:
        ids, before = logits(start, text)
        ids_now, after = logits(tmp_path / "new", text)
        assert ids_now == ids
        torch.testing.assert_close(after[:, : extension.first_id], before[:, : extension.first_id])
    assert len(logits(tmp_path / "new", CORPUS)[0]) < 0.9 * len(logits(start, CORPUS)[0])
    assert extension.comparison.difference <= extension.comparison.tolerance


def test_new_rows_are_the_means_of_their_parts(start, corpus, tmp_path):
    extension = bertkit.extend_tokenizer(start, [corpus], tmp_path / "new", add=12)
    before, after = (AutoModelForMaskedLM.from_pretrained(each) for each in (start, tmp_path / "new"))
    ids = AutoTokenizer.from_pretrained(start).get_vocab()
    tables = [
        (before.get_input_embeddings().weight, after.get_input_embeddings().weight),
        (before.get_output_embeddings().bias, after.get_output_embeddings().bias),
    ]
    for number, piece in enumerate(extension.pieces, extension.first_id):
        for old, new in tables:
            expected = old[[ids[part] for part in piece.parts]].mean(dim=0)
            torch.testing.assert_close(new[number], expected)
    tied = after.get_output_embeddings().weight is after.get_input_embeddings().weight
    assert tied == (before.get_output_embeddings().weight is before.get_input_embeddings().weight)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_ids_follow_those_of_tokens_beside_the_vocabulary(tmp_path, corpus, family):
    """A token that was added to the tokenizer alone keeps its id; a piece of the vocabulary would take it."""
    start = stock_checkpoint(tmp_path / "start", family, "AutoModelForMaskedLM", vocab_size=512)
    tokenizer = AutoTokenizer.from_pretrained(start)
    tokenizer.add_tokens(["GPT"])
    tokenizer.save_pretrained(start)
    added = tokenizer.convert_tokens_to_ids("GPT")
    extension = bertkit.extend_tokenizer(start, [corpus], tmp_path / "new", add=4)
    assert extension.first_id == added + 1
    ids = AutoTokenizer.from_pretrained(tmp_path / "new")("a GPT film")["input_ids"]
    assert ids == tokenizer("a GPT film")["input_ids"]
    assert added in ids


def test_untied_output_rows_are_means_too(tmp_path, corpus):
    start = stock_checkpoint(tmp_path / "start", "bert", "AutoModelForMaskedLM", tie_word_embeddings=False)
    extension = bertkit.extend_tokenizer(start, [corpus], tmp_path / "new", add=3)
    before, after = (
        AutoModelForMaskedLM.from_pretrained(each).get_output_embeddings().weight for each in (start, tmp_path / "new")
    )
    ids = AutoTokenizer.from_pretrained(start).get_vocab()
    [first, *_] = extension.pieces
    torch.testing.assert_close(after[extension.first_id], before[[ids[part] for part in first.parts]].mean(dim=0))


def test_counts_are_those_of_the_tokenizers(checkpoint, corpus, tmp_path):
    extension = bertkit.extend_tokenizer(checkpoint, [corpus], tmp_path / "new", add=5)
    for usage, folder in ((extension.before, checkpoint), (extension.after, tmp_path / "new")):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        pieces = [tokenizer.tokenize(word) for word in CORPUS.replace(";", "").split()]
        assert usage.words == 6 * len(pieces)
        assert usage.pieces == 6 * sum(map(len, pieces))
        assert usage.split == 6 * sum(len(each) > 1 for each in pieces)
        assert usage.unknown == 6 * sum("[UNK]" in each for each in pieces)
    effect = extension.effect
    assert effect.words == 6 * (len(pieces) + 1)
    assert effect.after == 6 * len(tokenizer.tokenize(CORPUS))
    with_new = [word for word in pieces if any(n >= extension.first_id for n in tokenizer.convert_tokens_to_ids(word))]
    assert effect.changed == 6 * len(with_new)


def test_the_result_is_a_stock_bert(checkpoint, corpus, tmp_path):
    """The checkpoint has the model type bertkit."""
    extension = bertkit.extend_tokenizer(checkpoint, [corpus], tmp_path / "new")
    model, tokenizer = (each.from_pretrained(tmp_path / "new") for each in (AutoModelForMaskedLM, AutoTokenizer))
    assert type(model).__module__ == "transformers.models.bert.modeling_bert"
    size = extension.first_id + len(extension.pieces)
    assert (len(tokenizer), model.config.vocab_size, model.config.model_type) == (size, size, "bert")


@pytest.mark.slow
def test_pretraining_continues_from_it(checkpoint, corpus, tmp_path):
    bertkit.extend_tokenizer(checkpoint, [corpus], tmp_path / "new", add=5)
    overrides = {"train.max_steps": 2, "data.max_seq_length": 32, "train.global_train_batch_size": 4}
    overrides |= {"task.pair_objective": "none", "data.validation_fraction": 0.0}
    bertkit.pretrain(model=str(tmp_path / "new"), corpus=[corpus], output_dir=tmp_path / "run", overrides=overrides)
    assert len(AutoTokenizer.from_pretrained(tmp_path / "run")) == len(AutoTokenizer.from_pretrained(tmp_path / "new"))


def test_a_fine_tuned_checkpoint_keeps_its_task(fine_tuned, corpus, tmp_path):
    film = fine_tuned("film")
    bertkit.extend_tokenizer(film, [corpus], tmp_path / "new", add=5)
    before, after = (bertkit.load(each).predict("a good film")[0] for each in (film, tmp_path / "new"))
    assert after["label"] == before["label"]
    assert after["probability"] == pytest.approx(before["probability"], abs=1e-6)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"add": 0}, RecipeError, "add: expected at least 1, got 0"),
        ({"min_frequency": 0}, RecipeError, "min_frequency: expected at least 1, got 0"),
        ({"min_frequency": 7}, DataError, "occurs less than 7 times in this text"),
        ({"corpus": []}, DataError, "no text was given"),
        ({"corpus": ["empty.txt"]}, DataError, "no text to take words from"),
        ({"corpus": ["missing.txt"]}, DataError, "missing.txt"),
        ({"checkpoint": "missing/"}, CheckpointError, "missing"),
        ({"output_dir": "."}, OutputError, "corpus.txt"),
        ({"output_dir": "corpus.txt"}, OutputError, "a file of that name exists"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_bad_input_writes_nothing(checkpoint, corpus, tmp_path, monkeypatch, given, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n \n")
    before = sorted(tmp_path.iterdir())
    usual = {"checkpoint": str(checkpoint), "corpus": [str(corpus)], "output_dir": "new"}
    with pytest.raises(error, match=message):
        bertkit.extend_tokenizer(**{**usual, **given})
    assert sorted(tmp_path.iterdir()) == before


def test_nothing_is_added_twice(checkpoint, corpus, tmp_path):
    bertkit.extend_tokenizer(checkpoint, [corpus], tmp_path / "new")
    with pytest.raises(DataError, match="nothing to add"):
        bertkit.extend_tokenizer(tmp_path / "new", [corpus], tmp_path / "again")
    with pytest.raises(RecipeError, match="add: expected more than 2, since as many single characters come first"):
        bertkit.extend_tokenizer(tmp_path / "new", [corpus], tmp_path / "again", add=2)


def test_pieces_of_characters_that_come_first_stand_for_old_pieces(checkpoint, tmp_path):
    """The first text leaves ω within a piece alone: for the second "##ω" comes first, and "film" is joined to it."""
    start = checkpoint
    for word in ("goodω", "filmω"):
        (tmp_path / "corpus.txt").write_text(f"{word}\n" * 6)
        extension = bertkit.extend_tokenizer(start, tmp_path / "corpus.txt", tmp_path / word)
        start = tmp_path / word
    assert {piece.text: piece.parts for piece in extension.pieces} == {"##ω": ("[UNK]",), "filmω": ("film", "[UNK]")}


def test_other_kinds_of_vocabularies_are_refused(tmp_path, corpus):
    start = stock_checkpoint(tmp_path / "start", "modernbert", "AutoModelForMaskedLM")
    content = json.loads((start / "tokenizer.json").read_text())
    model = {"type": "WordLevel", "unk_token": "[UNK]", "vocab": content["model"]["vocab"]}
    (start / "tokenizer.json").write_text(json.dumps(content | {"model": model}))
    with pytest.raises(CheckpointError, match="of the type WordLevel; bertkit extends WordPiece"):
        bertkit.extend_tokenizer(start, [corpus], tmp_path / "new")
