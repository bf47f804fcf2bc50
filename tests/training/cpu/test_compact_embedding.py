"""The embeddings of occurring tokens alone: the same weights, checkpoints and scores as with the whole table."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from torch import nn

from bertkit import finetune
from bertkit.checkpoint.encoders import head_class
from bertkit.errors import CheckpointError
from bertkit.model.configuration_bert import BertConfig
from bertkit.model.modeling_bert import BertForPreTraining, BertForSequenceClassification
from bertkit.placement.resolve import place
from bertkit.placement.settings import PlacementSettings
from bertkit.training.cpu.compact_embedding import (
    CompactEmbedding,
    compact_embedding,
    compact_embeddings,
    occurring_ids,
)
from bertkit.training.estimate import estimate_memory

pytestmark = pytest.mark.numeric

BATCHES = [[[2, 7, 9, 3], [2, 30, 3, 0]], [[2, 9, 9, 3], [2, 8, 41, 3]], [[2, 0, 9, 3], [2, 8, 3, 0]]]
OTHERS = [[2, 5, 55, 3]]  # 5 and 55 do not occur
SET = Dataset.from_dict({"input_ids": [row for batch in BATCHES for row in batch]})


def bert(head=BertForSequenceClassification):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return head(BertConfig(vocab_size=60, **sizes, **no_dropout))


def trainer(model, inputs=SET, optim="adamw_torch"):
    return SimpleNamespace(model=model, train_dataset=inputs, args=SimpleNamespace(optim=optim))


def adamw(model, **settings):
    table = model.get_input_embeddings().weight
    others = [weight for weight in model.parameters() if weight is not table]
    groups = [{"params": others, "weight_decay": 0.0}, {"params": [table], "weight_decay": 0.3}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, **settings)
    for embedding in compact_embeddings(model):
        embedding.follow(optimizer)
    return optimizer


def train(model, optimizer, steps=6):
    """The gradients' norm is clipped, the learning rate falls, and some padding is attended to."""
    for step in range(steps):
        ids = torch.tensor(BATCHES[step % 3])
        mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
        model(input_ids=ids, attention_mask=mask, labels=torch.tensor([0, 1])).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            group["lr"] *= 0.8


def outputs(model):
    with torch.no_grad():
        return model(input_ids=torch.tensor(OTHERS)).logits


