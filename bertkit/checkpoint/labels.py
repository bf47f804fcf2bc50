"""Reuse of a fine-tuned classification head for new labels.

transformers loads a head whenever its shape fits, even if its classes are in another order or are different ones. Here
heads are matched by label names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel


def label_fields(names: Sequence[str]) -> dict[str, Any]:
    """Returns the configuration fields for labels in the order of their ids."""
    return {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


def match_labels(model: PreTrainedModel, before: Sequence[str], now: Sequence[str]) -> list[str]:
    """Reorders a loaded head to the order of the new labels, or reinitialises it if they differ.

    Args:
        model: the loaded model with a classification head.
        before: names of the labels that the head was trained for, in the order of their ids.
        now: names of the new labels, in the order of their ids.

    Returns:
        The names of the reinitialised weights, drawn from torch's generator; empty if the sets of labels are equal.
    """
    import torch

    if list(before) == list(now):
        return []
    prefix = f"{model.base_model_prefix}."
    head = {name: module for name, module in model.named_modules() if name and not f"{name}.".startswith(prefix)}
    if sorted(before) == sorted(now):
        order = torch.tensor([before.index(name) for name in now])
        last = _last_layer(list(head.values()), len(now))
        with torch.no_grad():
            for parameter in last.parameters():
                parameter.copy_(parameter[order])
        return []
    for module in head.values():
        for parameter in module.parameters(recurse=False):
            parameter._is_hf_initialized = False  # otherwise transformers keeps the loaded weights
        model._init_weights(module)
    return sorted(
        f"{name}.{parameter}"
        for name, module in head.items()
        for parameter, _ in module.named_parameters(recurse=False)
    )


def _last_layer(modules: Sequence[nn.Module], labels: int) -> nn.Module:
    """Returns the last linear layer with one output per label."""
    from torch import nn

    return [module for module in modules if isinstance(module, nn.Linear) and module.out_features == labels][-1]
