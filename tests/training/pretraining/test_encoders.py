"""Pre-training of transformers' encoders: their own losses as the oracle, and whole runs of several families."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from bertkit import check, pretrain
from bertkit.model.checkpoint.encoders import model_inputs
from bertkit.model.checkpoint.load import load_config, load_model
from bertkit.model.modeling_bert import BertForPreTraining
from bertkit.runtime.errors import CheckpointError, RecipeError
from bertkit.training.pretraining.encoders import as_pretraining_model, inputs_of, reaches_all_weights
from bertkit.training.pretraining.objective import PretrainingObjective
from tests.stock_models import stock_checkpoint
from tests.training.conftest import SMALL, curve, logged

OBJECTIVE = PretrainingObjective()
FAMILIES = ["roberta", "distilbert", "albert", "electra", "deberta-v2", "modernbert", "xlm-roberta", "mpnet", "deberta"]
WITH_PAIRS = {
    "albert": "sentence_order_label",
    "big_bird": "next_sentence_label",
    "ernie": "next_sentence_label",
    "megatron-bert": "next_sentence_label",
    "mobilebert": "next_sentence_label",
}
RUN = {
    **{key: value for key, value in SMALL.items() if not key.startswith("model.")},
    "data.max_seq_length": 32,
    "train.global_train_batch_size": 16,
    "train.max_steps": 4,
    "train.save_steps": 1,
    "train.save_total_limit": 10,
}


def batch_of(vocab_size: int, rows: int = 3, length: int = 12) -> dict[str, torch.Tensor]:
    """Inputs of different lengths with up to four masked tokens, fewer in later rows."""
    rng = np.random.default_rng(0)
    mask = (np.arange(length) < np.array([[length], [length - 3], [6]])).astype(np.int64)
    positions = np.array([[1, 4, 7, 10], [2, 3, 8, 0], [5, 0, 0, 0]])
    labels = rng.integers(5, vocab_size, (rows, 4))
    labels[1, 3:], labels[2, 1:] = -100, -100
    ids = np.where(mask, rng.integers(5, vocab_size, (rows, length)), 0)
    batch = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    batch |= {"masked_positions": positions, "labels": labels}
    return {name: torch.from_numpy(values) for name, values in batch.items()}


def of_all_tokens(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The labels as transformers takes them, (B, S)."""
    labels = torch.full_like(batch["input_ids"], -100)
    for row, (positions, of_row) in enumerate(zip(batch["masked_positions"], batch["labels"], strict=True)):
        used = of_row != -100
        labels[row, positions[used]] = of_row[used]
    return labels


def loaded(folder: Path) -> transformers.PreTrainedModel:
    config = load_config(str(folder), any_encoder=True)
    model, new = load_model("BertForMaskedLM", str(folder), config, new_head=True)
    assert not new
    return as_pretraining_model(model, str(folder))


@pytest.mark.numeric
@pytest.mark.parametrize("family", FAMILIES)
def test_loss_and_gradients_are_those_of_transformers(family, tmp_path):
    folder = stock_checkpoint(tmp_path, family, "AutoModelForMaskedLM")
    stock = AutoModelForMaskedLM.from_pretrained(folder).eval()
    model = loaded(folder).eval()
    batch = batch_of(stock.config.vocab_size)
    inputs = {name: batch[name] for name in model_inputs(stock.config)}
    expected = stock(**inputs, labels=of_all_tokens(batch))
    outputs = model(**inputs_of(batch))
    loss = OBJECTIVE.loss(outputs, batch, OBJECTIVE.count(batch))
    torch.testing.assert_close(loss, expected.loss, rtol=1e-5, atol=1e-6)
    assert outputs.logits.shape == (3, 4, stock.config.vocab_size)
    expected.loss.backward()
    loss.backward()
    gradients = dict(model.named_parameters())
    for name, weight in stock.named_parameters():
        if weight.grad is not None:
            torch.testing.assert_close(gradients[name].grad, weight.grad, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.numeric
@pytest.mark.parametrize("family", WITH_PAIRS)
def test_the_losses_of_pairs_are_those_of_transformers(family):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    sizes |= {"embedding_size": 16, "intra_bottleneck_size": 32} if family == "mobilebert" else {}
    sizes |= {"attention_type": "original_full"} if family == "big_bird" else {}
    config = CONFIG_MAPPING[family](vocab_size=50, **sizes, pad_token_id=0)
    torch.manual_seed(0)
    model = transformers.AutoModelForPreTraining.from_config(config).eval()
    batch, pairs = batch_of(50), torch.tensor([0, 1, 1])
    inputs = {name: batch[name] for name in model_inputs(config)}
    expected = model(**inputs, labels=of_all_tokens(batch), **{WITH_PAIRS[family]: pairs}).loss
    batch["next_sentence_label"] = pairs
    outputs, count = as_pretraining_model(model, family)(**inputs_of(batch)), OBJECTIVE.count(batch)
    torch.testing.assert_close(OBJECTIVE.loss(outputs, batch, count), expected, rtol=1e-5, atol=1e-6)
    # Means over the global batch: 2 micro-batches like this one have twice the items.
    torch.testing.assert_close(OBJECTIVE.loss(outputs, batch, 2 * count), expected / 2, rtol=1e-5, atol=1e-6)


def test_the_class_and_the_checkpoint_stay_those_of_transformers(tmp_path):
    stock_checkpoint(tmp_path / "stock", "roberta", "AutoModelForMaskedLM")
    model = loaded(tmp_path / "stock")
    assert isinstance(model, transformers.RobertaForMaskedLM)
    model.save_pretrained(tmp_path / "saved")
    one, two = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("stock", "saved"))
    assert one == two
    stock, saved = (load_file(tmp_path / name / "model.safetensors") for name in ("stock", "saved"))
    assert stock.keys() == saved.keys()
    assert all(torch.equal(stock[name], saved[name]) for name in stock)


