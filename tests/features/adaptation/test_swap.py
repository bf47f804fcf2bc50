"""A checkpoint with another tokenizer."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertTokenizer

import bertkit
from bertkit.data.corpus.vocabulary.tokenizer import train_byte_level, train_tokenizer
from bertkit.features.adaptation.swap import find_sources_of_pieces
from bertkit.runtime.errors import BertkitError, CheckpointError, DataError, OutputError
from tests.stock_models import FAMILIES, TEXTS, stock_checkpoint, stock_tokenizer

GERMAN = ["Ein Film über nichts; die Filme waren unbeliebt in Zürich und Berlin."] * 3


@pytest.fixture
def start(tmp_path):
    return stock_checkpoint(tmp_path / "start", "bert", "AutoModelForMaskedLM")


@pytest.fixture
def german(tmp_path):
    train_tokenizer(GERMAN, 90).save_pretrained(tmp_path / "german")
    return tmp_path / "german"


def test_the_same_pieces_in_another_order_change_nothing(start, tmp_path):
    before = AutoTokenizer.from_pretrained(start)
    size = len(before)
    vocabulary = {piece: (number + 7) % size for piece, number in before.get_vocab().items()}
    BertTokenizer(vocab=vocabulary, do_lower_case=True).save_pretrained(tmp_path / "other")
    swap = bertkit.swap_tokenizer(start, tmp_path / "other", tmp_path / "new")
    assert (swap.pieces, swap.copied, swap.averaged, swap.unmatched) == (size, size, 0, 0)
    after = AutoTokenizer.from_pretrained(tmp_path / "new")
    assert after.model_max_length == 64
    models = [AutoModelForMaskedLM.from_pretrained(each).eval() for each in (start, tmp_path / "new")]
    assert models[1].config.pad_token_id == after.pad_token_id == (before.pad_token_id + 7) % size
    with torch.no_grad():
        old, new = (
            model(**tokenizer(list(TEXTS), padding=True, return_tensors="pt"))
            for model, tokenizer in zip(models, (before, after), strict=True)
        )
    torch.testing.assert_close(new.logits, old.logits.roll(7, dims=-1))


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "mpnet"])  # its padding is always 1
def test_rows_are_copied_or_means(family, german, tmp_path):
    start = stock_checkpoint(tmp_path / "start", family, "AutoModelForMaskedLM")
    old = AutoTokenizer.from_pretrained(start)
    swap = bertkit.swap_tokenizer(start, german, tmp_path / "new")
    assert swap.copied > 20
    assert swap.averaged > 5
    before, after = (AutoModelForMaskedLM.from_pretrained(each) for each in (start, tmp_path / "new"))
    new = AutoTokenizer.from_pretrained(tmp_path / "new")
    assert len(new) == swap.pieces == after.config.vocab_size == swap.copied + swap.averaged + swap.unmatched
    sources = find_sources_of_pieces(new, old)
    tables = [
        [model.get_input_embeddings().weight for model in (before, after)],
        [model.get_output_embeddings().bias for model in (before, after)],
    ]
    for old_rows, new_rows in tables:
        expected = torch.stack([old_rows[list(ids)].mean(dim=0) for ids in sources.ids])
        torch.testing.assert_close(new_rows, expected)
    for role in ("cls_token_id", "sep_token_id", "mask_token_id", "pad_token_id"):
        assert sources.ids[getattr(new, role)] == [getattr(old, role)]


SURFACES = [  # (old, new) pieces of the same place in words
    ("bert", "xlm-roberta", "a", "▁a"),
    ("xlm-roberta", "roberta", "▁a", "Ġa"),
    ("roberta", "bert", "e", "##e"),
    ("bert", "roberta", "##e", "e"),
    ("bert", "xlm-roberta", "##e", "e"),
    ("bert", "bert", "##e", "##e"),
]


@pytest.mark.parametrize(("old", "new", "old_piece", "new_piece"), SURFACES)
def test_pieces_are_compared_without_their_marks(old, new, old_piece, new_piece):
    before, after = stock_tokenizer(old), stock_tokenizer(new)
    ids = find_sources_of_pieces(after, before).ids[after.convert_tokens_to_ids(new_piece)]
    assert before.convert_ids_to_tokens(list(ids)) == [old_piece]


def test_other_pieces_are_split_by_the_old_tokenizer(german):
    old, new = train_tokenizer(["unbe liebt film filmen"] * 3, 60), AutoTokenizer.from_pretrained(german)
    sources = find_sources_of_pieces(new, old)
    parts = {piece: old.convert_ids_to_tokens(list(sources.ids[n])) for piece, n in new.get_vocab().items()}
    assert parts["unbeliebt"] == old.tokenize("unbeliebt")
    assert sources.unmatched > 0  # characters that the old vocabulary lacks


def test_the_mark_before_an_unknown_character_is_no_old_piece():
    """SentencePiece splits "!" into the mark of a word and the unknown piece, if it has no such piece."""
    old, new = stock_tokenizer("xlm-roberta"), stock_tokenizer("roberta")
    assert old.tokenize("!") == ["▁", "!"]
    assert "!" not in old.get_vocab()
    ordinary = set(old.get_vocab().values()) - set(old.all_special_ids)
    assert set(find_sources_of_pieces(new, old).ids[new.get_vocab()["!"]]) == ordinary


@pytest.mark.parametrize("piece", ["Ġ", "Ċ", "ĸ", "Ķ"])  # a blank, a line ending, and bytes that begin no character
def test_bytes_that_are_no_text_have_no_old_pieces(piece):
    old, new = stock_tokenizer("bert"), train_byte_level(GERMAN, 300)
    ordinary = set(old.get_vocab().values()) - set(old.all_special_ids)
    assert set(find_sources_of_pieces(new, old).ids[new.get_vocab()[piece]]) == ordinary


def test_usage_of_a_corpus_is_compared(start, german, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(GERMAN))
    swap = bertkit.swap_tokenizer(start, german, tmp_path / "new", corpus=[tmp_path / "text.txt"])
    assert swap.before.words == swap.after.words == 36
    assert swap.after.pieces < swap.before.pieces


def test_bad_input_writes_nothing(start, german, tmp_path):
    roberta = stock_checkpoint(tmp_path / "roberta", "roberta", "AutoModelForMaskedLM")
    padding_1 = tmp_path / "padding-1"
    train_byte_level(GERMAN, 300).save_pretrained(padding_1)
    no_mask = tmp_path / "no-mask"
    BertTokenizer(vocab={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}, mask_token=None).save_pretrained(no_mask)
    (tmp_path / "empty.txt").write_text("…\n")
    there = sorted(tmp_path.iterdir())
    cases = [
        ((start, start, "new"), {}, CheckpointError, "has this vocabulary already"),
        ((roberta, padding_1, "new"), {}, CheckpointError, "counts positions from the id of the padding token"),
        ((start, tmp_path / "missing", "new"), {}, CheckpointError, "no such folder"),
        ((tmp_path / "missing", german, "new"), {}, CheckpointError, "no such folder"),
        ((start, german, "german"), {}, OutputError, "already contains"),
        ((start, german, "new"), {"corpus": [tmp_path / "empty.txt"]}, DataError, "no words in the given text"),
        ((start, german, "new"), {"corpus": [tmp_path / "no.txt"]}, DataError, "no such file"),
    ]
    for (checkpoint, tokenizer, folder), more, error, message in cases:
        with pytest.raises(error, match=message):
            bertkit.swap_tokenizer(checkpoint, tokenizer, tmp_path / folder, **more)
    with pytest.raises(BertkitError):
        bertkit.swap_tokenizer(start, no_mask, tmp_path / "new")
    assert sorted(tmp_path.iterdir()) == there
