"""Sections of the report of classification and regression.

Scores and curves are computed by scikit-learn. Dimension letters: N examples, C classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bertkit.metrics.correlation import pearson, spearman
from bertkit.progress import counted
from bertkit.tasks.classification.decisions import CALIBRATION_BINS, expected_calibration_error
from bertkit.tasks.report_charts import (
    GREY,
    MOST_CLASSES_DRAWN,
    confusion_charts,
    curve_chart,
    reliability_chart,
    scatter,
    short,
)
from bertkit.tasks.report_parts import Chart, DataTable, Section
from bertkit.tasks.report_remarks import hardly_different, near_chance, never_predicted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_CURVES = 8
_MOST_CONFUSIONS = 12


def class_sections(
    predicted: np.ndarray,
    probabilities: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    training: np.ndarray | None,
) -> list[Section]:
    """Returns the sections of single-label and multi-label classification.

    Args:
        predicted: class ids (N,), or the labels of each example (N, C), 0 or 1.
        probabilities: (N, C).
        labels: the true values in the form of ``predicted``.
        names: names of the C classes.
        training: number of training examples of each class, (C,); None if unknown.
    """
    is_single = labels.ndim == 1
    true, own = (np.eye(len(names), dtype=np.int64)[each] if is_single else each for each in (labels, predicted))
    table, f1 = _per_class(own, true, probabilities, names, training)
    parts: list[Chart | DataTable] = []
    if is_single:
        from sklearn.metrics import confusion_matrix

        counts = confusion_matrix(labels, predicted, labels=range(len(names)))
        if len(names) <= MOST_CLASSES_DRAWN:
            parts += confusion_charts("confusion", "Confusion matrix", counts, names, for_card=True)
        if len(names) > 2:
            parts.append(_confusions(counts, names))
    parts.append(table)
    if len(names) > 2:
        frequency, of_what = (training, "training") if training is not None else (true.sum(axis=0), "validation")
        parts.append(_by_frequency(f1, frequency, of_what, names, "class" if is_single else "label"))
    what = ("class", "classes") if is_single else ("label", "labels")
    remarks = never_predicted(names, true.sum(axis=0), own.sum(axis=0), what=what)
    remarks += near_chance(probabilities) if is_single else []
    curves = _curves(true, probabilities, names, is_single)
    ece = expected_calibration_error(probabilities, labels)
    if is_single:
        stated, is_right, unit = probabilities.max(axis=-1), probabilities.argmax(axis=-1) == labels, "examples"
    else:
        stated, is_right, unit = probabilities.ravel(), true.ravel() == 1, "labels"
    return [
        Section("Classes", parts, remarks=remarks),
        Section("Probabilities", [*curves, reliability_chart(stated, is_right, ece, CALIBRATION_BINS, unit)]),
    ]


def _per_class(
    own: np.ndarray, true: np.ndarray, probabilities: np.ndarray, names: Sequence[str], training: np.ndarray | None
) -> tuple[DataTable, np.ndarray]:
    """Returns the scores of each class, and the F1 of each, (C,)."""
    from sklearn.metrics import average_precision_score, precision_recall_fscore_support

    precision, recall, f1, support = precision_recall_fscore_support(true, own, average=None, zero_division=0)
    columns = ["class", "precision", "recall", "F1", "average precision", "examples", "predicted"]
    rows = [
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
    columns += [] if training is None else ["in training"]
    return DataTable("Scores of each class", tuple(columns), rows, for_card=True), f1


def _confusions(counts: np.ndarray, names: Sequence[str]) -> DataTable:
    """Returns the most frequent confusions."""
    wrong = counts * (1 - np.eye(len(names), dtype=np.int64))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_CONFUSIONS]
    places = [divmod(int(place), len(names)) for place in order if wrong.flat[place]]
    rows = [(names[t], names[p], int(wrong[t, p]), float(wrong[t, p] / counts[t].sum())) for t, p in places]
    return DataTable("Most frequent confusions", ("true", "predicted", "examples", "share of the true class"), rows)


def _by_frequency(f1: np.ndarray, frequency: np.ndarray, of_what: str, names: Sequence[str], what: str) -> Chart:
    """Returns F1 by frequency; the axis is logarithmic if the frequencies differ by a factor of ten or more."""
    is_log = bool(frequency.min() and frequency.max() >= 10 * frequency.min())

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

        axes = figure.subplots()
        axes.scatter(frequency, f1, s=26, color="C0", clip_on=False)
        if len(names) <= MOST_CLASSES_DRAWN:
            for name, x, y in zip(names, frequency, f1, strict=True):
                axes.annotate(short(name), (x, y), xytext=(5, 4), textcoords="offset points", fontsize=8)
        axes.set(xlabel=f"{of_what} examples of the {what}", ylabel="F1", ylim=(0, 1.05))
        axes.margins(x=0.2)
        if is_log:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
            axes.xaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_xlim(left=0)
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))

    lowest = int(np.argmin(f1))
    alt = f"F1 by the number of {of_what} examples of each {what}; the lowest is {f1[lowest]:.3f} of {names[lowest]}."
    return Chart("class-frequency", f"F1 by frequency of the {what}", alt, draw, (4.4, 3.2))


def _curves(true: np.ndarray, probabilities: np.ndarray, names: Sequence[str], is_single: bool) -> list[Chart]:
    """Returns the precision-recall and ROC curves: of the second of two exclusive classes, else of each class.

    Of many classes those are drawn that have the most examples.
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

    known = [c for c in range(len(names)) if 0 < true[:, c].sum() < len(true)]
    if is_single and len(names) == 2:
        known = [c for c in known if c == 1]
    drawn = sorted(sorted(known, key=lambda c: -true[:, c].sum())[:_MOST_CURVES])
    if not drawn:
        return []
    note = f"The {len(drawn)} most frequent of {len(known)} classes." if len(drawn) < len(known) else ""
    ranked, separated, values = [], [], []
    for c in drawn:
        precision, recall, _ = precision_recall_curve(true[:, c], probabilities[:, c])
        false_positive, true_positive, _ = roc_curve(true[:, c], probabilities[:, c])
        ap, auc = (score(true[:, c], probabilities[:, c]) for score in (average_precision_score, roc_auc_score))
        ranked.append((f"{names[c]} · AP {ap:.3f}", recall[::-1], precision[::-1]))
        separated.append((f"{names[c]} · AUC {auc:.3f}", false_positive, true_positive))
        values.append(f"{names[c]} average precision {ap:.3f}, ROC AUC {auc:.3f}")
    listed = "; ".join(values)
    return [
        curve_chart(
            "precision-recall",
            "Precision and recall",
            ranked,
            labels=("recall", "precision"),
            alt=f"Precision-recall curves: {listed}.",
            note=note,
        ),
        curve_chart(
            "roc",
            "ROC",
            separated,
            labels=("false positive rate", "true positive rate"),
            alt=f"ROC curves: {listed}.",
            note=note,
            diagonal=True,
        ),
    ]


