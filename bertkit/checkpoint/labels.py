"""The labels of a checkpoint that was fine-tuned before, and those that it is to be fine-tuned for now.

transformers loads such a head wherever its shape fits: MNLI's classes in another order, or a head for other classes
altogether. Here it goes by the names of the labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel


def label_fields(names: Sequence[str]) -> dict[str, Any]:
    """Labels in the order of their ids as the fields of a configuration."""
    return {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


def match_labels(model: PreTrainedModel, before: Sequence[str], now: Sequence[str]) -> list[str]:
    """Puts a loaded head into the order of the labels, or draws it anew where they are others.

    Args:
        model: with a head for classes, as loaded.
        before: the names of the labels that the head was trained for, in the order of their ids.
        now: those that it is to be trained for.

    Returns:
        The names of the weights that were drawn anew, from torch's generator; none where the labels are the same.
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
            parameter._is_hf_initialized = False  # else transformers keeps what it has loaded
        model._init_weights(module)
    return sorted(
        f"{name}.{parameter}"
        for name, module in head.items()
        for parameter, _ in module.named_parameters(recurse=False)
    )


def _last_layer(modules: Sequence[nn.Module], labels: int) -> nn.Module:
    """The linear layer whose rows are the labels."""
    from torch import nn

    return [module for module in modules if isinstance(module, nn.Linear) and module.out_features == labels][-1]
