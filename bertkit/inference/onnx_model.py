"""A checkpoint exported to ONNX, with the interface of its network, on the CPU."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedConfig

ONNX_FILE = "model.onnx"
NEEDS_EXTRA = "needs the extra onnx: pip install 'bertkit[onnx]'"


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

    def to(self, device: Any) -> OnnxModel:
        """Stays on the CPU, whatever ``device`` is."""
        return self

    def __call__(self, **inputs: Tensor) -> dict[str, Tensor]:
        """Returns the outputs under the network's names for them; losses are not computed."""
        import torch

        arguments = {name: values.numpy() for name, values in inputs.items() if name in self._inputs}
        arrays = self._session.run(self._outputs, arguments)
        return {name: torch.from_numpy(array) for name, array in zip(self._outputs, arrays, strict=True)}
