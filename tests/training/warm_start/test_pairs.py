"""Steps that teach a model of pairs what the two texts tell that are read apart."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from bertkit import finetune
from bertkit.model.checkpoint.encoders import model_inputs
from bertkit.runtime.errors import RecipeError
from bertkit.training.warm_start.heads import find_head
from bertkit.training.warm_start.pairs import TextsApart, altered_texts, learn_from_texts_apart
from tests.stock_models import FAMILIES, stock_checkpoint

pytestmark = pytest.mark.numeric

WORDS = "lovely awful film plot river bank city house company winter music garden".split()


def pairs_of_texts(number: int, seed: int) -> list[tuple[str, str]]:
    """Texts of three words; every second pair shares two of them."""
    random_words = random.Random(seed)
    texts = [random_words.sample(WORDS, 3) for _ in range(number)]
    others = [random_words.sample(WORDS, 3) if row % 2 else [*text[:2], "the"] for row, text in enumerate(texts)]
    return [(" ".join(one), " ".join(two)) for one, two in zip(texts, others, strict=True)]


@pytest.mark.parametrize(
    "family",
    [each if each in ("bert", "modernbert") else pytest.param(each, marks=pytest.mark.slow) for each in FAMILIES],
)
def test_the_vector_of_the_head_learns_what_texts_tell_apart(tmp_path, family):
    folder = stock_checkpoint(tmp_path / "model", family, "AutoModelForSequenceClassification", ["a", "b"])
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    sides = [list(side) for side in zip(*pairs_of_texts(12, 1), strict=True)]
    inputs = tokenizer(*[side[:2] for side in sides], return_tensors="pt", padding=True, return_token_type_ids=True)
    layer = find_head(model, {name: inputs[name] for name in model_inputs(model.config)}).reads
    torch.manual_seed(0)  # of dropout
    losses = learn_from_texts_apart(
        model, layer, sides, tokenizer,
        longest=16, steps=160, optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3), seed=1,
    )  # fmt: skip
    assert losses.shape == (160,)
    assert losses[-40:].mean() < 0.97 * losses[:40].mean()


def test_any_two_texts_are_pairs_to_learn_from():
    means = np.random.default_rng(0).normal(size=(20, 6))
    apart = TextsApart(means, 8, np.random.default_rng(1))
    first, second = apart.draw(3000)
    assert first.shape == second.shape == (3000,)
    assert {*first.tolist(), *second.tolist()} == set(range(20))  # the texts of 8 rows, and 4 others
    of_rows = (np.abs(first - second) == 8) & (np.minimum(first, second) < 8)
    assert 0.3 < of_rows.mean() < 0.4  # a third, and some of the others
    told = apart.told(first, second)
    assert told.shape == (3000, len(apart.weights))
    np.testing.assert_allclose(told.mean(axis=0), 0, atol=0.15)
    np.testing.assert_allclose(told.std(axis=0), 1, atol=0.15)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("rows", [1, 12])
def test_texts_that_are_all_alike_tell_nothing(rows):
    apart = TextsApart(np.ones((2 * rows + 3, 6)), rows, np.random.default_rng(1))
    assert np.isfinite(apart.weights).all()
    np.testing.assert_allclose(apart.told(*apart.draw(10)), 0, atol=1e-3)


def test_texts_are_made_of_the_words_of_others(checkpoint):
    texts = ["A quiet, lovely film.", "Rain in winter", "", "电影很好"]
    made = altered_texts(texts, 300, AutoTokenizer.from_pretrained(checkpoint), 16, np.random.default_rng(0))
    assert len(made) == 300
    words = "A quiet , lovely film . Rain in winter 电 影 很 好".split()
    assert {word for text in made for word in text.split()} == set(words)
    assert len(set(made)) > 40
    assert {"A quiet , film .", "lovely film ."} <= set(made)
    assert any("quiet" in text and "winter" in text for text in made)


def test_words_have_one_space_between_them_where_tokens_begin_with_spaces(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(stock_checkpoint(tmp_path / "model", "modernbert", "AutoModel"))
    made = altered_texts(["the river in Berlin", "a company"], 50, tokenizer, 16, np.random.default_rng(0))
    assert [text for text in made if text.split(" ") != text.split()] == []


def test_a_table_of_few_pairs_learns_from_its_texts(checkpoint, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bertkit.training.schedule._PAIR_STEPS", (30, 30))  # else 300
    path = tmp_path / "pairs.jsonl"
    rows = [
        {"text": one, "text_b": two, "label": "other" if row % 2 else "near"}
        for row, (one, two) in enumerate(pairs_of_texts(40, 1))
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    small = {"data.max_seq_length": 16, "train.max_steps": 2, "train.contrast_steps": 0, "placement.device": "cpu"}
    given = {"model": checkpoint, "train_file": path}
    run = finetune("classification", output_dir=tmp_path / "run", overrides={**small, "data.folds": 2}, **given)
    said = capsys.readouterr().err
    assert said.count("texts apart: 30 steps") == 1  # for the models of all folds
    assert "starts from a linear probe after 30 steps on texts read apart, since there are 40 rows" in said
    assert run.metrics["eval_samples"] == 40
    predicted = (run.output_dir / "out_of_fold.jsonl").read_text()
    finetune(
        "classification", output_dir=run.output_dir, overrides={**small, "data.folds": 2}, **given, resume=True
    )  # its models of folds are trained again, from the same weights
    assert (run.output_dir / "out_of_fold.jsonl").read_text() == predicted


def test_texts_alone_are_refused(checkpoint, tmp_path):
    path = tmp_path / "films.csv"
    path.write_text("text,label\n" + "a lovely film,good\nan awful plot,bad\n" * 6)
    with pytest.raises(RecipeError, match=r"train\.pair_steps: is for pairs of texts of a table; remove it"):
        finetune(
            "classification", model=checkpoint, train_file=path, output_dir=tmp_path / "run",
            overrides={"train.pair_steps": 5, "data.max_seq_length": 16},
        )  # fmt: skip
    assert not (tmp_path / "run").exists()
