"""A checkpoint that was exported to ONNX, in the place of its network: the same inputs and outputs, on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig

ONNX_FILE = "model.onnx"
NEEDS_EXTRA = "needs the extra onnx: pip install 'bertkit[onnx]'"


def is_onnx(checkpoint: str) -> bool:
    """Whether a folder holds a model that `bertkit export --to onnx` wrote."""
    return (Path(checkpoint) / ONNX_FILE).is_file()


class OnnxModel:
    """What `bertkit.inference.predictor.Predictor` asks of a network, computed by onnxruntime.

    Args:
        folder: with ``model.onnx``.
        config: its configuration.

    Raises:
        CheckpointError: the file is damaged, or onnxruntime is not installed.
    """

    def __init__(self, folder: str | Path, config: PreTrainedConfig):
        import torch

        try:
            import onnxruntime
        except ImportError as error:
            raise CheckpointError(f"{folder}: {NEEDS_EXTRA}") from error
        self.config = config
        self.device = torch.device("cpu")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors
        try:
            self._session = onnxruntime.InferenceSession(
                str(Path(folder) / ONNX_FILE), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's own errors have no base but this
            raise CheckpointError(f"{folder}: {ONNX_FILE} cannot be loaded ({str(error).splitlines()[0]})") from error
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._outputs = [each.name for each in self._session.get_outputs()]

    def eval(self) -> OnnxModel:
        """Nothing to do: there is no dropout in it."""
        return self

    def to(self, device: Any) -> OnnxModel:
        """Stays on the CPU, whatever ``device`` is."""
        return self

    def __call__(self, **inputs: Tensor) -> dict[str, Tensor]:
        """The outputs by the names that the network gives them; labels are not asked for."""
        import torch

        given = {name: values.numpy() for name, values in inputs.items() if name in self._inputs}
        arrays = self._session.run(self._outputs, given)
        return {name: torch.from_numpy(array) for name, array in zip(self._outputs, arrays, strict=True)}
