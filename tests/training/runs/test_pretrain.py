"""Pre-training end to end on a tiny model: what is left behind, exact losses, resuming bit for bit."""

from __future__ import annotations

import json
import math
import shutil

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForPreTraining, AutoTokenizer

from bertkit import BertForPreTraining, BertForSequenceClassification, load_recipe, pretrain
from bertkit.data.corpus.store import streaming
from bertkit.runtime.errors import BertkitError, RecipeError
from bertkit.tasks.pretraining import held_out_documents
from bertkit.training.pretraining import examples
from bertkit.training.pretraining.recipe import pretraining_recipe
from tests.training.conftest import TINY, as_if_killed, curve, log_history, same_weights, write_corpus


def run(corpus, out, **overrides):
    changes = {key.replace("__", "."): value for key, value in overrides.items() if key != "resume"}
    return pretrain(
        "bert-tiny",
        corpus=[corpus],
        output_dir=out,
        overrides={**TINY, **changes},
        resume=overrides.get("resume", False),
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory, module_patch):
    """A finished run, which tests do not change; the corpus and the cache are beside it."""
    folder = tmp_path_factory.mktemp("finished")
    module_patch.setattr("huggingface_hub.constants.HF_HOME", str(folder / "cache"))
    return run(write_corpus(folder / "corpus"), folder / "run")


def test_a_run_leaves_what_is_promised_and_loads_with_auto_classes(finished):
    out, result = finished.output_dir, finished
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
    assert str(out.parent) not in (out / "README.md").read_text()
    # Logs and the final checkpoint do not count.
    assert record["tokens_seen"] / results["train_tokens_per_second"] < results["train_runtime"]


@pytest.mark.parametrize(("family", "longest"), [("bert", 40), ("esm", 39)])  # ESM numbers from 1
def test_the_saved_tokenizer_cuts_to_what_a_new_model_reads(corpus, checkpoint, tmp_path, family, longest):
    changes = {"model.model_type": family, "model.max_position_embeddings": 40, "task.pair_objective": "none"}
    changes |= {"data.vocab_size": None, "data.tokenizer": str(checkpoint), "train.max_steps": 1}
    tokenizer = AutoTokenizer.from_pretrained(run(corpus, tmp_path / "run", **changes).output_dir)
    assert AutoTokenizer.from_pretrained(checkpoint).model_max_length > 40
    assert tokenizer.model_max_length == longest


def test_the_resolved_recipe_names_every_value_and_repeats_the_run(finished, tmp_path, capfd):
    recipe = finished.output_dir / "recipe.yaml"
    assert "bertkit pretrain --recipe recipe.yaml" in recipe.read_text().splitlines()[0]
    assert yaml.safe_load(recipe.read_text())["data"]["corpus"] == [str(finished.output_dir.parent / "corpus")]
    pretrain(recipe, output_dir=tmp_path / "again")
    assert "training a tokenizer" not in capfd.readouterr().err  # that of the same text is kept
    assert curve(tmp_path / "again") == curve(finished.output_dir)
    assert same_weights(tmp_path / "again", finished.output_dir)


def test_the_losses_reported_apart_add_up_to_the_one_trained(finished):
    for loss, mlm, nsp, mlm_accuracy, nsp_accuracy, *_ in curve(finished.output_dir):
        assert mlm + nsp == pytest.approx(loss, rel=1e-5)
        assert 0 <= mlm_accuracy <= 1
        assert 0 <= nsp_accuracy <= 1
    # Nothing learned yet: the losses are those of guessing.
    first = curve(finished.output_dir)[0]
    vocabulary = len(AutoTokenizer.from_pretrained(finished.output_dir))
    assert first[1] == pytest.approx(math.log(vocabulary), rel=0.05)
    assert first[2] == pytest.approx(math.log(2), rel=0.1)


def test_accumulation_does_not_change_the_curve(corpus, tmp_path):
    without_dropout = {"model__hidden_dropout_prob": 0.0, "model__attention_probs_dropout_prob": 0.0}
    run(corpus, tmp_path / "whole", **without_dropout, placement__per_device_train_batch_size=16)
    run(corpus, tmp_path / "cut", **without_dropout, placement__per_device_train_batch_size=1)
    for whole, cut in zip(curve(tmp_path / "whole"), curve(tmp_path / "cut"), strict=True):
        assert cut == pytest.approx(whole, rel=1e-5)


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
    inputs = record["data"]["corpus"]["tokens"] / 29  # a rough lower bound: no input has more
    assert record["steps"] > 2 * 0.8 * inputs / 16


