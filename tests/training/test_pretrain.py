"""Pre-training end to end on a tiny model: what is left behind, exact losses, resuming bit for bit."""

from __future__ import annotations

import json
import math

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForPreTraining, AutoTokenizer

from bertkit import load_recipe, pretrain
from bertkit.errors import BertkitError, RecipeError
from bertkit.tasks.pretraining import held_out_documents

from .conftest import TINY

LOSSES = ("loss", "masked_lm_loss", "next_sentence_loss", "masked_lm_accuracy", "next_sentence_accuracy", "grad_norm")


def curve(folder):
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [[entry[name] for name in LOSSES] for entry in history if "loss" in entry]


def run(corpus, out, **overrides):
    changes = {key.replace("__", "."): value for key, value in overrides.items() if key != "resume"}
    return pretrain(
        "bert-tiny",
        corpus=[corpus],
        output_dir=out,
        overrides={**TINY, **changes},
        resume=overrides.get("resume", False),
    )


def test_a_run_leaves_what_is_promised_and_loads_with_auto_classes(corpus, tmp_path):
    out = tmp_path / "run"
    result = run(corpus, out)
    assert result.output_dir == out
    promised = """recipe.yaml config.json model.safetensors tokenizer.json tokenizer_config.json all_results.json
        train_results.json eval_results.json run.json trainer_state.json README.md""".split()
    assert set(promised) <= {path.name for path in out.iterdir()}
    results = json.loads((out / "all_results.json").read_text())
    assert results == result.metrics
    for name in ("masked_lm_loss", "perplexity", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy"):
        assert math.isfinite(results[f"eval_{name}"])
    assert results["eval_perplexity"] == pytest.approx(math.exp(results["eval_masked_lm_loss"]))
    record = json.loads((out / "run.json").read_text())
    assert record["data"]["corpus"]["documents"] == 12
    assert record["data"]["corpus"]["held_out_documents"] == 2
    assert record["steps"] == 6
    assert 0 < record["tokens_seen"] <= 6 * 16 * 32
    model = AutoModelForPreTraining.from_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert tokenizer.model_max_length == 32
    assert model.config.vocab_size == len(tokenizer)
    assert str(tmp_path) not in (out / "README.md").read_text()


def test_the_resolved_recipe_repeats_the_run(corpus, tmp_path):
    run(corpus, tmp_path / "one")
    pretrain(tmp_path / "one" / "recipe.yaml", output_dir=tmp_path / "two")
    assert curve(tmp_path / "one") == curve(tmp_path / "two")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_the_losses_reported_apart_add_up_to_the_one_trained(corpus, tmp_path):
    run(corpus, tmp_path / "run")
    for loss, mlm, nsp, mlm_accuracy, nsp_accuracy, _ in curve(tmp_path / "run"):
        assert mlm + nsp == pytest.approx(loss, rel=1e-5)
        assert 0 <= mlm_accuracy <= 1
        assert 0 <= nsp_accuracy <= 1
    # Nothing learned yet: the losses are those of guessing.
    first = curve(tmp_path / "run")[0]
    vocabulary = len(AutoTokenizer.from_pretrained(tmp_path / "run"))
    assert first[1] == pytest.approx(math.log(vocabulary), rel=0.05)
    assert first[2] == pytest.approx(math.log(2), rel=0.1)


@pytest.mark.parametrize("per_device", [1, 4, 8])
def test_accumulation_does_not_change_the_curve(corpus, tmp_path, per_device):
    without_dropout = {"model__hidden_dropout_prob": 0.0, "model__attention_probs_dropout_prob": 0.0}
    run(corpus, tmp_path / "whole", **without_dropout, placement__per_device_train_batch_size=16)
    run(corpus, tmp_path / "cut", **without_dropout, placement__per_device_train_batch_size=per_device)
    for whole, cut in zip(curve(tmp_path / "whole"), curve(tmp_path / "cut"), strict=True):
        assert cut == pytest.approx(whole, rel=1e-5)


def test_interrupted_and_resumed_is_never_interrupted_bit_for_bit(corpus, tmp_path):
    run(corpus, tmp_path / "straight", train__save_steps=2)
    run(corpus, tmp_path / "stopped", train__save_steps=2, train__max_steps=6)
    for path in (tmp_path / "stopped").iterdir():  # what a kill after step 4 would have left
        if path.is_file() and path.name not in ("recipe.yaml", "tokenizer.json", "tokenizer_config.json"):
            path.unlink()
    for path in sorted((tmp_path / "stopped" / "checkpoint-6").iterdir()):
        path.unlink()
    run(corpus, tmp_path / "stopped", train__save_steps=2, resume=True)
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("straight", "stopped"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert curve(tmp_path / "straight") == curve(tmp_path / "stopped")


def test_few_documents_are_all_trained_on_and_that_is_said(corpus, tmp_path, capfd):
    for path in sorted(corpus.iterdir())[3:]:
        path.unlink()
    result = run(corpus, tmp_path / "run")
    assert not any(key.startswith("eval_") for key in result.metrics)
    assert "none held out" in capfd.readouterr().err


def test_one_document_is_refused_with_the_ways_out(corpus, tmp_path):
    for path in sorted(corpus.iterdir())[1:]:
        path.unlink()
    with pytest.raises(BertkitError, match="document"):
        run(corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_held_out_documents_depend_on_the_seed_alone():
    assert held_out_documents(50, 0.1, seed=1).tolist() == held_out_documents(50, 0.1, seed=1).tolist()
    assert held_out_documents(50, 0.1, seed=1).tolist() != held_out_documents(50, 0.1, seed=2).tolist()
    chosen = held_out_documents(50, 0.1, seed=1)
    assert len(set(chosen.tolist())) == 5
    assert 0 <= chosen.min() <= chosen.max() < 50


def test_epochs_are_turned_into_steps(corpus, tmp_path):
    overrides = {"train.max_steps": -1, "train.num_train_epochs": 2.0}
    run(corpus, tmp_path / "run", **{key.replace(".", "__"): value for key, value in overrides.items()})
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["steps"] > 6


def test_an_existing_model_is_not_asked_for(corpus, tmp_path):
    with pytest.raises(RecipeError, match="pre-training starts from new weights"):
        run(corpus, tmp_path / "run", model__name_or_path="bert-base-uncased")


def test_the_recipe_that_is_saved_names_every_value(corpus, tmp_path):
    run(corpus, tmp_path / "run")
    text = (tmp_path / "run" / "recipe.yaml").read_text()
    assert "bertkit pretrain --recipe recipe.yaml" in text.splitlines()[0]
    assert yaml.safe_load(text)["data"]["corpus"] == [str(corpus)]
    assert load_recipe(tmp_path / "run" / "recipe.yaml").train["max_steps"] == 6