def test_bert_keeps_its_own_forward(tmp_path):
    folder = stock_checkpoint(tmp_path, "bert", "AutoModelForPreTraining")
    config = load_config(str(folder))
    model, _ = load_model("BertForPreTraining", str(folder), config, new_head=True)
    assert type(as_pretraining_model(model, "bert")) is BertForPreTraining


def test_a_head_that_mixes_positions_is_refused():
    class Mixing(torch.nn.Module):
        def __init__(self, head):
            super().__init__()
            self.head = head

        def forward(self, states, **options):
            return self.head(states.cumsum(dim=1))

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    model = AutoModelForMaskedLM.from_config(AutoConfig.for_model("roberta", vocab_size=50, **sizes))
    model.lm_head = Mixing(model.lm_head)
    with pytest.raises(CheckpointError, match="does not compute each position on its own"):
        as_pretraining_model(model, "some/checkpoint")


def test_weights_that_the_loss_does_not_reach_are_found(tmp_path):
    model = loaded(stock_checkpoint(tmp_path, "roberta", "AutoModelForMaskedLM"))
    assert reaches_all_weights(model)
    assert all(weight.grad is None for weight in model.parameters())
    model.register_parameter("unused", torch.nn.Parameter(torch.zeros(1)))
    assert not reaches_all_weights(model)


def go_on(folder: Path, corpus: Path, out: Path, **changes: object):
    overrides = {**RUN, "task.pair_objective": "none", **changes}
    return pretrain(corpus=[corpus], model=str(folder), output_dir=out, overrides=overrides)


@pytest.fixture(params=["roberta", pytest.param("modernbert", marks=pytest.mark.slow)])
def family(request) -> str:
    return request.param


@pytest.fixture
def start(family, tmp_path) -> Path:
    return stock_checkpoint(tmp_path / "start", family, "AutoModelForMaskedLM", initializer_range=0.02)


def test_a_run_leaves_a_checkpoint_that_transformers_loads(family, start, corpus, tmp_path):
    result = go_on(start, corpus, tmp_path / "run", **{"data.whole_word_mask": True})
    assert 0 < result.metrics["eval_masked_lm_accuracy"] < 1
    model, info = AutoModelForMaskedLM.from_pretrained(tmp_path / "run", output_loading_info=True)
    assert type(model).__module__.startswith("transformers.")
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    card = (tmp_path / "run" / "README.md").read_text()
    assert f"The model class is `{type(model).__name__}`" in card
    assert AutoTokenizer.from_pretrained(start).mask_token in card
    assert "import bertkit  # registers" not in card
    first = curve(tmp_path / "run")[0]
    assert first[0] == pytest.approx(np.log(model.config.vocab_size), rel=0.05)  # nothing learned yet


def test_the_first_steps_change_the_rows_of_the_vocabulary_alone(start, corpus, tmp_path):
    go_on(start, corpus, tmp_path / "rows", **{"train.vocabulary_steps": 2, "train.max_steps": 2})
    go_on(start, corpus, tmp_path / "more", **{"train.vocabulary_steps": 2, "train.max_steps": 3})
    folders = (start, tmp_path / "rows", tmp_path / "more")
    before, rows, more = (load_file(folder / "model.safetensors") for folder in folders)
    size = json.loads((start / "config.json").read_text())["vocab_size"]
    of_vocabulary = {name for name, weight in before.items() if len(weight) == size}
    assert {name for name in before if not torch.equal(before[name], rows[name])} == of_vocabulary
    assert len([name for name in before if not torch.equal(rows[name], more[name])]) > len(of_vocabulary)