PHASES = {
    "data__phases": {16: 0.5, 32: 0.5},
    "train__save_steps": 1,
    "train__save_total_limit": 10,
    "train__logging_steps": 1,
}


def test_two_phases_are_one_run_and_each_is_evaluated_at_its_length(corpus, tmp_path):
    run(corpus, tmp_path / "run", **PHASES, train__eval_strategy="steps", train__eval_steps=3)
    history = log_history(tmp_path / "run")
    seen = [entry["num_input_tokens_seen"] for entry in history if "grad_norm" in entry]
    assert seen[0] <= 2 * 16 * 16  # two steps of the first phase
    assert seen[-1] - seen[1] > 2 * 16 * 16  # two of the second, whose inputs are longer
    evaluations = [entry for entry in history if "eval_runtime" in entry]
    assert [entry["step"] for entry in evaluations] == [3, 6]
    # The held-out text is the same; cut shorter it makes more inputs.
    samples = [entry["eval_samples_per_second"] * entry["eval_runtime"] for entry in evaluations]
    assert samples[0] > 1.5 * samples[1]


KILLED = [(0, 0), (3, 0), (4, 0), (5, 0), (4, 1), (3, 2), (4, 2)]


@pytest.mark.parametrize(  # the second phase begins after step 3
    ("killed", "workers"),
    [(2, 0), (3, 1), *(pytest.param(*case, marks=pytest.mark.slow) for case in KILLED)],
)
def test_killed_anywhere_also_between_phases_and_resumed_is_never_interrupted(corpus, tmp_path, killed, workers):
    out = tmp_path / "stopped"
    run(corpus, tmp_path / "straight", **PHASES)
    run(corpus, out, **PHASES)
    as_if_killed(out, before=killed + 1)
    run(corpus, out, **PHASES, placement__dataloader_num_workers=workers, resume=True)
    assert same_weights(tmp_path / "straight", out)
    assert curve(tmp_path / "straight") == curve(out)


def test_sentence_order_has_scores_of_its_own(corpus, tmp_path):
    result = run(corpus, tmp_path / "run", task__pair_objective="sop")
    assert {"eval_sentence_order_loss", "eval_sentence_order_accuracy"} <= result.metrics.keys()
    assert not any("next_sentence" in name for name in result.metrics)
    assert "sentence order prediction" in (tmp_path / "run" / "README.md").read_text()


def test_without_pairs_one_document_suffices_and_the_model_is_a_masked_lm(corpus, tmp_path):
    for path in sorted(corpus.iterdir())[1:]:
        path.unlink()
    result = run(corpus, tmp_path / "run", task__pair_objective="none")
    assert result.metrics["train_loss"] > 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["architectures"] == ["BertForMaskedLM"]
    history = log_history(tmp_path / "run")
    assert all(
        entry["masked_lm_loss"] == pytest.approx(entry["loss"], rel=1e-5) for entry in history if "loss" in entry
    )
    assert not any("next_sentence" in name for entry in history for name in entry)


OF_A_CHECKPOINT = {key: value for key, value in TINY.items() if not key.startswith(("model.", "data.vocab_size"))}


def test_going_on_from_a_checkpoint_keeps_its_weights_and_its_tokenizer(corpus, tmp_path, finished):
    start, overrides = finished.output_dir, {**OF_A_CHECKPOINT, "train.learning_rate": 1e-9}
    pretrain(corpus=[corpus], model=start, output_dir=tmp_path / "second", overrides=overrides)
    first, second = (load_file(folder / "model.safetensors") for folder in (start, tmp_path / "second"))
    for name, weights in first.items():
        torch.testing.assert_close(second[name], weights, atol=1e-6, rtol=0)
    assert (tmp_path / "second" / "tokenizer.json").read_text() == (start / "tokenizer.json").read_text()
    assert "further from" in (tmp_path / "second" / "README.md").read_text()


def test_heads_that_a_checkpoint_lacks_are_drawn_and_named(corpus, tmp_path, finished, capfd):
    encoder = tmp_path / "encoder"
    BertForSequenceClassification.from_pretrained(finished.output_dir).save_pretrained(encoder)
    AutoTokenizer.from_pretrained(finished.output_dir).save_pretrained(encoder)
    pretrain(corpus=[corpus], model=str(encoder), output_dir=tmp_path / "second", overrides=OF_A_CHECKPOINT)
    assert "initialized at random: cls.predictions.bias" in capfd.readouterr().err


STREAM = {"data__streaming": True, "train__save_steps": 2, "train__save_total_limit": 10}


