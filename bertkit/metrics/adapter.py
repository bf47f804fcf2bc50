"""The bridge to the evaluate library: bertkit's metrics as `evaluate.Metric`, and metrics of the library in results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import evaluate
import numpy as np

from bertkit.metrics.scores import CLASS_IDS, INPUTS, LABEL_SETS, NUMBERS, compute
from bertkit.runtime.errors import DataError, RecipeError, described, listed, shown

_TEXT = datasets.Value("string")
_TAGS = datasets.List(_TEXT)
_ANSWERS = datasets.Features({"text": datasets.List(_TEXT), "answer_start": datasets.List(datasets.Value("int32"))})
_QUESTION = {"id": _TEXT, "answers": _ANSWERS}
_ANSWER = {"id": _TEXT, "prediction_text": _TEXT}
# The evaluate library's float32 would change thresholds.
_ANSWER_OR_NONE = {**_ANSWER, "no_answer_probability": datasets.Value("float64")}
_NUMERIC = {
    CLASS_IDS: datasets.Value("int64"),
    LABEL_SETS: datasets.List(datasets.Value("int64")),
    NUMBERS: datasets.Value("float64"),
}
_FEATURES: dict[str, tuple[str, Any, Any]] = {
    "seqeval": ("the tags of each sentence, such as [['B-PER', 'I-PER', 'O']]", _TAGS, _TAGS),
    "squad": ("predictions: id and prediction_text; references: id and answers", _ANSWER, _QUESTION),
    "squad_v2": (
        "predictions: id, prediction_text and no_answer_probability; references: id and answers",
        _ANSWER_OR_NONE,
        _QUESTION,
    ),
    **{name: (form, _NUMERIC[form], _NUMERIC[form]) for name, form in INPUTS.items()},
}
"""Name of each metric → form of its inputs, in words, and features of a prediction and of a reference."""


class Metric(evaluate.Metric):
    """A metric of `bertkit.metrics`, whose inputs are kept in memory and whose scores are those of `compute`.

    Metrics of class ids, label sets and numbers accept arrays, tensors and lists of any precision. A fraction in place
    of an integer is refused: the evaluate library would turn a probability of 0.7 into class 0.

    ``compute``, ``add_batch`` and ``add`` raise ``ValueError`` if predictions and references differ in number or do not
    match ``features``; ``compute`` raises ``DataError`` if there are none.
    """

    def __init__(self, name: str) -> None:
        self._metric = name
        super().__init__(config_name=name.partition("/")[2] or None, keep_in_memory=True)

    def _info(self) -> evaluate.MetricInfo:
        form, predictions, references = _FEATURES[self._metric]
        return evaluate.MetricInfo(
            description=f"{self._metric}, as bertkit computes it.",
            citation="",
            inputs_description=form,
            features=datasets.Features({"predictions": predictions, "references": references}),
        )

    def _build_data_dir(self) -> str:
        return self._data_dir_root  # creates no folder, so that a read-only cache will do

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Adds examples; ValueError if the values do not match the features."""
        columns = {"predictions": predictions, "references": references}
        for name, values in columns.items():
            if values is None:
                raise ValueError(f"{name} are None; expected {self.inputs_description}")
        if self._metric in INPUTS:
            form = INPUTS[self._metric]
            columns = {name: _to_array(name, values, form) for name, values in columns.items()}
        try:
            super().add_batch(**columns, **kwargs)
        except KeyError as error:
            raise ValueError(f"an example has no {error}; expected {self.inputs_description}") from error

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Adds one example; ValueError if the values do not match the features."""
        self.add_batch(predictions=[prediction], references=[reference], **kwargs)

    def _finalize(self) -> None:
        if self.writer is None:
            raise DataError("nothing to score: there are no predictions and no references")
        super()._finalize()

    def _compute(self, predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
        return compute(self._metric, predictions, references, **options)


def _to_array(name: str, values: Any, form: str) -> np.ndarray:
    """Returns predictions or references as an array.

    Args:
        name: what the values are, for the message.
        form: what is expected, a value of `bertkit.metrics.INPUTS`. Floats without a fraction pass as class ids and
            labels: binary cross-entropy has such labels.

    Raises:
        ValueError: the rows have different lengths, there is no list but one value, a value is no number, or there is a
            fraction for an integer.
    """
    # NumPy reads no tensor in bfloat16, on a GPU or with a gradient, and no rows of lists in a column of pandas.
    if hasattr(values, "detach") or getattr(values, "dtype", None) == np.dtype(object):
        values = values.tolist()
    if isinstance(values, list | tuple):
        values = [each.tolist() if hasattr(each, "detach") else each for each in values]
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} have rows of different lengths; expected {form}") from error
    if array.ndim == 0:
        raise ValueError(f"{name} are {values!r}; expected {form}")
    if array.dtype.kind in "OU":  # O: such as a column of pandas
        try:
            array = np.vectorize(float, otypes=[np.float64])(array)  # astype makes NaN of None
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} are no numbers ({error}); expected {form}") from error
    if array.dtype.kind == "f" and form != NUMBERS:
        fractions = array[~(np.isfinite(array) & (array == np.floor(array)))]
        if fractions.size:
            raise ValueError(f"{name} contain {fractions[0]}; expected {form}, not probabilities")
    return array


# ---- metrics of the evaluate library in results ---------------------------------------------------------------------

# Names that transformers' Trainer gives to other results.
_TAKEN = {"loss", "runtime", "samples", "samples_per_second", "steps_per_second", "model_preparation_time"}


class FurtherMetrics:
    """The metrics of a recipe's ``task.metrics``, loaded.

    Args:
        names: names of `bertkit.metrics.names`, which need no network, and else names and folders for
            ``evaluate.load``; what exists under the name here goes before.

    Attributes:
        computed: names of the scores of the last call of `scores`.

    Raises:
        RecipeError: a metric is named twice or cannot be loaded; the message has all faults.
    """

    def __init__(self, names: Sequence[str]):
        self.computed: tuple[str, ...] = ()
        self._metrics: dict[str, evaluate.Metric] = {}
        faults = []
        for name in names:
            if name in self._metrics:
                faults.append(f"task.metrics: {name!r} is given twice; remove one of them")
                continue
            try:
                is_ours = name in _FEATURES and not Path(name).exists()
                self._metrics[name] = (
                    Metric(name) if is_ours else evaluate.load(name, module_type="metric", keep_in_memory=True)
                )
            except Exception as error:  # the code of a metric may raise anything
                faults.append(
                    f"task.metrics: {name!r} cannot be loaded ({described(error, 300)}); expected the name of a "
                    "metric, or a folder NAME with the file NAME.py, which has a subclass of evaluate.Metric"
                )
        if faults:
            raise RecipeError(listed(faults))

    def scores(self, predictions: Any, references: Any, own: Collection[str]) -> dict[str, float]:
        """Computes the numbers that the metrics return, by name.

        A name that is taken has that of its metric before it: ``my_metric_accuracy``.

        Args:
            predictions, references: in the form of the kind of task, see `bertkit.inference.outcome.TaskInference`.
            own: names of the scores of the task.

        Raises:
            RecipeError: a metric fails, or returns no numbers; or two have a score of the same name.
        """
        scores: dict[str, float] = {}
        for name, metric in self._metrics.items():
            try:
                result = metric.compute(predictions=predictions, references=references)
            except Exception as error:  # the code of a metric may raise anything
                raise RecipeError(
                    f"task.metrics: {name!r} failed ({described(error, 300)}); mend the metric, or remove it from "
                    "task.metrics"
                ) from error
            entries = result.items() if isinstance(result, Mapping) else ()
            plain = {str(key): each.item() if getattr(each, "ndim", None) == 0 else each for key, each in entries}
            numbers = {key: each for key, each in plain.items() if type(each) in (int, float)}  # no arrays and texts
            if not numbers:
                raise RecipeError(
                    f"task.metrics: {name!r} returned {shown(result)}; expected a mapping with at least one number, "
                    "such as {'my_score': 0.5}; mend the metric, or remove it from task.metrics"
                )
            for key, value in numbers.items():
                key = f"{Path(name).stem}_{key}" if key in _TAKEN or key in own or key in scores else key
                if key in own or key in scores:
                    raise RecipeError(f"task.metrics: {name!r} returned another score {key!r}; rename it")
                scores[key] = value
        self.computed = tuple(scores)
        return scores
