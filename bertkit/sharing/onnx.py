"""A checkpoint as ONNX: any head, any batch and any length, and as int8 for CPUs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bertkit.checkpoint.load import save_tokenizer
from bertkit.errors import CheckpointError
from bertkit.inference.onnx_model import NEEDS_EXTRA, ONNX_FILE, OnnxModel
from bertkit.sharing.same_outputs import Comparison, compare, comparison_inputs
from bertkit.sharing.stock import stock_config, torch_run

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

TOLERANCE = 1e-3
"""Between outputs in float32: the same network, by other kernels that add in another order."""


def write_onnx(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path, name: str) -> Comparison:
    """Writes ``model.onnx``, configuration and tokenizer, loads them again, and compares both on texts.

    Args:
        model: of any family and head, on the CPU.
        tokenizer: its tokenizer.
        folder: to write to.
        name: what messages call the checkpoint.

    Raises:
        CheckpointError: the extra is not installed, torch cannot export this network, or the two differ.
    """
    import torch

    check_extra(name)
    batches = comparison_inputs(tokenizer, model)
    model.eval()
    with torch.inference_mode():
        outputs = list(model(**batches[0]).keys())
    dynamic = torch.export.Dim.DYNAMIC
    shapes = {key: dict.fromkeys(range(values.ndim), dynamic) for key, values in batches[0].items()}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it tells of packages that it does without
    with _plain_attention(model), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporter calls functions that torch has deprecated
        try:
            program = torch.onnx.export(
                model,
                kwargs=batches[0],
                dynamo=True,
                dynamic_shapes=shapes,
                input_names=list(batches[0]),
                output_names=outputs,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            said = str(error).strip().splitlines()[0]
            raise CheckpointError(f"{name}: torch cannot export {type(model).__name__} to ONNX ({said})") from error
    assert program is not None
    program.save(folder / ONNX_FILE)
    config = stock_config(model.config)
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    return compare_onnx(model, folder, tokenizer, TOLERANCE, name)


@contextmanager
def _plain_attention(model: PreTrainedModel) -> Iterator[None]:
    """Attention as matrix products and a softmax, which onnxruntime joins to few steps.

    What torch makes of its own fused attention also guards against rows without any token, in many small steps that
    cost a fifth of the time of an int8 model.
    """
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def compare_onnx(
    model: PreTrainedModel, folder: Path, tokenizer: PreTrainedTokenizerFast, tolerance: float, name: str
) -> Comparison:
    """How close the exported model is to the network on texts of several lengths; raises as `compare`."""
    exported = OnnxModel(folder, model.config)
    batches = comparison_inputs(tokenizer, model)
    return compare(
        torch_run(model), lambda batch: [each.numpy() for each in exported(**batch).values()], batches, tolerance, name
    )


def quantize(folder: Path) -> None:
    """Makes the matrices of an exported model int8; activations are quantized as they come, to their own range."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    exact = folder / ONNX_FILE
    small = folder / f"int8-{ONNX_FILE}"
    model = onnx.load(exact)
    del model.graph.value_info[:]  # shapes of matrices that the quantizer is about to transpose; it infers them anew
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)  # it gives advice on the root logger
    try:
        quantize_dynamic(model, small, weight_type=QuantType.QInt8, per_channel=True)
    finally:
        logging.getLogger().setLevel(level)
    small.replace(exact)


def check_extra(name: str) -> None:
    """Refuses to begin where a package of the extra is missing.

    Raises:
        CheckpointError: naming what to install.
    """
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise CheckpointError(f"{name}: --to onnx {NEEDS_EXTRA} ({error.name} is missing)") from error
