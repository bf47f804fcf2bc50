"""The setting by which predictions and vectors are computed without padding, see `bertkit.model.joined`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.placement.resolve import JOINED
from bertkit.runtime.progress import say

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

ATTENTION = "BERTKIT_ATTN_IMPLEMENTATION"
"""Environment variable: `JOINED`, or nothing. It reaches all commands, and the processes that they start."""


def asks_to_join(device: str, dtype: torch.dtype) -> bool:
    """Returns whether `ATTENTION` asks for joined sequences; where they cannot be computed, says so, returns False.

    Args:
        device, dtype: of the inference.

    Raises:
        PlacementError: the variable has another value.
    """
    asked = os.environ.get(ATTENTION, "")
    if not asked:
        return False
    if asked != JOINED:
        raise PlacementError(f"{ATTENTION}={asked}: expected {JOINED}; correct or unset this environment variable")
    from bertkit.model.joined import missing_on_device  # imports all that trainings need

    lacks = missing_on_device(device)
    if not lacks and device == "cuda" and str(dtype) == "torch.float32":
        lacks = "half precision"
    if lacks:
        say(f"{ATTENTION}={asked} needs {lacks}; padded sequences are computed")
    return not lacks


def join_sequences(model: PreTrainedModel) -> None:
    """Sets the attention with which `forward_in_batches` joins sequences; a line says why a model cannot."""
    from bertkit.model.joined import reason_not_to_join

    if reason := reason_not_to_join(model):
        say(f"{ATTENTION}={JOINED} is not possible: {reason}; padded sequences are computed")
    else:
        model.set_attn_implementation(JOINED)
