"""Models with the interface of one network: ensembles, which average outputs, and ONNX files on the CPU."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.runtime.errors import CheckpointError, importing
from bertkit.runtime.reading.paths import is_below

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedConfig, PreTrainedModel

    from bertkit.inference.plain_bert import PlainBert
    from bertkit.tasks.base import Outputs

ENSEMBLE_FILE = "ensemble.json"
ONNX_FILE = "model.onnx"


def is_ensemble(checkpoint: str) -> bool:
    """Returns whether a folder is an ensemble that `bertkit ensemble` wrote."""
    return (Path(checkpoint) / ENSEMBLE_FILE).is_file()


def members_of(checkpoint: str) -> list[str]:
    """Returns the folders of the members of an ensemble; CheckpointError if ``ensemble.json`` is damaged."""
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
    """Checks that a checkpoint has one network, as exports and teachers need; CheckpointError if it is an ensemble."""
    if is_ensemble(checkpoint):
        raise CheckpointError(
            f"{checkpoint}: an ensemble, whose {len(members_of(checkpoint))} networks have no common form in "
            "transformers; give a single run, such as the folder best/ of the grid"
        )


class EnsembleModel:
    """The part of a network's interface that `bertkit.inference` uses; each output is the mean over the members."""

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
        stacked = {name: torch.stack([each[name].float() for each in outputs]) for name in names}
        # The sum of scores that are the lowest number, as those of padding choices, would be infinite.
        return {name: each[0] + (each - each[0]).mean(dim=0) for name, each in stacked.items()}


def mean_outputs(members: Sequence[Outputs]) -> Outputs:
    """Averages the outputs of several models for the same inputs."""
    if isinstance(members[0], tuple):
        return tuple(np.asarray(np.mean(arrays, axis=0, dtype=np.float64)) for arrays in zip(*members, strict=True))
    return np.asarray(np.mean(members, axis=0, dtype=np.float64))


def is_onnx(checkpoint: str) -> bool:
    """Returns whether a folder holds a model that `bertkit export --to onnx` wrote."""
    return (Path(checkpoint) / ONNX_FILE).is_file()


class OnnxModel:
    """The part of a network's interface that `bertkit.inference` uses, computed by onnxruntime.

    Args:
        folder: contains ``model.onnx``.
        config: its configuration.

    Raises:
        CheckpointError: the file is damaged, or onnxruntime is not installed.
    """

    def __init__(self, folder: str | Path, config: PreTrainedConfig):
        import torch

        with importing(f"{folder}: {ONNX_FILE}", "onnx", CheckpointError):
            import onnxruntime
        self.config = config
        self.device = torch.device("cpu")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors
        try:
            self._session = onnxruntime.InferenceSession(
                str(Path(folder) / ONNX_FILE), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's errors have no narrower base class
            raise CheckpointError(f"{folder}: {ONNX_FILE} cannot be loaded ({str(error).splitlines()[0]})") from error
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._outputs = [each.name for each in self._session.get_outputs()]

    def modules(self) -> Iterable[nn.Module]:
        """Returns no modules."""
        return ()

    def eval(self) -> OnnxModel:
        """Does nothing: an exported model has no dropout."""
        return self

    def __call__(self, **inputs: Tensor) -> dict[str, Tensor]:
        """Returns the outputs under the network's names for them; losses are not computed."""
        import torch

        arguments = {name: values.numpy() for name, values in inputs.items() if name in self._inputs}
        arrays = self._session.run(self._outputs, arguments)
        return {name: torch.from_numpy(array) for name, array in zip(self._outputs, arrays, strict=True)}
