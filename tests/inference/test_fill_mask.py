"""Guesses for masked words: those of the model called by hand, put into the text as it was given."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from tokenizers.processors import TemplateProcessing

import bertkit
from bertkit.model.checkpoint.load import load_config, load_tokenizer
from bertkit.runtime.errors import CheckpointError, DataError, RecipeError

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module")
def bert(checkpoint: Path):
    return bertkit.load(checkpoint, batch_size=2)


def test_guesses_ignore_what_shares_the_batch(bert, checkpoint):
    texts = ["The [MASK] is lovely", "a [MASK]  [MASK].", "[MASK]"]
    found = bert.fill_mask(texts, top_k=4)
    assert [len(masks) for masks in found] == [1, 2, 1]
    tokenizer = load_tokenizer(checkpoint)
    model = bertkit.BertForPreTraining.from_pretrained(checkpoint).eval()
    for text, masks in zip(texts, found, strict=True):
        inputs = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            logits = model(**inputs).prediction_logits[0][inputs["input_ids"][0] == tokenizer.mask_token_id]
        for scores, guesses in zip(logits.softmax(-1), masks, strict=True):
            best, ids = scores.topk(4)
            assert [guess.probability for guess in guesses] == pytest.approx(best.tolist(), abs=1e-6)
            assert [guess.token for guess in guesses] == tokenizer.convert_ids_to_tokens(ids.tolist())


def test_guesses_stand_in_the_given_text(bert):
    """Capitals and double spaces stay, other masks too; a piece that goes on with a word is joined to it."""
    [masks] = bert.mask_filler.fill(["The  FILM, [MASK] [MASK]!"], 2, ["plot", "##s"])
    first, second = ({guess.token: guess.text for guess in guesses} for guesses in masks)
    assert first == {"plot": "The  FILM, plot [MASK]!", "##s": "The  FILM,s [MASK]!"}
    assert second == {"plot": "The  FILM, [MASK] plot!", "##s": "The  FILM, [MASK]s!"}


def test_a_mask_may_be_the_first_token(checkpoint):
    """The tokenizer adds no special tokens."""
    filler = bertkit.load(checkpoint).mask_filler
    filler.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="$A", special_tokens=[])
    [[[guess]]] = filler.fill(["[MASK] film a"], 1, ["plot"])
    assert guess.text == "plot film a"


@pytest.mark.filterwarnings("ignore")  # of transformers' pipeline, about its batches
@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "deberta", "deberta-v2", "modernbert"])
@pytest.mark.parametrize("text", ["a lovely {}", "a{} with an awful plot", "{} is a company in new york", "is {} or"])
def test_blanks_are_those_of_the_pipeline(stock_models, tmp_path, family, text):
    """Every piece of the vocabulary, except special tokens, which the pipeline leaves out, and invisible ones."""
    from transformers import AutoTokenizer, pipeline

    folder = stock_models.stock_checkpoint(tmp_path, family, "AutoModelForMaskedLM")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = text.format(tokenizer.mask_token)
    expected = {
        guess["token"]: guess["sequence"].strip()
        for guess in pipeline("fill-mask", str(folder), tokenizer=tokenizer, top_k=len(tokenizer))(text)
        if guess["token"] not in tokenizer.all_special_ids
        and guess["token_str"].isprintable()
        and guess["token_str"].strip()
    }
    [[guesses]] = bertkit.load(folder).fill_mask(text, top_k=len(tokenizer))
    by_id = {tokenizer.convert_tokens_to_ids(guess.token): guess.text for guess in guesses}
    assert {number: by_id[number] for number in expected} == expected


@pytest.mark.parametrize(("family", "mask"), [("roberta", "<mask>"), ("modernbert", "[MASK]")])
def test_blanks_between_two_masks_stay(stock_models, tmp_path, family, mask):
    folder = stock_models.stock_checkpoint(tmp_path, family, "AutoModelForMaskedLM")
    bert = bertkit.load(folder)
    [masks] = bert.fill_mask(f"A {mask} {mask}.", top_k=len(bert.mask_filler.tokenizer))
    first, second = ({guess.token: guess.text for guess in guesses} for guesses in masks)
    assert (first["Ġa"], first["a"]) == (f"A a {mask}.", f"Aa {mask}.")
    assert (second["Ġa"], second["a"]) == (f"A {mask} a.", f"A {mask}a.")


def test_all_unusable_texts_are_named(bert, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    with pytest.raises(DataError) as caught:
        bert.fill_mask(["fine [MASK]", "no mask here", "[MASK]" + " film" * 70])
    assert caplog.text == ""
    assert "text 2: no [MASK] in 'no mask here'" in str(caught.value)
    assert "text 3: 73 tokens, but" in str(caught.value)
    with pytest.raises(RecipeError, match="top_k 0: expected 1 to"):
        bert.fill_mask("a [MASK]", top_k=0)


def test_rows_beyond_the_vocabulary_are_no_guesses(checkpoint, tmp_path):
    """A vocabulary padded to a larger size, with random weights that prefer any row."""
    tokenizer = load_tokenizer(checkpoint)
    config = load_config(str(checkpoint), {"vocab_size": 4 * len(tokenizer)})
    bertkit.BertForMaskedLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    (masks,) = bertkit.load(tmp_path).fill_mask("a [MASK]", top_k=len(tokenizer))
    assert {guess.token for guess in masks[0]} == set(tokenizer.get_vocab())


def test_a_checkpoint_without_the_head_is_refused(fine_tuned, checkpoint, tmp_path):
    with pytest.raises(CheckpointError, match=r"tuned \(BertForSequenceClassification\) and has no masked-LM head"):
        bertkit.load(fine_tuned("film")).fill_mask("a [MASK]")
    bertkit.BertModel(load_config(str(checkpoint))).save_pretrained(tmp_path)
    load_tokenizer(checkpoint).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"lack cls\.predictions.* not a complete BertForMaskedLM"):
        bertkit.load(tmp_path).fill_mask("a [MASK]")
