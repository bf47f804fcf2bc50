"""Export of a checkpoint to ONNX: any head, batch size and length, and int8 for CPUs."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from bertkit.inference.networks import ONNX_FILE, OnnxModel
from bertkit.model.checkpoint.load import save_tokenizer
from bertkit.model.checkpoint.stock import Comparison, compare, comparison_inputs, stock_config, torch_run
from bertkit.runtime.errors import CheckpointError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

TOLERANCE = 1e-3
"""Largest difference of outputs in float32: the kernels of the two runtimes add in different orders."""


def write_onnx(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path, name: str) -> Comparison:
    """Writes ``model.onnx``, configuration and tokenizer, loads them again, and compares the outputs on texts.

    Raises:
        CheckpointError: torch cannot export this network, or the outputs differ.
    """
    import torch

    batches = comparison_inputs(tokenizer, model)
    model.eval()
    with torch.inference_mode():
        outputs = list(model(**batches[0]).keys())
    dynamic = torch.export.Dim.DYNAMIC
    shapes = {key: dict.fromkeys(range(values.ndim), dynamic) for key, values in batches[0].items()}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it lists optional packages that are missing
    # Attention as matrix products and a softmax, which onnxruntime fuses: torch's export of its fused attention also
    # handles rows without any token, in many small operators that take a fifth of the time of an int8 model.
    attention = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with warnings.catch_warnings():
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
            reason = str(error).strip().splitlines()[0]
            raise CheckpointError(f"{name}: torch cannot export {type(model).__name__} to ONNX ({reason})") from error
        finally:
            model.set_attn_implementation(attention)
    assert program is not None
    program.save(folder / ONNX_FILE)
    config = stock_config(model.config)
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    exported = OnnxModel(folder, model.config)
    return compare(
        torch_run(model), lambda batch: [each.numpy() for each in exported(**batch).values()], batches, TOLERANCE, name
    )


def quantize(folder: Path) -> None:
    """Quantizes the matrices of an exported model to 7 bits of int8; activations are quantized dynamically."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    exact = folder / ONNX_FILE
    small = folder / f"int8-{ONNX_FILE}"
    model = onnx.load(exact)
    del model.graph.value_info[:]  # the quantizer transposes these matrices and infers the shapes anew
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)  # it logs advice to the root logger
    try:
        # 7 bits: without VNNI, x86 CPUs add products of 8 bits in 16, which overflow, so that outputs would be wrong.
        quantize_dynamic(model, small, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    finally:
        logging.getLogger().setLevel(level)
    small.replace(exact)
