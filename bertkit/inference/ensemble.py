"""Models that average the outputs of several checkpoints, with the interface of one network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.errors import CheckpointError
from bertkit.reading.paths import is_below

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from bertkit.inference.plain_bert import PlainBert

ENSEMBLE_FILE = "ensemble.json"


def is_ensemble(checkpoint: str) -> bool:
    """Returns whether a folder is an ensemble that `bertkit ensemble` wrote."""
    return (Path(checkpoint) / ENSEMBLE_FILE).is_file()


def members_of(checkpoint: str) -> list[str]:
    """Returns the folders of the members of an ensemble.

    Raises:
        CheckpointError: ``ensemble.json`` is damaged.
    """
    try:
        names = json.loads((Path(checkpoint) / ENSEMBLE_FILE).read_text(encoding="utf-8"))["members"]
        if not names:
            raise ValueError("no members")
        if outside := [name for name in names if not is_below(name)]:  # links are followed: they save a copy
            raise ValueError(f"{outside[0]!r} is not in this folder")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{checkpoint}: {ENSEMBLE_FILE} is damaged ({error}); make the ensemble again") from error
    return [str(Path(checkpoint) / name) for name in names]


def refuse_ensemble(checkpoint: str) -> None:
    """Checks that a checkpoint has one network, as exporting and pushing need.

    Raises:
        CheckpointError: it is an ensemble.
    """
    if is_ensemble(checkpoint):
        raise CheckpointError(
            f"{checkpoint}: an ensemble, whose {len(members_of(checkpoint))} networks have no common form in "
            "transformers; give a single run, such as the folder best/ of the grid"
        )


class EnsembleModel:
    """The part of a network's interface that `bertkit.inference` uses; each output is the mean over the members.

    Args:
        members: networks with the same inputs and outputs.
    """

    def __init__(self, members: Sequence[PreTrainedModel | PlainBert]):
        self.members = members
        self.config = members[0].config
        self.device = members[0].device
        self.dtype = members[0].dtype

    def modules(self) -> Iterator[nn.Module]:
        """Yields the modules of all members."""
        return chain.from_iterable(member.modules() for member in self.members)

    def eval(self) -> EnsembleModel:
        """Switches all members to evaluation."""
        for member in self.members:
            member.eval()
        return self

    def __call__(self, **inputs: Any) -> dict[str, Tensor]:
        """Returns the mean outputs; outputs that are not used at inference are left out."""
        import torch

        ignored = getattr(self.config, "keys_to_ignore_at_inference", ())
        outputs = [member(**inputs) for member in self.members]
        names = [name for name, values in outputs[0].items() if name not in ignored and values is not None]
        return {name: torch.stack([each[name].float() for each in outputs]).mean(dim=0) for name in names}
