"""Start of a classification head from a linear probe, so that the first forward pass is that of a fitted line.

A head with random weights pulls the encoder in random directions until it has learned something itself. One that is
fitted to the vectors of the frozen encoder keeps what these tell (Kumar et al. 2022, arXiv:2202.10054), and tells
many classes apart from the first step.

The temperature of probabilities is written into the same last layer, by `divide_logits`.

The heads of most families are ``classifier(f(dense(h)))``, with a tanh, GELU or ReLU ``f`` of the vector h of the first
token. ``dense`` becomes the standardization of h, scaled to where ``f`` is nearly linear; the classifier then holds the
line. Where something else lies between them, as the normalization of ModernBERT, ``dense`` stays as it is, and the line
is fitted through it.

Dimension letters: N rows, H hidden size, I items that have a label (texts, or words), D numbers of the vector that the
classifier reads, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel, get_linear_schedule_with_warmup

from bertkit.inference.forward import forward_in_batches
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.progress import Bar
from bertkit.training.warm_start.linear_head import LinearHead, standard_deviations

_ACTIVATIONS: Sequence[tuple[Callable[[Tensor], Tensor], float, float]] = (
    (torch.tanh, 0.5, 0.0),
    (functional.gelu, 1.0, 2.0),
    (partial(functional.gelu, approximate="tanh"), 1.0, 2.0),
    (torch.relu, 1.0, 2.0),
)
"""Functions between the layers of a head, with the deviation and the mean of inputs for which they are nearly
linear."""

_WARM_UP = 0.1  # share of the steps before a training
_MAX_NORM = 1.0

Collate = Callable[[list[Mapping[str, Any]]], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Head:
    """Layers of the head of a model.

    Attributes:
        classifier: the last layer, (C, D).
        dense: the layer (H, H) before it, if only one of `_ACTIVATIONS` lies between; None otherwise.
        scale, shift: deviation and mean of the output of ``dense`` for which that activation is nearly linear.
    """

    classifier: nn.Linear
    dense: nn.Linear | None = None
    scale: float = 1.0
    shift: float = 0.0

    @property
    def reads(self) -> nn.Linear:
        """The first of these layers: its input is the vector that the head reads."""
        return self.dense or self.classifier


def classifier_of(model: PreTrainedModel) -> nn.Linear | None:
    """Returns the last linear layer outside of the encoder that has an output for each label; None without one."""
    inside = set() if model.base_model is model else set(model.base_model.modules())
    found = [each for each in model.modules() if isinstance(each, nn.Linear) and each not in inside]
    return next((each for each in reversed(found) if each.out_features == model.config.num_labels), None)


def find_head(model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Head:
    """Returns the layers of the head of a classifier.

    Args:
        model: a classifier of sequences or tokens of any family.
        batch: some inputs.

    Raises:
        RecipeError: its logits are not those of a linear layer.
    """
    classifier, linear = classifier_of(model), [each for each in model.modules() if isinstance(each, nn.Linear)]
    training = model.training
    model.eval()
    with captured(*linear) as seen, torch.no_grad():
        logits = model(**batch)["logits"]
    model.train(training)
    if classifier not in seen or not torch.equal(seen[classifier][1].reshape(-1), logits.reshape(-1)):
        raise RecipeError(
            f"train.head: the logits of {type(model).__name__} are not those of a linear layer, which a probe, "
            "train.pair_steps and train.contrast_steps need; set train.head to random, and these steps to 0"
        )
    read, order = seen[classifier][0], list(seen)
    before: Any = order[order.index(classifier) - 1]
    if before.in_features == before.out_features == classifier.in_features:
        output = seen[before][1]
        for function, scale, shift in _ACTIVATIONS:
            if output.shape == read.shape and torch.allclose(function(output), read, atol=1e-5):
                return Head(classifier, before, scale, shift)
    return Head(classifier)


@contextmanager
def captured(*layers: nn.Module) -> Iterator[dict[nn.Module, tuple[Tensor, Tensor]]]:
    """Context with the last input and output of each layer that was called, in the order of the calls."""
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def keep(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        seen.pop(layer, None)
        seen[layer] = inputs[0], output

    handles = [layer.register_forward_hook(keep) for layer in layers]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def optimizer_steps(
    optimizer: torch.optim.Optimizer, weights: Sequence[Tensor], steps: int, name: str
) -> Iterator[int]:
    """Yields the numbers of the steps that precede a training, and makes each one with the gradients that it then has.

    The rate rises linearly over a tenth of the steps, then falls linearly to 0.

    Args:
        optimizer: at its highest rate.
        weights: those whose gradients are clipped, together.
        steps: number of steps.
        name: of the steps, in the line on their progress.
    """
    schedule = get_linear_schedule_with_warmup(optimizer, round(_WARM_UP * steps), steps)
    with Bar(name, "steps") as bar:
        for step in range(steps):
            yield step
            nn.utils.clip_grad_norm_(weights, _MAX_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            bar(step + 1, steps)


def read_vectors(
    model: PreTrainedModel, layer: nn.Linear, rows: Any, collate: Collate, batch_size: int, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the inputs of a layer of the frozen model for the labelled items of N rows.

    Args:
        model: a classifier.
        layer: one of the layers of its head.
        rows: rows of `Task.encode`, with ``labels`` and ``length``.
        collate: makes a batch of rows.
        batch_size: rows of a batch.
        name: name of the model in errors.

    Returns:
        The vectors, (I, D) float32, and the row of each, (I,) int64. Of a text in several windows there is a vector for
        each, where the layer reads them before they are pooled.
    """
    labels: list[Tensor] = []
    counts: list[Tensor | None] = []

    def collate_numbered(numbers: list[int]) -> Mapping[str, Tensor]:
        batch = dict(collate([rows[number] for number in numbers]))
        labels.append(batch.pop("labels"))
        counts.append(batch.get("window_counts"))
        return batch

    with captured(layer) as seen:

        def keep(numbers: list[int], outputs: Any) -> Iterator[np.ndarray]:
            vectors, of_batch, windows = seen[layer][0].float().cpu(), labels.pop(0), counts.pop(0)
            sizes = [1] * len(numbers) if windows is None or len(vectors) == len(numbers) else windows.tolist()
            parts = torch.split(vectors, sizes)
            for part, label in zip(parts, of_batch, strict=True):
                items = part if part.ndim == 2 else part[0][: len(label)][label != IGNORE_INDEX]
                yield items.numpy().copy()

        kept = forward_in_batches(model, list(rows["length"]), collate_numbered, keep, batch_size, name)
    return np.concatenate(kept), np.repeat(np.arange(len(kept)), list(map(len, kept)))


