"""Examples of pre-training: the trainer's own tensors, with the truth beside them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bertkit import build_corpus, explain
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.runtime.errors import RecipeError

RECIPE = {
    "task": {"kind": "pretraining"},
    "data": {"max_seq_length": 32, "validation_fraction": 0},
    "train": {"max_steps": 2, "global_train_batch_size": 4},
    "placement": {"device": "cpu", "mixed_precision": "no"},
}


@pytest.fixture(scope="module")
def store(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    words = "a good bad film story the plot is lovely or awful".split()
    generator = np.random.default_rng(0)
    for number in range(12):
        lines = [" ".join(generator.choice(words, 7)) + "." for _ in range(12)]
        (folder / f"text{number}.txt").write_text(" ".join(lines) + "\n")
    build_corpus([folder], folder / "store", tokenizer=str(checkpoint), workers=1)
    return folder / "store"


def test_examples_of_all_phases_are_the_trainers_own(store, tmp_path):
    from bertkit.training.pretraining.recipe import pretraining_recipe
    from bertkit.training.runs.pretrain import prepare_pretraining

    phased = {**RECIPE, "data": {**RECIPE["data"], "phases": {16: 0.5, 32: 0.5}}}
    recipe = pretraining_recipe(phased, [store], None, {"model.hidden_size": 32, "model.num_attention_heads": 2})
    parts = prepare_pretraining(recipe, tmp_path / "run").examples.train.parts
    for phase, length in enumerate((16, 32)):
        seen = explain(corpus=store, recipe=phased, example=2, phase=phase)
        assert (seen.phase, seen.data.max_seq_length, seen.examples[1].epoch) == (phase, length, 1)
        assert seen.examples[0].arrays.keys() == parts[phase][2].keys()
        for name, values in parts[phase][2].items():
            np.testing.assert_array_equal(seen.examples[0].arrays[name], values)
    with pytest.raises(RecipeError, match=r"phase 2: .* has 2 phases, numbered from 0"):
        explain(corpus=store, recipe=phased, phase=2)
    with pytest.raises(RecipeError, match="phase -1: expected numbers from 0"):
        explain(corpus=store, recipe=phased, phase=-1)
    with pytest.raises(RecipeError, match=r"epoch 0 has examples 0 to \d+"):
        explain(corpus=store, recipe=RECIPE, example=10**6)


def test_tokens_show_mask_and_truth(store, checkpoint):
    from bertkit.model.checkpoint.load import load_tokenizer

    tokenizer = load_tokenizer(checkpoint)
    seen = explain(corpus=store, recipe=RECIPE, example=3, epoch=1)
    example = seen.examples[0]
    length = example.arrays["attention_mask"].sum()
    assert [token.text for token in example.tokens] == tokenizer.convert_ids_to_tokens(
        example.arrays["input_ids"][:length].tolist()
    )
    predicted = [position for position, token in enumerate(example.tokens) if token.truth]
    used = example.arrays["labels"] != IGNORE_INDEX
    assert predicted == example.arrays["masked_positions"][used].tolist()
    for position, label in zip(predicted, example.arrays["labels"][used].tolist(), strict=True):
        token = example.tokens[position]
        assert token.truth == tokenizer.convert_ids_to_tokens(label)
        assert token.kind == (
            "masked" if token.text == "[MASK]" else "kept" if token.text == token.truth else "replaced"
        )
    specials = [token.text for token in example.tokens if token.kind == "special"]
    assert specials == ["[CLS]", "[SEP]", "[SEP]"]
    assert (example.document_a == example.document_b) == (example.label == 0)


def test_masks_are_drawn_anew(store):
    seen = explain(corpus=store, recipe=RECIPE, example=0)
    one, other = seen.examples
    assert (one.epoch, other.epoch) == (0, 1)
    assert one.document_a == other.document_a
    assert other.arrays.keys() == one.arrays.keys()
    assert [token.kind for token in one.tokens] != [token.kind for token in other.tokens]


def test_counts_are_near_the_rule(store):
    shares = {name: share for name, share, _ in explain(corpus=store, recipe=RECIPE).shares()}
    assert shares["predicted, of all tokens"] == pytest.approx(0.15, abs=0.03)
    assert shares["masked, of these"] == pytest.approx(0.8, abs=0.12)
    assert sum(share for name, share in shares.items() if name.endswith("of these")) == pytest.approx(1)


def test_single_sentences_make_more_random_pairs_than_half(checkpoint, tmp_path):
    text, place = tmp_path / "text.txt", tmp_path / "store"
    text.write_text("a good film.\n\n" * 20)
    build_corpus([text], place, tokenizer=str(checkpoint), document_separator="blank-line")
    seen = explain(corpus=place, recipe=RECIPE)
    assert seen.shares()[-1] == ("B is of another document", 1.0, "50% or more")
    assert "a single sentence, B always is of another document" in seen.html()


def test_sentence_order_has_its_own_words(store):
    recipe = {**RECIPE, "task": {"kind": "pretraining", "pair_objective": "sop"}}
    seen = explain(corpus=store, recipe=recipe)
    assert seen.meaning(1) == "A follows B"
    assert all(example.document_a == example.document_b for example in seen.examples)
    assert "A follows B" in seen.html()
    assert seen.shares()[-1][2] == "50%"


def test_page_and_record_have_every_prediction(store):
    seen = explain(corpus=store, recipe=RECIPE)
    number = sum(bool(token.truth) for example in seen.examples for token in example.tokens)
    assert len(re.findall(r'class="id">(?:masked|kept|replaced): ', seen.html())) == number > 0
    assert any("[MASK→" in line for line in seen.lines())
    record = seen.record()
    assert [token["truth"] for token in record["examples"][0]["tokens"]] == [
        token.truth for token in seen.examples[0].tokens
    ]
    assert record["counts"]["masked"] + record["counts"]["kept"] + record["counts"]["replaced"] == seen.predicted
