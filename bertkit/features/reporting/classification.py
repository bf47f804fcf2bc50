"""Reports of classification and regression, computed and drawn by scikit-learn.

Dimension letters: N examples, C classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.features.reporting.charts import MOST_CLASSES_DRAWN, confusion_chart, reliability_chart
from bertkit.features.reporting.reported import (
    Cell,
    Chart,
    DataTable,
    Mistake,
    Reported,
    Section,
    number,
    reported,
    short,
    upper_first,
)
from bertkit.inference.facts import few_of_each
from bertkit.inference.outcome import Outcome
from bertkit.metrics import CALIBRATION_BINS, expected_calibration_error, pearson, spearman
from bertkit.runtime.progress import counted
from bertkit.tasks.base import one_array
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.classification.text_classification import TextClassification

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CURVES = 8
_MOST_CONFUSIONS = 12
_MOST_WORST = 15


@reported.register(TextClassification)
class ReportedClassification(Reported):
    """Scores of classes, their probabilities, and numbers; mistakes with labels that may be wrong."""

    def sections(self, outcome: Outcome) -> list[Section]:
        predicted, labels = outcome.predictions_and_references()
        if self.task.problem_type == "regression":
            return regression_sections(np.asarray(predicted), np.asarray(labels))
        names, counts = self.task.settings.label_names, None
        if outcome.training is not None and "labels" in outcome.training:
            known = np.asarray(outcome.training["labels"]).astype(np.int64)
            counts = known.sum(axis=0) if known.ndim == 2 else np.bincount(known, minlength=len(names))
        logits, before = one_array(outcome.outputs), None
        if isinstance(self.task, ClassificationTask):  # the probabilities that the logits had before temperatures
            plain = self.task.with_settings(temperature=None)
            if (in_weights := self.task.temperatures_in_weights(outcome.results)) is not None:
                before = plain.probabilities(logits * in_weights)
            elif self.task.temperatures is not None and np.any(self.task.temperatures != 1):
                before = plain.probabilities(logits)
        what = ("label", "labels") if np.ndim(labels) == 2 else ("class", "classes")
        return class_sections(
            np.asarray(predicted),
            self.task.probabilities(logits),
            np.asarray(labels),
            names,
            counts,
            what,
            before=before,
        )

    def mistakes(self, outcome: Outcome) -> list[Mistake]:
        """Returns the mistakes by the probability of the predicted class, for several labels by that of the worst
        label, and for numbers by the error."""
        predicted, labels = map(np.asarray, outcome.predictions_and_references())
        is_number, suspects = self.task.problem_type == "regression", None
        if is_number:
            confidence = np.abs(predicted - labels)
            wrong = confidence > 0
            true, own = ([number(float(value)) for value in values] for values in (labels, predicted))
        else:
            probabilities = self.task.probabilities(one_array(outcome.outputs))
            true, own = (
                [(", ".join(each) or "(none)") if isinstance(each, list) else str(each) for each in of_side]
                for of_side in (self.task.to_labels(labels), self.task.to_labels(predicted))
            )
            wrong = predicted != labels
            if labels.ndim == 1:
                confidence = probabilities[np.arange(len(labels)), predicted]
                suspects = np.zeros(len(labels), dtype=bool)
                is_known = labels >= 0
                found = suspected_labels(probabilities[is_known], labels[is_known])
                suspects[is_known] = False if found is None else found
            else:
                confidence, wrong = (np.abs(probabilities - labels) * wrong).max(axis=1), wrong.any(axis=1)
        rows = ((row, confidence[row], true[row], own[row]) for row in np.flatnonzero(wrong).tolist())
        return self.mistakes_of(outcome, rows, suspects, "error" if is_number else "confidence")


def class_sections(
    predicted: np.ndarray,
    probabilities: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    training: np.ndarray | None,
    what: tuple[str, str] = ("class", "classes"),
    unit: str = "example",
    *,
    before: np.ndarray | None = None,
) -> list[Section]:
    """Returns the sections of single-label and multi-label classification.

    Args:
        predicted: class ids (N,), or the labels of each example (N, C), 0 or 1.
        probabilities: (N, C).
        labels: the true values in the form of ``predicted``; a class below 0 is not in training.
        names: names of the C classes.
        training: number of training examples of each class, (C,); None if unknown.
        what: singular and plural of what is predicted.
        unit: what is classified.
        before: probabilities before they were calibrated, (N, C); None if they were not.
    """
    is_single = labels.ndim == 1
    true, own = labels, predicted
    if is_single:
        true, own = ((each[:, None] == np.arange(len(names))).astype(np.int64) for each in (labels, predicted))
    parts: list[Chart | DataTable] = []
    if is_single and (labels >= 0).any():  # else there is no row of the matrix
        from sklearn.metrics import confusion_matrix

        counts = confusion_matrix(labels, predicted, labels=range(len(names)))
        if len(names) <= MOST_CLASSES_DRAWN:
            matrix = confusion_chart("Confusion matrix", counts, names, (unit, f"{unit}s"))
            if others := int(np.count_nonzero(labels < 0)):
                left_out = f"Not in it: {counted(others, unit, form=',')} of classes that are not in training."
                matrix = replace(matrix, note=f"{matrix.note} {left_out}")
            parts.append(matrix)
        if len(names) > 2:
            least = 1 if len(names) <= MOST_CLASSES_DRAWN else 2
            wrong = counts * (1 - np.eye(len(names), dtype=np.int64))
            order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_CONFUSIONS]
            places = [divmod(int(place), len(names)) for place in order if wrong.flat[place] >= least]
            pairs = [(names[t], names[p], int(wrong[t, p]), float(wrong[t, p] / counts[t].sum())) for t, p in places]
            headings = ("true", "predicted", f"{unit}s", f"share of the true {what[0]}")
            parts.append(DataTable("Most frequent confusions", headings, pairs))
    few = " ".join(few_of_each(true.sum(axis=0), what, unit))
    in_groups = bool(few) and len(names) > MOST_CLASSES_DRAWN
    if in_groups:
        parts += _group_by_found(own, true, names, training, what, unit, few)
    else:
        scores = _score_classes(own, true, probabilities, names, training)
        columns = [what[0], "precision", "recall", "F1", "average precision", f"{unit}s", "predicted"]
        columns += [] if training is None else ["in training"]
        parts.append(DataTable(f"Scores of each {what[0]}", tuple(columns), scores, few, for_card=True))
    sides = [
        (each.max(axis=-1) if is_single else each.ravel(), expected_calibration_error(each, labels))
        for each in (probabilities, before)
        if each is not None
    ]
    is_right = probabilities.argmax(axis=-1) == labels if is_single else true.ravel() == 1
    of = f"{unit}s" if is_single else "labels"
    reliability = reliability_chart(sides[0][0], is_right, sides[0][1], CALIBRATION_BINS, of, *sides[1:])
    curves = [] if in_groups else _draw_curves(true, probabilities, names, is_single, what[1])
    return [
        Section(upper_first(what[1]), [part for part in parts if isinstance(part, Chart) or part.rows]),
        Section("Probabilities", [*curves, reliability]),
    ]


def _score_classes(
    own: np.ndarray, true: np.ndarray, probabilities: np.ndarray, names: Sequence[str], training: np.ndarray | None
) -> list[tuple[Cell, ...]]:
    """Returns a row of scores of each class."""
    from sklearn.metrics import average_precision_score, precision_recall_fscore_support

    # A single column is to scikit-learn the two classes 0 and 1, of which the second is the label.
    of = [1] if len(names) == 1 else None
    scores = precision_recall_fscore_support(true, own, labels=of, average=None, zero_division=0)
    precision, recall, f1, support = scores
    return [
        (
            name,
            float(precision[c]),
            float(recall[c]),
            float(f1[c]),
            float(average_precision_score(true[:, c], probabilities[:, c])) if true[:, c].any() else None,
            int(support[c]),
            int(own[:, c].sum()),
            *([] if training is None else [int(training[c])]),
        )
        for c, name in enumerate(names)
    ]


def _group_by_found(
    own: np.ndarray,
    true: np.ndarray,
    names: Sequence[str],
    training: np.ndarray | None,
    what: tuple[str, str],
    unit: str,
    note: str,
) -> list[Chart | DataTable]:
    """Returns the classes in groups by how many of their few examples are found, and the worst of them, with counts."""
    found, actual, predicted = (own & true).sum(axis=0), true.sum(axis=0), own.sum(axis=0)
    groups: list[tuple[Cell, ...]] = []
    for title, of_group in (
        ("none found", (actual > 0) & (found == 0)),
        ("some found", (found > 0) & (found < actual)),
        ("all found", (actual > 0) & (found == actual)),
        (f"no {unit} here", actual == 0),
    ):
        if of_group.any():
            usual = [] if training is None else [int(np.median(training[of_group]))]
            groups.append((title, int(of_group.sum()), int(actual[of_group].sum()), *usual))
    columns = [f"{unit}s of the {what[0]}", what[1], f"{unit}s", *([] if training is None else ["median in training"])]
    by_group = DataTable(f"{upper_first(what[1])} by what is found", tuple(columns), groups, note, for_card=True)
    missed = actual - found + predicted - found
    worst = [c for c in np.lexsort((found, -missed)).tolist() if missed[c]][:_MOST_WORST]
    rows = [
        (names[c], int(found[c]), int(actual[c]), int(predicted[c]), *([] if training is None else [int(training[c])]))
        for c in worst
    ]
    columns = [what[0], "found", f"of {unit}s", "predicted", *([] if training is None else ["in training"])]
    with_errors = int(np.count_nonzero(missed))
    of_all = f"{len(worst)} of {counted(with_errors, *what)} with an error." if len(worst) < with_errors else ""
    return [by_group, DataTable(f"{upper_first(what[1])} with most errors", tuple(columns), rows, of_all)]


def _draw_curves(
    true: np.ndarray, probabilities: np.ndarray, names: Sequence[str], is_single: bool, plural: str
) -> list[Chart]:
    """Returns the precision-recall and ROC curves: of the second of two exclusive classes, else of each class.

    Of many classes those are drawn that have the most examples.
    """
    from sklearn import metrics

    known = [c for c in range(len(names)) if 0 < true[:, c].sum() < len(true)]
    if is_single and len(names) == 2:
        known = [c for c in known if c == 1]
    drawn = sorted(sorted(known, key=lambda c: -true[:, c].sum())[:_MOST_CURVES])
    if not drawn:
        return []
    note = f"The {len(drawn)} most frequent of {len(known)} {plural}." if len(drawn) < len(known) else ""

    def curves(name: str, title: str, labels: tuple[str, str], score: str, display: Any, value: Any) -> Chart:
        values = {c: float(value(true[:, c], probabilities[:, c])) for c in drawn}

        def draw(axes: Axes) -> None:
            for c, area in values.items():
                label = f"{short(names[c])} · {score} {area:.3f}"
                curve = display.from_predictions(true[:, c], probabilities[:, c], ax=axes, drop_intermediate=True)
                curve.line_.set_label(label)
            axes.set(xlabel=labels[0], ylabel=labels[1])
            # By name, as matplotlib leaves out lines whose names begin with _ otherwise.
            axes.legend(axes.get_lines(), [str(line.get_label()) for line in axes.get_lines()])

        listed = "; ".join(f"{names[c]} {area:.3f}" for c, area in values.items())
        return Chart(name, title, f"{title}, {score}: {listed}.", draw, (4.3, 3.8), note)

    separated = (metrics.RocCurveDisplay, metrics.roc_auc_score)
    ranked = (metrics.PrecisionRecallDisplay, metrics.average_precision_score)
    return [
        curves("precision-recall", "Precision and recall", ("recall", "precision"), "AP", *ranked),
        curves("roc", "ROC", ("false positive rate", "true positive rate"), "AUC", *separated),
    ]


def regression_sections(predicted: np.ndarray, true: np.ndarray) -> list[Section]:
    """Returns the section of regression; both arguments are (N,)."""
    from sklearn.metrics import PredictionErrorDisplay, mean_absolute_error, root_mean_squared_error

    correlations = (score(predicted.astype(np.float64), true.astype(np.float64)) for score in (pearson, spearman))
    r, rho = ("undefined" if np.isnan(value) else value for value in correlations)
    rows: list[tuple[Cell, ...]] = [
        ("Pearson's r", r),
        ("Spearman's rho", rho),
        ("mean absolute error", float(mean_absolute_error(true, predicted))),
        ("root mean squared error", float(root_mean_squared_error(true, predicted))),
        ("mean of predicted − true", float((predicted - true).mean())),
    ]
    examples = counted(len(true), "example", form=",")

    def chart(name: str, title: str, alt: str, kind: str) -> Chart:
        def draw(axes: Axes) -> None:
            points = {"s": 12, "alpha": 0.35, "rasterized": len(true) > 2_000}
            PredictionErrorDisplay(y_true=true, y_pred=predicted).plot(axes, kind=kind, scatter_kwargs=points)

        return Chart(name, title, alt, draw, (4.3, 3.8), for_card=name == "scatter")

    agreement = f"True by predicted number of {examples}: Pearson {number(r)}, Spearman {number(rho)}."
    differences = f"Residuals by predicted number; their mean is {number(float((true - predicted).mean()))}."
    charts = [
        chart("scatter", "True and predicted numbers", agreement, "actual_vs_predicted"),
        chart("residuals", "Residuals, true − predicted", differences, "residual_vs_predicted"),
    ]
    table = DataTable("Agreement of the numbers", ("measure", "value"), rows, for_card=True)
    return [Section("Numbers", [*charts, table])]


def suspected_labels(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray | None:
    """Returns which labels confident learning (Northcutt et al. 2021) suspects; None for one class or no cleanlab.

    Args:
        probabilities: (N, C), of a model that was not trained on these examples.
        labels: class ids, (N,).
    """
    try:
        from cleanlab.filter import find_label_issues
    except ImportError:
        return None
    classes, known = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        return None
    shares = probabilities[:, classes].astype(np.float64)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in classes of few examples fewer labels are flagged
        suspects: np.ndarray = find_label_issues(known, shares, filter_by="both", n_jobs=1)
    return suspects
