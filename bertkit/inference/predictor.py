"""Predictions of a fine-tuned checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bertkit.data.tables.objects import (
    ROWS,
    kind_of_table,
    list_of_texts,
    rename_columns,
    table_of,
    with_columns,
    with_words,
)
from bertkit.inference.forward import asks_to_join, forward_in_batches, join_sequences
from bertkit.inference.inputs import refuse_columns
from bertkit.inference.networks import EnsembleModel, OnnxModel, is_ensemble, is_onnx, members_of
from bertkit.inference.options import PredictOptions
from bertkit.inference.outcome import task_inference
from bertkit.inference.row_files import spread
from bertkit.inference.writing import names_beside
from bertkit.model.checkpoint.encoders import check_positions, model_inputs
from bertkit.model.checkpoint.load import load_config, load_model, load_tokenizer
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.runtime.errors import DataError, PlacementError
from bertkit.runtime.options import several
from bertkit.runtime.placement.inference import Precision, inference_device, inference_dtype
from bertkit.runtime.progress import Bar, Reached, say, without_library_bars
from bertkit.tasks.base import Outputs, Task
from bertkit.tasks.checkpoints import task_of_checkpoint
from bertkit.tasks.splits import Columns
from bertkit.tasks.stock import StockTask

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from bertkit.inference.plain_bert import PlainBert


class Predictor:
    """A checkpoint with its task and tokenizer, built by `build_predictor`."""

    def __init__(
        self,
        task: Task,
        model: PreTrainedModel | PlainBert | OnnxModel | EnsembleModel,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: int,
        name: str = "the model",
    ):
        self.task = task
        self.model = model
        self.tokenizer = tokenizer
        self.inputs = model_inputs(model.config)
        self.batch_size = batch_size
        self.name = name
        self._thresholds: dict[tuple[float | None, bool], float | Mapping[str, float] | None] = {}

    def predict(
        self,
        texts: str | Sequence[str] | Any = None,
        options: PredictOptions | None = None,
        **fields: str | Sequence[str],
    ) -> Any:
        """Predicts for texts, in the order given; `TaskInference.format_prediction` writes one in a line.

        Args:
            texts: inputs as the task reads them from a line: a text, or for pairs two texts with a tab between them. Or
                a table with the columns of the training: a DataFrame of pandas or polars, an Arrow table, a
                ``datasets.Dataset`` or a list of dictionaries.
            options: other options than the defaults; ``aggregation`` and ``precision`` are those of the predictor.
            fields: for question answering, instead: ``question``, one or several, and ``context``, one for all or one
                for each.

        Returns:
            For a table, a table of its kind, see `table_with_predictions`. Otherwise one dictionary
            per text; for classification ``label``, ``probability`` in [0, 1] and ``probabilities``, and ``best_label``
            with ``unsure_below`` or ``max_error``; for question answering ``answer``, ``probability``, ``start`` and
            ``end``.

        Raises:
            DataError: the task does not take these inputs, or they hold a value that is no text.
            RecipeError: the task does not have an option, or the rows of its run do not support ``max_error``.
            CheckpointError: an output is NaN or infinite; or for ``max_error`` it is no run that scored rows by folds.
        """
        if (texts is None) == (not fields):
            given = f"texts and {', '.join(fields)}" if fields else "neither"
            raise DataError(
                "predict takes texts or a table, or fields as keyword arguments, such as question and context; got "
                f"{given} (settings such as max_seq_length are arguments of bertkit.load)"
            )
        options = options or PredictOptions()
        task = options.configure(self.task)
        if options.max_error is not None:
            asked = options.max_error, options.by_class
            if asked not in self._thresholds:  # the rows of the run are read once
                self._thresholds[asked] = options.with_thresholds(self.name, task)[0].unsure_below
            options = replace(options, unsure_below=self._thresholds[asked], max_error=None, by_class=False)
        table = None
        if texts is None:
            fields = {
                name: value if isinstance(value, str) else list_of_texts(value, name) for name, value in fields.items()
            }
            for name, value in fields.items():
                with_words([value] if isinstance(value, str) else value, name)
            columns: Columns = task_inference(task).read_fields(fields)
        elif kind_of_table(texts) is not None:
            table = table_of(texts)
            columns = task.columns_of(table)
        else:
            refuse_columns(several(options.text_columns))
            columns = task.read_input(with_words(list_of_texts(texts)))
        rows = options.mark_unsure(self.with_task(task).predict_columns(columns))
        if table is None:
            return rows
        return table_with_predictions(texts, list(table.columns), rows, task_inference(task).leaves_out_labels)

    def with_task(self, task: Task) -> Predictor:
        """Returns the predictor of the same network for a task with other options."""
        return Predictor(task, self.model, self.tokenizer, self.batch_size, self.name)

    def predict_columns(
        self,
        columns: Mapping[str, Sequence[str]],
        on_progress: Reached | None = None,
    ) -> list[dict[str, Any]]:
        """Predicts for the columns of a table, named as in training; returns one dictionary per row, as `predict`.

        ``on_progress`` is called with the number of inputs done and of all; without it a bar is shown.
        """
        return self.predict_encoded(columns, self.encode(columns), on_progress)

    def encode(self, columns: Mapping[str, Sequence[str]]) -> Columns:
        """Tokenizes the columns of a table; returns no inputs for none."""
        if not any(map(len, columns.values())):
            return {}
        return self.task.encode(task_inference(self.task).cut_texts(columns, self.tokenizer), self.tokenizer)

    def predict_encoded(
        self, columns: Mapping[str, Sequence[str]], features: Columns, on_progress: Reached | None = None
    ) -> list[dict[str, Any]]:
        """Predicts for columns and what `encode` returned for them, as `predict_columns`."""
        return self.task.decode(self.outputs(features, on_progress), features, columns) if features else []

    def outputs(self, features: Columns, on_progress: Reached | None = None) -> Outputs:
        """Returns the model's outputs for N encoded inputs, float32, in the order given.

        They are the outputs that transformers' Trainer returns for the same inputs.

        Raises:
            CheckpointError: an output is NaN or infinite.
        """
        names = [name for name in features if name not in self.task.label_columns]
        ignored = getattr(self.model.config, "keys_to_ignore_at_inference", ())

        def collate(numbers: list[int]) -> Mapping[str, Tensor]:
            rows = [{name: features[name][row] for name in names} for row in numbers]
            return self.task.collate(rows, self.tokenizer, self.inputs)

        arrays: dict[str, np.ndarray] = {}

        def keep(numbers: list[int], outputs: Mapping[str, Tensor]) -> list[None]:
            for name, values in outputs.items():
                if name not in ignored:
                    arrays[name] = _with_rows(arrays.get(name), numbers, values.float().cpu().numpy(), len(lengths))
            return [None] * len(numbers)

        lengths = np.asarray(features["length"])
        with Bar("predicting", "inputs") if on_progress is None else nullcontext(on_progress) as progress:
            forward_in_batches(self.model, lengths, collate, keep, self.batch_size, self.name, progress)
        return next(iter(arrays.values())) if len(arrays) == 1 else tuple(arrays.values())


def table_with_predictions(
    given: Any, names: Sequence[str], rows: Sequence[dict[str, Any]], leaves_out_labels: bool
) -> Any:
    """Returns a table of the kind of the given one, with its columns and its index, and those of the predictions.

    A column that has the name of a prediction becomes ``input_NAME``, as in files. Probabilities are columns
    ``probabilities.NAME``, except in dictionaries, and where predictions hold those of some labels only: then they are
    one column, ``probabilities``, of a dictionary or what the library has in its place.

    Args:
        given: a table object.
        names: its columns.
        rows: predictions, one per row of the table.
        leaves_out_labels: as of `TaskInference`.
    """
    given = rename_columns(given, names_beside(names, rows[0]))
    if kind_of_table(given) != ROWS:
        rows = [spread(row, leaves_out_labels) for row in rows]
    return with_columns(given, {name: [row[name] for row in rows] for name in rows[0]})


def _with_rows(whole: np.ndarray | None, numbers: Sequence[int], rows: np.ndarray, total: int) -> np.ndarray:
    """Writes rows (B, S, …) into an array (N, S', …) padded with -100, which is made, or made longer, if need be.

    The longest inputs come first, so it is hardly ever made longer. Rows (B,) are written into an array (N,).
    """
    length = rows.shape[1:2]
    if whole is None or whole.shape[1:2] < length:
        longer = np.full((total, *rows.shape[1:]), IGNORE_INDEX, rows.dtype)
        if whole is not None:
            longer[:, : whole.shape[1]] = whole
        whole = longer
    places: tuple[Any, ...] = (numbers, *map(slice, length))
    whole[places] = rows
    return whole


def joined_outputs(blocks: Sequence[Outputs]) -> Outputs:
    """Joins outputs for some rows each, (N, S, …) or (N,), in their order; shorter ones are padded with -100."""
    if isinstance(blocks[0], tuple):
        return tuple(join_arrays(each) for each in zip(*blocks, strict=True))
    return join_arrays(blocks)


def join_arrays(blocks: Sequence[Any]) -> np.ndarray:
    """Joins arrays, as `joined_outputs`."""
    length = max(block.shape[1:2] for block in blocks)
    whole = np.full((sum(map(len, blocks)), *length, *blocks[0].shape[2:]), IGNORE_INDEX, blocks[0].dtype)
    start = 0
    for block in blocks:
        whole[(slice(start, start + len(block)), *map(slice, block.shape[1:2]))] = block
        start += len(block)
    return whole


def build_predictor(
    checkpoint: str,
    task: Task,
    config: PreTrainedConfig,
    device: Literal["auto", "cpu"] = "auto",
    batch_size: int = 64,
    precision: Precision = "auto",
) -> Predictor:
    """Loads the weights and the tokenizer of a checkpoint; ``task`` and ``config`` are those of `load_task`."""
    import torch

    if is_onnx(checkpoint) and precision not in ("auto", "float32"):
        raise PlacementError(f"{checkpoint}: an ONNX model has its own precision; remove --precision {precision}")
    where = inference_device(device)
    dtype = inference_dtype(precision, where)
    joins = asks_to_join(where, dtype)
    tokenizer = load_tokenizer(checkpoint, config=config)

    def network(place: str) -> PreTrainedModel | PlainBert:
        if where == "cpu" and dtype == torch.float32 and not task_inference(task).needs_transformers:
            from bertkit.inference.plain_bert import load_plain_bert

            plain = load_plain_bert(task.head, place, config)
            if plain is not None:
                task.prepare(plain)
                return plain
        with without_library_bars():
            model, _ = load_model(task.head, place, config, new_head=False)
        task.prepare(model)
        if joins:
            join_sequences(model)
        return model.to(where, dtype)

    model: PreTrainedModel | PlainBert | OnnxModel | EnsembleModel
    if is_onnx(checkpoint):
        model = OnnxModel(checkpoint, config)
    elif is_ensemble(checkpoint):
        model = EnsembleModel([network(place) for place in members_of(checkpoint)])
    else:
        model = network(checkpoint)
    return Predictor(task, model, tokenizer, batch_size, checkpoint)


def load_task(checkpoint: str, data: Mapping[str, Any]) -> tuple[Task, PreTrainedConfig]:
    """Returns what a checkpoint was fine-tuned for, and its configuration; loads no weights.

    If the task is inferred, one line on stderr says what is assumed; it is also in `StockTask.assumptions`.

    Args:
        checkpoint: a run directory, a folder or a Hub id.
        data: values of the task's ``data`` block that differ from training.

    Raises:
        CheckpointError: it cannot be read, or has no task.
        RecipeError: the task has no such value of ``data``, or inputs are longer than the model reads.
    """
    config = load_config(checkpoint, any_encoder=True)
    task = task_of_checkpoint(config, checkpoint, **data)
    if isinstance(task, StockTask):
        say(f"{checkpoint} records no task; assumed from its head: {task.pipeline_tag}, {', '.join(task.assumptions)}")
    check_positions(task.data.max_seq_length, config, checkpoint)
    return task, config


def load_configured_task(name: str, options: PredictOptions) -> tuple[Task, PreTrainedConfig]:
    """Returns the task of a checkpoint with other options, and its configuration; loads no weights.

    Raises:
        BertkitError: the checkpoint cannot be read, or its task does not have an option.
    """
    task, config = load_task(name, {} if options.aggregation is None else {"aggregation": options.aggregation})
    return options.configure(task), config