@pytest.mark.parametrize("fused", [False, True])
def test_every_family_gets_the_weights_that_training_the_whole_table_gives(encoder, fused):
    def trained(is_compact):
        torch.manual_seed(0)
        model = head_class("BertForSequenceClassification", encoder, "here")(encoder).train()
        before = model.get_input_embeddings().weight.detach().clone()
        if is_compact:
            with compact_embedding(trainer(model), [0, 2, 3]):
                assert len(model.get_input_embeddings().weight) < 10
                train(model, adamw(model, fused=fused))
                seen = outputs(model)
        else:
            train(model, adamw(model, fused=fused))
            seen = outputs(model)
        return model, seen, before

    (compact, compact_outputs, _), (whole, whole_outputs, before) = trained(True), trained(False)
    torch.testing.assert_close(compact_outputs, whole_outputs)
    assert type(compact.get_input_embeddings()) is nn.Embedding
    for (name, one), two in zip(compact.named_parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(one, two, msg=lambda message, name=name: f"{name}: {message}")
    assert not torch.equal(whole.get_input_embeddings().weight[55], before[55])  # by its decay


def test_weights_and_moments_that_are_saved_are_of_all_rows_and_are_loaded_again():
    straight = bert()
    with compact_embedding(trainer(straight), [0, 2, 3]):
        optimizer = adamw(straight)
        train(straight, optimizer, 3)
        saved = {name: value.clone() for name, value in straight.state_dict().items()}
        moments = copy.deepcopy(optimizer.state_dict())
        assert saved["bert.embeddings.word_embeddings.weight"].shape == (60, 32)
        [of_table] = [each["exp_avg"] for each in moments["state"].values() if each["exp_avg"].shape == (60, 32)]
        assert of_table[9].any()
        assert not of_table[55].any()
        train(straight, optimizer, 4)
    again = bert()
    with torch.no_grad():
        again.bert.embeddings.word_embeddings.weight.zero_()
    with compact_embedding(trainer(again), [0, 2, 3]):
        optimizer = adamw(again)
        assert not again.load_state_dict(saved).missing_keys
        optimizer.load_state_dict(copy.deepcopy(moments))
        train(again, optimizer, 4)
    whole = bert()
    optimizer = adamw(whole)
    whole.load_state_dict(saved)
    optimizer.load_state_dict(copy.deepcopy(moments))
    train(whole, optimizer, 4)
    for one, two, three in zip(straight.parameters(), again.parameters(), whole.parameters(), strict=True):
        assert torch.equal(one, two)
        torch.testing.assert_close(one, three)


def test_weights_of_before_are_taken_back_while_training():
    """As the best ones are, at the end."""
    model = bert()
    with compact_embedding(trainer(model), [0, 2, 3]):
        optimizer = adamw(model)
        train(model, optimizer, 3)
        best = {name: value.clone() for name, value in model.state_dict().items()}
        train(model, optimizer, 3)
        model.load_state_dict(best)
        assert all(torch.equal(value, best[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(value, best[name]) for name, value in model.state_dict().items())


def test_a_table_that_was_moved_meanwhile_comes_back():
    model = bert()
    with compact_embedding(trainer(model), [0, 2, 3]):
        [table] = compact_embeddings(model)
        table.whole = table.whole.clone()
        train(model, adamw(model), 2)
        expected = table.table().clone()
    assert torch.equal(model.bert.embeddings.word_embeddings.weight, expected)


def test_a_step_without_a_gradient_of_it_has_no_decay_either():
    model = bert()
    before = model.bert.embeddings.word_embeddings.weight.detach().clone()
    with compact_embedding(trainer(model), [0, 2, 3]):
        adamw(model).step()
    assert torch.equal(model.bert.embeddings.word_embeddings.weight, before)


def test_an_optimizer_is_left_alone_afterwards():
    model = bert()
    with compact_embedding(trainer(model), [0, 2, 3]):
        optimizer = adamw(model)
        train(model, optimizer, 1)
    optimizer.step()
    assert not optimizer._optimizer_step_post_hooks
    assert not optimizer._optimizer_state_dict_post_hooks
    assert not optimizer._optimizer_load_state_dict_pre_hooks


def test_an_id_beyond_the_table_is_told():
    with pytest.raises(CheckpointError, match="a token the id 60, but the model has embeddings for 60 ids"):
        compact_embedding(trainer(bert(), Dataset.from_dict({"input_ids": [[2, 60, 3]]})), [])


def test_moments_of_other_tokens_are_not_thrown_away():
    model = bert()
    optimizer = adamw(model)
    train(model, optimizer, 1)
    moments = optimizer.state_dict()
    [of_table] = [each["exp_avg"] for each in moments["state"].values() if each["exp_avg"].shape == (60, 32)]
    of_table[55] = 1.0
    again = bert()
    with (
        compact_embedding(trainer(again), [0, 2, 3]),
        pytest.raises(CheckpointError, match="of tokens that do not occur"),
    ):
        adamw(again).load_state_dict(moments)


def test_a_table_of_another_shape_and_a_missing_one_are_told_as_ever():
    model = bert()
    with compact_embedding(trainer(model), [0, 2, 3]):
        weights = model.state_dict()
        name = "bert.embeddings.word_embeddings.weight"
        with pytest.raises(RuntimeError, match="size mismatch"):
            model.load_state_dict({**weights, name: torch.zeros(59, 32)})
        del weights[name]
        assert model.load_state_dict(weights, strict=False).missing_keys == [name]


def test_with_gradients_a_token_that_does_not_occur_is_an_error_and_the_model_is_as_before():
    model = bert()
    table = model.bert.embeddings.word_embeddings
    weight, before, attributes = table.weight, outputs(model), set(vars(table))

    def compute():
        with compact_embedding(trainer(model), [0, 2, 3]):
            assert isinstance(table, CompactEmbedding)
            torch.testing.assert_close(outputs(model), before)
            model(input_ids=torch.tensor(OTHERS))

    with pytest.raises(IndexError):
        compute()
    assert type(table) is nn.Embedding
    assert table.weight is weight
    assert torch.equal(outputs(model), before)
    assert not list(model.buffers())
    assert set(vars(table)) == attributes


@pytest.mark.parametrize(
    "why",
    ["frozen", "tied", "another optimizer", "most rows occur", "another class", "norms", "gradients", "unknown inputs"],
)
def test_the_whole_table_is_trained_where_rows_would_not_do_or_not_pay(why):
    model = bert(BertForPreTraining if why == "tied" else BertForSequenceClassification)
    table = model.bert.embeddings.word_embeddings
    inputs = SET
    if why == "frozen":
        table.weight.requires_grad_(False)
    elif why == "most rows occur":
        inputs = Dataset.from_dict({"input_ids": [list(range(46))]})
    elif why == "another class":
        table.__class__ = type("OtherEmbedding", (nn.Embedding,), {})
    elif why == "norms":
        table.max_norm = 1.0
    elif why == "gradients":
        table.scale_grad_by_freq = True
    elif why == "unknown inputs":
        inputs = [{"input_ids": row} for row in SET["input_ids"]]
    optim = "adafactor" if why == "another optimizer" else "adamw_torch"
    with compact_embedding(trainer(model, inputs, optim), [0, 2, 3]):
        assert not compact_embeddings(model)


def test_it_pays_up_to_three_quarters_of_the_rows():
    model = bert()
    with compact_embedding(trainer(model, Dataset.from_dict({"input_ids": [list(range(45))]})), [0, 2, 3]):
        [table] = compact_embeddings(model)
        assert table.weight.shape == (45, 32)


def test_memory_is_that_of_the_rows_that_occur_and_of_the_table():
    model = bert()
    others = sum(weight.numel() for weight in model.parameters()) - 60 * 32
    with compact_embedding(trainer(model), [0, 2, 3]):
        states = estimate_memory(model, place(PlacementSettings(device="cpu"), 8), 16).states
    assert states == 16 * (others + 8 * 32) + 4 * 60 * 32 + 8 * (8 + 60)


def test_ids_are_found_at_any_depth_and_in_the_rows_that_are_chosen():
    nested = Dataset.from_dict({"input_ids": [[[4, 5], [6]], [[9], []], [[1, 1]]]})
    assert occurring_ids(nested, [0, 99], 12).tolist() == [0, 1, 4, 5, 6, 9]
    assert occurring_ids(nested.select([1, 2]), [], 12).tolist() == [1, 9]


OVERRIDES = {
    "data.max_seq_length": 16,
    "train.num_train_epochs": 2,
    "train.global_train_batch_size": 16,
    "train.weight_decay": 0.2,
    "model.hidden_dropout_prob": 0,
    "model.attention_probs_dropout_prob": 0,
    "train.learning_rate": 1e-3,
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}


@pytest.mark.slow
def test_a_run_goes_on_with_it_or_without(glue, checkpoint, tmp_path, monkeypatch):
    """Scores after each epoch, weights and files are the same; so is what a run gives that changes in the middle."""
    used = []
    follow = CompactEmbedding.follow
    monkeypatch.setattr(CompactEmbedding, "follow", lambda *args: (used.append(args[0]), follow(*args))[1])

    def run(name, is_compact, resume=False, **more):
        overrides = {**OVERRIDES, **more, "placement.cpu_speed_ups": is_compact}
        options = {"model": str(checkpoint), "data_dir": glue, "overrides": overrides, "resume": resume}
        return finetune("sst2", output_dir=tmp_path / name, **options)

    whole = run("whole", False)
    assert not used
    runs = [run("compact", True)]
    assert len(used) == 1
    for first in (True, False):
        name = f"first-{first}"
        out = run(name, first).output_dir
        for path in (out / "checkpoint-12").iterdir():
            path.unlink()  # as if it had been killed in the second epoch
        (out / "model.safetensors").unlink()
        runs.append(run(name, not first, resume=True))

    losses, weights = eval_losses(whole), load_file(whole.output_dir / "model.safetensors")
    assert len(losses) == 2
    for each in runs:
        assert eval_losses(each) == pytest.approx(losses, rel=1e-5)
        found = load_file(each.output_dir / "model.safetensors")
        assert found.keys() == weights.keys()
        for name, weight in found.items():
            torch.testing.assert_close(weight, weights[name], rtol=1e-4, atol=1e-6)


def eval_losses(run):
    """After each epoch."""
    state = json.loads((run.output_dir / "trainer_state.json").read_text())
    return [entry["eval_loss"] for entry in state["log_history"] if "eval_loss" in entry]
