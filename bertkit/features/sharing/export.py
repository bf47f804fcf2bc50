"""``bertkit export``: writes a checkpoint in a form that needs no bertkit, and checks that its outputs are the same."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bertkit.features.sharing.kinds import shared, write_files_of_others
from bertkit.features.sharing.sentence_embedding import write_sentence_transformers
from bertkit.inference.evaluation import data_of_run, evaluate, metrics_of_run
from bertkit.inference.networks import ONNX_FILE, OnnxModel, refuse_ensemble
from bertkit.inference.options import Pooling
from bertkit.model.checkpoint.encoders import head_of
from bertkit.model.checkpoint.load import load_config, load_model, load_tokenizer, save_tokenizer
from bertkit.model.checkpoint.remote import at_revision
from bertkit.model.checkpoint.stock import Comparison, compare, comparison_inputs, stock_config, torch_run, write_stock
from bertkit.runtime.errors import CheckpointError, OutputError, RecipeError, importing
from bertkit.runtime.files import check_links, new_folder
from bertkit.runtime.progress import logging_errors_alone, quietly, without_library_bars
from bertkit.tasks.base import Task
from bertkit.tasks.checkpoints import has_task, task_of_checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

TOLERANCE = 1e-3
"""Largest difference of outputs in float32: the kernels of the two runtimes add in different orders."""


@dataclass(frozen=True)
class Export:
    """Result of `export`.

    Attributes:
        folder: path of the exported model.
        form: ``bert``, ``onnx`` or ``sentence-transformers``.
        model_class: the class that loads it, or that it was exported from.
        comparison: how close its outputs are to the checkpoint's; for int8, those of the intermediate float32 model.
        notes: differences of this form, as sentences.
        scores: for int8, metric → the checkpoint's score and this form's, on ``examples`` examples.
    """

    folder: Path
    form: str
    model_class: str
    comparison: Comparison
    notes: tuple[str, ...] = ()
    scores: dict[str, tuple[float, float]] = field(default_factory=dict)
    examples: int = 0


def export(
    checkpoint: str | Path,
    out: str | Path,
    *,
    to: Literal["bert", "onnx", "sentence-transformers"] = "bert",
    int8: bool = False,
    pooling: Pooling | None = None,
    normalize: bool | None = None,
    max_samples: int | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    **data: Any,
) -> Export:
    """Writes a checkpoint in a form that other libraries load, and compares the two on texts of several lengths.

    Args:
        checkpoint: a run directory, a folder or a Hub id, with any head; stock checkpoints too.
        out: the folder to write, new or empty. It appears only when it is complete and has been compared.
        to: ``bert`` writes weights, configuration and tokenizer as plain transformers has them, ``model_type: bert``;
            families other than BERT keep their form, which is stock already. ``onnx`` writes a model for onnxruntime
            with any batch size and length; `bertkit.load` and `bertkit.evaluate` accept that folder too.
            ``sentence-transformers`` writes the encoder with its pooling for ``SentenceTransformer(out)``.
        int8: for ``onnx``, quantize the matrices to int8, for CPUs. A fine-tuned checkpoint is scored before and after.
        pooling, normalize: for ``sentence-transformers``, the pooling of token vectors, and whether the result has
            length 1; ``None`` for the values of a checkpoint in the form of sentence-transformers, such as that of
            ``finetune similarity``, and for all others the mean without normalization, as in `bertkit.embed`.
        max_samples: for ``int8``, number of examples to score, from the first; ``None`` for that of the run, or all.
        revision: branch, tag or commit of a Hub id; ``None`` for ``main``.
        trust_remote_code: run the code that the checkpoint brings; the revision is printed to stderr.
        data: for ``int8``, values of the task's ``data`` block that locate the examples, as for `bertkit.evaluate`.

    Returns:
        The folder written, and how close its outputs are.

    Raises:
        BertkitError: the checkpoint cannot be loaded, ``out`` is in use, or the outputs differ. Nothing has been
            written then.

    Examples:
        ```python
        bertkit.export("my-reviews", "stock", to="bert")
        transformers.AutoModelForSequenceClassification.from_pretrained("stock")  # also where bertkit is not installed
        ```
    """
    if to not in ("bert", "onnx", "sentence-transformers"):
        raise RecipeError(f"--to {to}: expected bert, onnx or sentence-transformers")
    if to != "sentence-transformers" and (pooling is not None or normalize is not None):
        raise RecipeError(f"--{'normalize' if pooling is None else 'pooling'} needs --to sentence-transformers")
    if int8 and to != "onnx":
        raise RecipeError("--int8 needs --to onnx")
    data = {key: value for key, value in data.items() if value is not None}
    of_scores = [*data, *([] if max_samples is None else ["max_eval_samples"])]
    if of_scores and not int8:
        raise RecipeError(f"--{of_scores[0].replace('_', '-')} is for the scores of --int8; give it, or remove this")
    check_links(Path(out), str(out))
    if Path(out).exists() and not (Path(out).is_dir() and not any(Path(out).iterdir())):
        raise OutputError(f"{out}: already exists; give a new or an empty folder")
    name = at_revision(checkpoint, revision, trust_remote_code)
    refuse_ensemble(name)
    with new_folder(Path(out)) as folder:
        if to == "bert":
            model_class, comparison, notes = export_stock(name, folder)
            return Export(Path(out), to, model_class, comparison, notes)
        if to == "sentence-transformers":
            with importing(f"{name}: --to sentence-transformers", "sentence-transformers"):
                import sentence_transformers  # noqa: F401
            comparison, notes = write_sentence_transformers(name, folder, pooling, normalize)
            return Export(Path(out), to, "SentenceTransformer", comparison, notes)
        return _export_onnx(name, folder, Path(out), int8, max_samples, data)


def _export_onnx(
    checkpoint: str, folder: Path, out: Path, int8: bool, max_samples: int | None, data: dict[str, Any]
) -> Export:
    with importing(f"{checkpoint}: --to onnx", "onnx", CheckpointError):
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    config = load_config(checkpoint, any_encoder=True)
    task = _read_task(config, checkpoint)
    if task is not None and (obstacle := shared(task).onnx_obstacle()) is not None:
        raise CheckpointError(f"{checkpoint}: {obstacle}")
    if (data or max_samples is not None) and not has_task(config):
        raise RecipeError(f"{checkpoint}: has no task, so that --int8 has no scores; remove the options of the data")
    # A checkpoint that does not record its task has no data of its own to be scored on.
    is_scored = int8 and (task is not None or bool(data))
    if is_scored:  # the exported folder has no recipe
        limit = {} if max_samples is None else {"max_eval_samples": max_samples}
        data = data_of_run(checkpoint, data) | data | limit
    has_seen_all = bool(data.get("folds")) and data.get("fold") is None
    rows = {"split": "train" if has_seen_all else "validation", "max_samples": max_samples, **data}
    before = evaluate(checkpoint, **rows) if is_scored else None
    with without_library_bars():
        model, _ = load_model(head_of(config, checkpoint), checkpoint, config, new_head=False)
        comparison = write_onnx(model, load_tokenizer(checkpoint, config=config), folder, checkpoint)
    form = Export(out, "onnx", type(model).__name__, comparison)
    if not int8:
        return form
    quantize(folder)
    if before is None:
        why = "records no task; give data to score it on" if has_task(config) else "has no task"
        return replace(form, notes=(f"int8 without scores: the checkpoint {why}",))
    with quietly():  # the folder has a temporary name, and the lines on the task and the data were said before
        after = evaluate(folder, metrics=metrics_of_run(checkpoint, are_trusted=False), **rows)
    scores = {name.removeprefix("eval_"): (value, after.metrics[name]) for name, value in before.metrics.items()}
    notes = ("scored on the training rows, since the run has no validation set",) if has_seen_all else ()
    return replace(form, scores=scores, examples=before.examples, notes=notes)


def export_stock(checkpoint: str, folder: Path) -> tuple[str, Comparison, tuple[str, ...]]:
    """Writes the stock form of a checkpoint to a folder that exists.

    Returns:
        The class that loads it, how close its outputs are, and the differences of this form as sentences.

    Raises:
        CheckpointError: the checkpoint cannot be loaded, or the outputs differ.
    """
    config = load_config(checkpoint, any_encoder=True)
    head, task = head_of(config, checkpoint), _read_task(config, checkpoint)
    tokenizer = load_tokenizer(checkpoint, config=config)
    with without_library_bars():
        model, _ = load_model(head, checkpoint, config, new_head=False)
        model_class, comparison = write_stock(model, tokenizer, folder, checkpoint)
    write_files_of_others(task, config, folder)
    note = None if task is None else shared(task).stock_note()
    return model_class, comparison, () if note is None else (note,)


def _read_task(config: PreTrainedConfig, checkpoint: str) -> Task | None:
    """Returns the task that a checkpoint was fine-tuned for; ``None`` where it was not."""
    return task_of_checkpoint(config, checkpoint) if getattr(config, "bertkit_task", None) else None


# ---- ONNX: any head, batch size and length, and int8 for CPUs --------------------------------------------------------


def write_onnx(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path, name: str) -> Comparison:
    """Writes ``model.onnx``, configuration and tokenizer, loads the model again, and compares the outputs on texts.

    Returns:
        How close the outputs are.

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
    # Attention as matrix products and a softmax, which onnxruntime fuses: torch's export of its fused attention also
    # handles rows without any token, in many small operators that take a fifth of the time of an int8 model.
    attention = model.config._attn_implementation
    model.set_attn_implementation("eager")
    # It lists optional packages that are missing, and calls functions that torch has deprecated.
    with logging_errors_alone("torch.onnx"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
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
    with logging_errors_alone(""):  # it logs advice to the root logger
        # 7 bits: without VNNI, x86 CPUs add products of 8 bits in 16, which overflow, so that outputs would be wrong.
        quantize_dynamic(model, small, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    small.replace(exact)
    (folder / f"{ONNX_FILE}.data").unlink(missing_ok=True)  # the weights of a large model in float32