def standardize(head: Head, vectors: np.ndarray) -> None:
    """Makes the dense layer of a head the standardization of the vectors (N, H) that it reads; without one does
    nothing."""
    if head.dense is None:
        return
    factor = head.scale / standard_deviations(vectors)
    _write(head.dense, np.diag(factor), head.shift - factor * vectors.mean(axis=0))


def divide_logits(model: PreTrainedModel, temperatures: np.ndarray) -> bool:
    """Divides the weights of the last layer of a classifier, and so its logits, by their temperatures.

    Args:
        model: a classifier.
        temperatures: one for all logits, (1,), or one for each, (C,).

    Returns:
        Whether it has such a layer on this process; the parts of a sharded one stay as they are.
    """
    classifier = classifier_of(model)
    if classifier is None or type(classifier.weight) is not nn.Parameter:
        return False
    with torch.no_grad():
        for weight in classifier.parameters():
            by = torch.from_numpy(temperatures).to(weight)
            weight.div_(by[:, None] if weight.ndim == 2 else by)
    return True


def write_line(head: Head, line: LinearHead) -> None:
    """Makes the classifier of a head a fitted line."""
    _write(head.classifier, line.weight, line.bias)


def _write(layer: nn.Linear, weight: np.ndarray, bias: np.ndarray) -> None:
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        if layer.bias is not None:
            layer.bias.copy_(torch.from_numpy(bias))