def regression_sections(predicted: np.ndarray, true: np.ndarray) -> list[Section]:
    """Returns the sections of regression; both arguments are (N,)."""
    from sklearn.metrics import mean_absolute_error, root_mean_squared_error

    residuals = predicted - true
    examples = counted(len(true), "example", form=",")
    of_both = (predicted.astype(np.float64), true.astype(np.float64))
    r, rho = pearson(*of_both), spearman(*of_both)

    def draw_scatter(figure: Figure) -> None:
        axes = figure.subplots()
        low, high = min(predicted.min(), true.min()), max(predicted.max(), true.max())
        axes.plot([low, high], [low, high], color=GREY, linestyle=":", linewidth=1)
        scatter(axes, true, predicted)
        axes.set(xlabel="true", ylabel="predicted", title=f"Pearson {r:.4f}, Spearman {rho:.4f}")

    def draw_residuals(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
        left.axhline(0, color=GREY, linestyle=":", linewidth=1)
        scatter(left, predicted, residuals)
        left.set(xlabel="predicted", ylabel="predicted − true")
        right.hist(residuals, bins=30, orientation="horizontal", color="C0", alpha=0.7)
        right.set(xlabel="examples")

    rows = [
        ("Pearson's r", r),
        ("Spearman's rho", rho),
        ("mean absolute error", float(mean_absolute_error(true, predicted))),
        ("root mean squared error", float(root_mean_squared_error(true, predicted))),
        ("mean of predicted − true", float(residuals.mean())),
    ]
    return [
        Section(
            "Numbers",
            [
                Chart(
                    "scatter",
                    "Predicted and true numbers",
                    f"Predicted by true number of {examples}: Pearson {r:.4f}, Spearman {rho:.4f}.",
                    draw_scatter,
                    (4.3, 3.8),
                    for_card=True,
                ),
                Chart(
                    "residuals",
                    "Residuals",
                    f"Residuals by predicted number; their mean is {residuals.mean():.4f}.",
                    draw_residuals,
                    (4.8, 3.8),
                ),
                DataTable("Agreement of the numbers", ("measure", "value"), rows, for_card=True),
            ],
            remarks=hardly_different(predicted, true),
        )
    ]


def suspected_labels(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray | None:
    """Finds labels that are probably wrong, by cleanlab's confident learning (Northcutt et al. 2021).

    Args:
        probabilities: (N, C), of a model that was not trained on these examples.
        labels: class ids, (N,).

    Returns:
        Whether each label is suspected, (N,) bool; None without cleanlab, or with one class only.
    """
    try:
        from cleanlab.filter import find_label_issues
    except ImportError:
        return None
    classes, known = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        return None
    chosen = probabilities[:, classes].astype(np.float64)
    chosen = chosen / np.maximum(chosen.sum(axis=1, keepdims=True), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in classes of few examples fewer labels are flagged
        found: np.ndarray = find_label_issues(known, chosen, filter_by="both", n_jobs=1)
    return found
