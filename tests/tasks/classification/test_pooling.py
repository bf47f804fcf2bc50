"""Windows of long texts: what one prediction is made of."""

from __future__ import annotations

import copy
import gc

import pytest
import torch

from bertkit.model.checkpoint.encoders import head_class
from bertkit.runtime.errors import CheckpointError
from bertkit.tasks.classification.pooling import pool_windows

pytestmark = pytest.mark.numeric

COUNTS = [2, 1, 3]  # documents of six windows in all
POOLINGS = pytest.mark.parametrize("pooling", ["mean", "max"])


def classifier(config, head: str = "SequenceClassification"):
    config.num_labels = 3
    torch.manual_seed(0)
    return head_class(f"BertFor{head}", config, "here")(config).double().eval()


def windows(count: int, length: int = 9) -> dict[str, torch.Tensor]:
    """Windows of random tokens; each second one is padded, as last windows are."""
    ids = torch.randint(5, 60, (count, length), generator=torch.Generator().manual_seed(count))
    mask = torch.ones_like(ids)
    mask[1::2, length - 3 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


# What each family's head does with one document's vector, (1, H), by the definition of its network.
HEADS = {
    "bertkit": lambda model, vector: model.classifier(vector),
    "albert": lambda model, vector: model.classifier(vector),
    "distilbert": lambda model, vector: model.classifier(model.pre_classifier(vector).relu()),
    "deberta": lambda model, vector: model.classifier(model.pooler(vector.unsqueeze(1))),
    "deberta-v2": lambda model, vector: model.classifier(model.pooler(vector.unsqueeze(1))),
    "modernbert": lambda model, vector: model.classifier(model.head(vector)),
    "electra": lambda model, vector: model.classifier(vector.unsqueeze(1)),
    "mpnet": lambda model, vector: model.classifier(vector.unsqueeze(1)),
    "roberta": lambda model, vector: model.classifier(vector.unsqueeze(1)),
    "xlm-roberta": lambda model, vector: model.classifier(vector.unsqueeze(1)),
}


def one_by_one(model, pooling: str, embedded: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Logits of documents computed singly, each window through the encoder by itself."""
    reads_pooler = model.config.model_type in ("bertkit", "albert")
    logits, start = [], 0
    for count in COUNTS:
        vectors = []
        for row in range(start, start + count):
            output = model.base_model(inputs_embeds=embedded[row : row + 1], attention_mask=mask[row : row + 1])
            vectors.append(output.pooler_output[0] if reads_pooler else output.last_hidden_state[0, 0])
        pooled = sum(vectors) / count if pooling == "mean" else torch.stack(vectors).max(dim=0).values
        logits.append(HEADS[model.config.model_type](model, pooled.unsqueeze(0)))
        start += count
    return torch.cat(logits)


@POOLINGS
def test_logits_and_gradients_are_those_of_documents_computed_one_by_one(encoder, pooling):
    model = classifier(encoder)
    prepared = copy.deepcopy(model)
    pool_windows(prepared, pooling)
    batch = windows(sum(COUNTS))
    embedded = model.get_input_embeddings()(batch["input_ids"]).detach()
    ours, theirs = embedded.clone().requires_grad_(), embedded.clone().requires_grad_()
    logits = prepared(
        inputs_embeds=ours, attention_mask=batch["attention_mask"], window_counts=torch.tensor(COUNTS)
    ).logits
    expected = one_by_one(model, pooling, theirs, batch["attention_mask"])
    assert logits.shape == (3, 3)
    torch.testing.assert_close(logits, expected, rtol=1e-10, atol=1e-10)
    for outcome in (logits, expected):
        torch.nn.functional.cross_entropy(outcome, torch.tensor([0, 2, 1])).backward()
    for window in ours.grad:
        assert window.isfinite().all()
        assert window.abs().sum() > 0
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-10)
    for (name, ours_of_name), theirs_of_name in zip(prepared.named_parameters(), model.parameters(), strict=True):
        if theirs_of_name.grad is not None:
            torch.testing.assert_close(ours_of_name.grad, theirs_of_name.grad, rtol=1e-10, atol=1e-10, msg=name)


@POOLINGS
def test_documents_of_one_window_get_what_they_get_without_pooling(encoder, pooling):
    model = classifier(encoder).float()
    plain = model(**windows(4)).logits
    names = list(model.state_dict())
    pool_windows(model, pooling)
    torch.testing.assert_close(model(**windows(4), window_counts=torch.ones(4, dtype=torch.int64)).logits, plain)
    torch.testing.assert_close(model(**windows(4)).logits, plain)
    assert list(model.state_dict()) == names
    assert not model.training


bert = pytest.mark.parametrize("encoder", ["bertkit"], indirect=True)
bert_and_roberta = pytest.mark.parametrize("encoder", ["bertkit", "roberta"], indirect=True)


@pytest.mark.parametrize("counts", [[2, 1], [2, 1, 4], [3, 0, 3], [7, -1], []])
@bert
def test_counts_that_do_not_fit_the_windows_are_refused(encoder, counts):
    model = classifier(encoder)
    pool_windows(model, "mean")
    with pytest.raises(ValueError, match=r"`window_counts` are \[.*\]; expected positive numbers with the sum 6"):
        model(**windows(6), window_counts=torch.tensor(counts, dtype=torch.int64))


@pytest.mark.parametrize("encoder", ["modernbert"], indirect=True)
def test_a_head_that_reads_all_tokens_is_refused_and_said_how_to_change(encoder):
    encoder.classifier_pooling = "mean"
    with pytest.raises(CheckpointError, match=r"ModernBertForSequenceClassification .*; set classifier_pooling to cls"):
        pool_windows(classifier(encoder), "mean")


@bert
def test_a_head_that_classifies_tokens_is_refused(encoder):
    with pytest.raises(
        CheckpointError, match="classifies by more than the first token, so its windows cannot be pooled"
    ):
        pool_windows(classifier(encoder, "TokenClassification"), "mean")


@bert
def test_another_pooling_than_the_two_or_a_second_one_is_refused(encoder):
    model = classifier(encoder)
    with pytest.raises(ValueError, match="pooling is 'first'; expected 'mean' or 'max'"):
        pool_windows(model, "first")
    pool_windows(model, "mean")
    with pytest.raises(ValueError, match="the model already pools windows"):
        pool_windows(model, "max")


def gradients(model, batch, labels) -> list[torch.Tensor]:
    model.train()
    model.zero_grad()
    logits = model(**batch, window_counts=torch.tensor(COUNTS)).logits
    torch.nn.functional.cross_entropy(logits, labels).backward()
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@bert_and_roberta
def test_activation_checkpointing_changes_nothing(encoder):
    model, batch, labels = classifier(encoder), windows(sum(COUNTS)), torch.tensor([0, 2, 1])
    pool_windows(model, "max")
    expected = gradients(model, batch, labels)
    model.activation_checkpointing_enable()
    torch.testing.assert_close(gradients(model, batch, labels), expected, rtol=1e-10, atol=1e-10)


@bert_and_roberta
def test_distributed_data_parallel_passes_the_counts_on(encoder):
    import torch.distributed as distributed

    model, batch, labels = classifier(encoder), windows(sum(COUNTS)), torch.tensor([0, 2, 1])
    pool_windows(model, "mean")
    expected = gradients(model, batch, labels)
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        computed = gradients(wrapped, batch, labels)
        # Before the group: what holds its last reference waits for its threads, and this would hold up the interpreter,
        # which one of them may be waiting for.
        del wrapped
        gc.collect()
    finally:
        distributed.destroy_process_group()
    torch.testing.assert_close(computed, expected, rtol=1e-10, atol=1e-10)