def test_a_run_is_checked_before_it_starts(start, corpus):
    overrides = {**RUN, "task.pair_objective": "none"}
    report = check(corpus=[corpus], model=str(start), overrides=overrides)
    assert not report.errors


@pytest.mark.slow
@pytest.mark.parametrize("of_family", sorted({*FAMILIES} - {"roberta", "modernbert"}))
def test_every_family_learns(of_family, corpus, tmp_path):
    folder = stock_checkpoint(tmp_path / "start", of_family, "AutoModelForMaskedLM", initializer_range=0.02)
    go_on(folder, corpus, tmp_path / "run", **{"train.max_steps": 40, "train.learning_rate": 3e-3})
    losses = [entry[0] for entry in curve(tmp_path / "run")]
    assert losses[-1] < 0.9 * losses[0]
    AutoModelForMaskedLM.from_pretrained(tmp_path / "run")


SMALLER = {
    "model.num_hidden_layers": 2,
    "model.hidden_size": 32,
    "model.num_attention_heads": 2,
    "model.intermediate_size": 64,
}


def from_scratch(name: str, corpus: Path, out: Path, **changes: object):
    return pretrain(name, corpus=[corpus], output_dir=out, overrides={**RUN, **SMALLER, **changes})


def test_albert_from_scratch_predicts_masks_and_sentence_order(corpus, tmp_path):
    result = from_scratch("albert-small", corpus, tmp_path / "run", **{"data.vocab_size": 120})
    assert {"eval_sentence_order_loss", "eval_masked_lm_loss"} <= result.metrics.keys()
    model = transformers.AutoModelForPreTraining.from_pretrained(tmp_path / "run")
    assert isinstance(model, transformers.AlbertForPreTraining)
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert sum("attention.query.weight" in name for name in weights) == 1  # of two layers
    assert weights["albert.embeddings.word_embeddings.weight"].shape == (model.config.vocab_size, 128)


@pytest.mark.parametrize(("name", "vocab_size"), [("roberta-small", 300), ("modernbert-small", 300)])
def test_a_new_byte_level_model_is_fine_tuned(tuned, name, vocab_size, corpus, glue, tmp_path):
    from_scratch(name, corpus, tmp_path / "run", **{"data.vocab_size": vocab_size})
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run")
    assert (config["vocab_size"], config["pad_token_id"]) == (len(tokenizer), tokenizer.pad_token_id)
    overrides = {"train.max_steps": 2, "train.logging_steps": 1, "placement.device": "cpu"}
    done = tuned("finetune/glue/sst2", overrides, "tuned", model=str(tmp_path / "run"), data_dir=glue)
    assert 0 <= done.metrics["eval_accuracy"] <= 1


def test_the_trapezoidal_schedule_scales_with_the_steps(corpus, tmp_path):
    changes = {"data.vocab_size": 300, "train.max_steps": 10, "train.warmup_steps": 0.2}
    changes |= {"train.lr_scheduler_kwargs": {"num_decay_steps": 0.3}, "train.save_steps": 10}
    from_scratch("modernbert-small", corpus, tmp_path / "run", **changes)
    rates = [rate / 1e-3 for rate in logged(tmp_path / "run", "learning_rate")]
    assert rates[:2] == [0.0, 0.5]
    assert rates[2:8] == [1.0] * 6
    assert 1 > rates[8] > rates[9] > 0


@pytest.mark.parametrize(
    ("of_family", "pair_objective", "message"),
    [
        ("roberta", "nsp", "roberta has none; give --pair-objective none"),
        ("albert", "nsp", "for sentence order prediction, not for nsp; give --pair-objective sop or none"),
    ],
)
def test_a_pair_objective_without_a_head_is_refused(of_family, pair_objective, message, corpus, tmp_path):
    folder = stock_checkpoint(tmp_path / "start", of_family, "AutoModelForMaskedLM")
    with pytest.raises(RecipeError, match=message):
        go_on(folder, corpus, tmp_path / "run", **{"task.pair_objective": pair_objective})
    assert not (tmp_path / "run").exists()


def test_sizes_that_the_model_refuses_are_one_message(corpus, tmp_path):
    changes = {"data.vocab_size": 300, "model.hidden_size": 34, "model.num_attention_heads": 4}
    with pytest.raises(RecipeError, match=r"model: ModernBertForMaskedLM cannot be built: The hidden size \(34\)"):
        from_scratch("modernbert-small", corpus, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_a_new_model_without_a_head_for_pairs_is_refused_before_a_tokenizer_is_trained(corpus, tmp_path, capfd):
    changes = {"data.vocab_size": 300, "task.pair_objective": "sop"}
    with pytest.raises(RecipeError, match="give --pair-objective none"):
        from_scratch("roberta-small", corpus, tmp_path / "run", **changes)
    assert "training a tokenizer" not in capfd.readouterr().err