@pytest.mark.slow
def test_a_stream_resumed_is_never_interrupted_and_workers_do_not_matter(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "BLOCK_CHARACTERS", 5000)
    run(corpus, tmp_path / "straight", **STREAM)
    run(corpus, tmp_path / "stopped", **STREAM)
    as_if_killed(tmp_path / "stopped", before=5)
    shutil.rmtree(tmp_path / "cache")
    run(corpus, tmp_path / "stopped", **STREAM, placement__dataloader_num_workers=2, resume=True)
    assert same_weights(tmp_path / "straight", tmp_path / "stopped")
    record = json.loads((tmp_path / "straight" / "run.json").read_text())["data"]["corpus"]
    assert record["streamed"]
    assert record["held_out_documents"] == 2


def test_evaluation_holds_no_more_logits_than_its_limit(corpus, tmp_path, monkeypatch):
    largest = []
    forward = BertForPreTraining.forward

    def noted(self, *args, **kwargs):
        outputs = forward(self, *args, **kwargs)
        if not self.training:
            largest.append(outputs.prediction_logits.numel())
        return outputs

    monkeypatch.setattr(BertForPreTraining, "forward", noted)
    monkeypatch.setattr(examples, "_LOGITS_AT_ONCE", 3 * 5 * 77)
    run(corpus, tmp_path / "run")
    assert len(largest) > 2
    assert max(largest) <= 3 * 5 * 77


def test_a_resumed_run_does_not_move_the_border_of_its_phases(corpus, tmp_path):
    run(corpus, tmp_path / "run", **PHASES)
    with pytest.raises(RecipeError, match="moves the boundary between the phases"):
        run(corpus, tmp_path / "run", **{**PHASES, "train__max_steps": 8}, resume=True)


def test_sizes_that_are_not_the_checkpoints_are_named(corpus, tmp_path, finished):
    without = {key: value for key, value in TINY.items() if key != "data.vocab_size"}
    with pytest.raises(BertkitError, match=r"has the shape \(32,\), but the model needs \(64,\)"):
        pretrain(
            "bert-tiny",
            corpus=[corpus],
            model=str(finished.output_dir),
            output_dir=tmp_path / "second",
            overrides={**without, "model.hidden_size": 64},
        )


def test_a_longest_input_beyond_all_phases_is_said_to_have_no_effect(corpus, tmp_path, capfd):
    run(corpus, tmp_path / "run", data__phases={16: 1.0})
    assert "max_seq_length is 32, but no phase is longer than 16" in capfd.readouterr().err
    assert load_recipe(tmp_path / "run" / "recipe.yaml").data.max_seq_length == 16


@pytest.mark.parametrize(("model", "expected"), [("checkpoint", "pretrain/continue"), (None, "pretrain/bert-base")])
def test_the_default_recipe_depends_on_a_checkpoint(model, expected):
    assert pretraining_recipe(None, "texts", None, {"model.name_or_path": model}).name == expected


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        ({"data__dataset_split": "test"}, "dataset_split: 'test' is for a Hub data set"),
        (
            {"data__vocab_size": None, "data__tokenizer": "x", "data__min_pair_frequency": 2},
            "--min-pair-frequency needs --vocab-size",
        ),
        ({"data__streaming": True, "train__max_steps": -1}, "give --max-steps"),
        ({"model__name_or_path": "some/bert"}, "remove --tokenizer and --vocab-size"),
        ({"train__fit_schedule": True}, r"train\.fit_schedule: is for fine-tuning"),
        ({"model__freeze_layers": 1}, r"model\.freeze_layers: unknown key"),
        ({"model__type_vocab_size": 1}, r"model\.type_vocab_size: nsp marks two segments, and the model has one"),
    ],
)
def test_what_contradicts_or_would_have_no_effect_is_refused(corpus, tmp_path, overrides, fault):
    with pytest.raises(BertkitError, match=fault):
        run(corpus, tmp_path / "run", **overrides)
    assert not (tmp_path / "run").exists()


def test_the_recipe_of_a_run_names_its_files_so_that_it_works_anywhere(corpus, tmp_path, monkeypatch):
    (tmp_path / "splitter.py").write_text("def lines(paragraph):\n    return paragraph.split('. ')\n")
    monkeypatch.chdir(tmp_path)
    pretrain(
        "bert-tiny",
        corpus=["corpus/*.txt"],
        output_dir="run",
        overrides={**TINY, "data.sentence_splitter": "splitter.py:lines"},
    )
    data = load_recipe("run/recipe.yaml").data
    assert data.corpus == [f"{tmp_path}/corpus/*.txt"]
    assert data.sentence_splitter == f"{tmp_path}/splitter.py:lines"
