"""Curves of a training by step, from the entries that the Trainer logged, and charts of several kinds of tasks."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.features.reporting.reported import Chart, Section, number, short, upper_first
from bertkit.metrics import score_range
from bertkit.runtime.progress import counted, display_name, is_of_class, is_score

if TYPE_CHECKING:
    from matplotlib.axes import Axes

History = Sequence[Mapping[str, Any]]
"""The entries that the Trainer logged, in order."""

Points = tuple[list[int], list[float]]
Limits = tuple[float | None, float | None]
Baselines = Mapping[str, Mapping[str, float]]
Phases = Sequence[Mapping[str, int]]

MOST_CLASSES_DRAWN = 20
"""Number of classes up to which a confusion matrix is drawn."""

GREY = "#8a94a3"
_OPTIMIZER = ("learning_rate", "grad_norm")
_OTHER = (*_OPTIMIZER, "train_runtime", "epoch", "step")
_MOST_SCORES = 5
_FEW_POINTS = 20  # of a curve whose points are marked, since the lines between them are not measured
_COUNTS = ("total", "thresh")  # ends of results that are no scores
_MOST_ABOVE = 2  # times the highest point of the curves, for a baseline that is drawn on an axis without known end
_STYLES = ("-", "--", "-.", ":")


def readable(key: str) -> str:
    """Returns the name of a logged value for a heading.

    >>> readable("masked_lm_loss"), readable("eval_f1_macro"), readable("grad_norm")
    ('masked LM loss', 'f1 macro', 'gradient norm')
    """
    return {"grad_norm": "gradient norm"}.get(key) or display_name(key.removeprefix("eval_"))


def without_classes(names: Iterable[str], main_metric: str | None) -> list[str]:
    """Returns metrics without counts, and without those of single classes, which have a table; the main one is kept.

    >>> without_classes(["overall_f1", "entity/PER/f1", "entity/LOC/f1", "HasAns_total"], "entity/LOC/f1")
    ['overall_f1', 'entity/LOC/f1']
    """
    return [name for name in names if name == main_metric or not (is_of_class(name) or name.endswith(_COUNTS))]


def points(history: History, key: str) -> Points:
    """Returns the steps and the finite values of a key; of a step that was repeated, the last value."""
    values = {entry["step"]: float(entry[key]) for entry in history if isinstance(entry.get(key), (int, float))}
    steps = sorted(step for step, value in values.items() if math.isfinite(value))
    return steps, [values[step] for step in steps]


def throughput(history: History) -> Points:
    """Returns the tokens per second between consecutive logs.

    ``train_runtime`` of a log is the time of the steps since the start or the resumption, without evaluations and
    checkpoints: see `bertkit.training.trainer`. Logs of a resumed run are not compared with those before. They are told
    apart by their tokens: ``train_tokens_per_second`` times ``train_runtime`` are those since the resumption.
    """
    steps, values = [], []
    before: tuple[float, float, float] | None = None
    for entry in history:
        if "train_runtime" not in entry or "num_input_tokens_seen" not in entry or "train_loss" in entry:
            continue
        seconds, seen = float(entry["train_runtime"]), float(entry["num_input_tokens_seen"])
        since_resumption = float(entry.get("train_tokens_per_second", seen / max(seconds, 1e-9))) * seconds
        if before is not None:
            new = seen - before[1]
            if seconds > before[0] and 0 <= new < since_resumption - before[2] / 2:
                steps.append(int(entry["step"]))
                values.append(new / (seconds - before[0]))
        before = seconds, seen, since_resumption
    return steps, values


def curve_section(history: History, main_metric: str | None, baselines: Baselines, phases: Phases) -> Section | None:
    """Returns the charts of the training; None without any entry.

    Args:
        history: the entries.
        main_metric: the metric by which checkpoints are compared.
        baselines: metric → name → value of a simple model, drawn as lines.
        phases: ``first_step`` and ``max_seq_length`` of each phase of pre-training.
    """
    logged = list(dict.fromkeys(key for entry in history if "train_loss" not in entry for key in entry))
    trained = [key for key in logged if not key.startswith("eval_") and key not in _OTHER and is_score(key)]
    trained = [key for key in trained if "per_second" not in key and points(history, key)[0]]
    scores = [key.removeprefix("eval_") for key in logged if key.startswith("eval_") and is_score(key)]
    losses = list(dict.fromkeys([*trained, *(["loss"] if "loss" in scores else [])]))
    scores = without_classes((key for key in scores if key not in losses), main_metric)
    charts = []
    for key in losses:
        curves = {"training": points(history, key), "validation": points(history, f"eval_{key}")}
        charts.append(
            _draw_curves(key, readable(key), curves, _choose_limits(key, (), curves), baselines.get(key, {}), phases)
        )
    # One chart of the scores with a known range, and one of each other.
    by_axis: dict[str, dict[str, Limits]] = {}
    for key in sorted(scores, key=lambda key: key != main_metric):
        limits = _choose_limits(key, scores, {key: points(history, f"eval_{key}")})
        of_chart = by_axis.setdefault(key if limits[1] is None else "scores", {})
        if len(of_chart) < _MOST_SCORES:
            of_chart[key] = limits
    for name, keys in list(by_axis.items())[:_MOST_SCORES]:
        curves = {readable(key): points(history, f"eval_{key}") for key in keys}
        lines = {line: value for key in keys for line, value in baselines.get(key, {}).items()}
        lows, highs = zip(*keys.values(), strict=True)
        limits = (min(lows), max(highs)) if None not in (*lows, *highs) else (lows[0], None)
        title = "scores on the validation set" if len(keys) > 1 else readable(next(iter(keys)))
        charts.append(_draw_curves(name, title, curves, limits, lines, phases))
    for key in _OPTIMIZER:
        charts.append(_draw_curves(key, readable(key), {readable(key): points(history, key)}, phases=phases))
    speed = {"tokens per second": throughput(history)}
    charts.append(_draw_curves("throughput", "throughput in tokens per second", speed, phases=phases))
    drawn = [chart for chart in charts if chart is not None]
    return Section("Training", drawn) if drawn else None


def overlay_curves(runs: Mapping[str, History], keys: Iterable[str]) -> Section | None:
    """Returns one chart for each key with the curves of all runs that logged it; None without any.

    Args:
        runs: name → entries.
        keys: keys of the entries, such as ``eval_loss``.
    """
    scores = {key.removeprefix("eval_") for history in runs.values() for entry in history for key in entry}
    charts = []
    for key in keys:
        curves = {name: points(history, key) for name, history in runs.items()}
        title = f"{'validation' if key.startswith('eval_') else 'training'}: {readable(key)}"
        charts.append(_draw_curves(key, title, curves, _choose_limits(key.removeprefix("eval_"), scores, curves)))
    drawn = [chart for chart in charts if chart is not None]
    return Section("Training", drawn) if drawn else None


def _choose_limits(key: str, scores: Collection[str], curves: Mapping[str, Points]) -> Limits:
    """Returns the ends of the axis of a score: those of `score_range`, unless a value lies outside of them.

    The axis of correlations without negative values begins at 0, as that of a loss unless its curve would be flat.
    """
    values = [value for _, of_curve in curves.values() for value in of_curve]
    low, high = score_range(key, scores)
    lowest, highest = min(values, default=0.0), max(values, default=0.0)
    if high is not None and (highest > high or lowest < low):  # a score of another package
        high = None
    if lowest < low or (high is None and lowest > highest / 2):
        return None, high
    return max(low, 0.0) if lowest >= 0 else low, high


def _draw_curves(
    name: str,
    label: str,
    curves: Mapping[str, Points],
    limits: Limits = (0, None),
    baselines: Mapping[str, float] | None = None,
    phases: Phases = (),
) -> Chart | None:
    """Returns a chart of curves by step, with horizontal lines for baselines; None if no curve has two points.

    Args:
        name, label: of the chart.
        curves: name → points.
        limits: ends of the vertical axis; without one of them it fits the curves.
        baselines: name → value; one that would flatten the curves is named below the chart instead.
        phases: as for `curve_section`.
    """
    known = {key: value for key, value in curves.items() if value[0]}
    if not any(len(steps) > 1 for steps, _ in known.values()):
        return None
    baselines, title = baselines or {}, upper_first(label)
    low, high = limits
    drawn = [value for _, values in known.values() for value in values]
    highest = high if high is not None else _MOST_ABOVE * max(drawn)
    lines = {key: value for key, value in baselines.items() if value <= highest}
    drawn += lines.values()

    def draw(axes: Axes) -> None:
        for place, (key, (steps, values)) in enumerate(known.items()):
            marker = "o" if len(steps) <= _FEW_POINTS else ""
            axes.plot(steps, values, _STYLES[place % 4], label=key, marker=marker, markersize=4, clip_on=False)
        for place, (key, value) in enumerate(lines.items(), start=1):
            axes.axhline(value, color=GREY, linestyle=_STYLES[-place % 4], linewidth=1.2, label=f"{key}, {value:.2f}")
        axes.set(xlabel="step", xlim=(0, None))
        if low is not None:
            axes.set_ylim(low, high if high is not None else 1.05 * max(*drawn, 1e-9))
        axes.locator_params(axis="x", nbins=6, integer=True)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: format_tick(value))
        for phase in phases[1:]:
            start = f"{phase['max_seq_length']} tokens from step {phase['first_step']:,}"
            axes.axvline(phase["first_step"], color=GREY, linewidth=1, label=start)
        if len(known) + len(lines) + len(phases[1:]) > 1:
            # By name, as matplotlib leaves out lines whose names begin with _, as that of a run may, otherwise.
            axes.legend(axes.get_lines(), [str(line.get_label()) for line in axes.get_lines()])

    last = "; ".join(f"{key} {number(value[1][-1])} at step {value[0][-1]:,}" for key, value in known.items())
    last += "".join(f"; {key} {number(value)}" for key, value in baselines.items())
    notes = [f"Above the chart: {key}, {number(value)}." for key, value in baselines.items() if key not in lines]
    if low is None and min(drawn) > 0:
        notes.insert(0, "The vertical axis does not begin at 0.")
    name = re.sub(r"[^a-z0-9]+", "-", name.lower())
    return Chart(name, title, f"{title} by step: {last}.", draw, (4.4, 2.8), " ".join(notes))


def format_tick(value: float) -> str:
    """Formats the value of a tick in full, so that no factor or offset stands above the axis.

    >>> [format_tick(value) for value in (0, 0.25, 0.00015000000000000001, 1e-4, 1500, 2_000_000)]
    ['0', '0.25', '1.5e-4', '1e-4', '1,500', '2e+6']
    """
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.6g}"
    digits, exponent = f"{value:.3e}".split("e")
    return f"{float(digits):g}e{int(exponent):+d}"


def not_finite(history: History) -> list[str]:
    """Returns a sentence for each logged value that was NaN or infinite, which curves do not show.

    >>> not_finite([{"step": 2, "grad_norm": float("inf")}, {"step": 4, "grad_norm": 1.5}])
    ['The gradient norm was not finite in 1 of 2 logs, first at step 2; its curve leaves this out.']
    """
    sentences = []
    for key in dict.fromkeys(key for entry in history for key in entry):
        values = [(entry["step"], entry[key]) for entry in history if isinstance(entry.get(key), float)]
        steps = [step for step, value in values if not math.isfinite(value)]
        if steps:
            name = f"{'validation ' if key.startswith('eval_') else ''}{readable(key)}"
            logs = f"{len(steps):,} of {counted(len(values), 'log', form=',')}"
            sentences.append(
                f"The {name} was not finite in {logs}, first at step {steps[0]:,}; its curve leaves this out."
            )
    return sentences


def confusion_chart(
    title: str, counts: np.ndarray, names: Sequence[str], unit: tuple[str, str] = ("example", "examples")
) -> Chart:
    """Returns a confusion matrix for page and card: colours are shares of the true class, numbers are counts.

    Args:
        title: of the chart.
        counts: (C, C), true classes by predicted ones.
        names: the C classes.
        unit: singular and plural of what is counted.
    """
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.zeros(counts.shape), where=totals > 0)
    fontsize = 10 if len(names) <= 6 else 8 if len(names) <= 12 else 6.5

    def draw(axes: Axes) -> None:
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        labels = [short(each) for each in names]
        axes.set_xticks(range(len(names)), labels, rotation=45, ha="right")
        axes.set_yticks(range(len(names)), labels)
        axes.set(xlabel="predicted", ylabel="true")
        axes.grid(False)
        for row, column in np.argwhere(counts) if len(names) > 6 else np.ndindex(counts.shape):
            colour = "white" if shares[row, column] > 0.6 else "#1d2733"
            text = f"{counts[row, column]:,}"
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=fontsize)

    correct, total = int(np.trace(counts)), int(counts.sum())
    classes = counted(len(names), "class", "classes")
    alt = f"Confusion matrix of {classes}: {correct:,} of {counted(total, *unit, form=',')} on the diagonal."
    note = f"Numbers: {unit[1]}. The colour is the share of the true class."
    side = min(3.2 + 0.34 * max(len(names) - 3, 0), 8.5)
    return Chart("confusion", title, alt, draw, (side + 0.5, side), note, for_card=True)


def reliability_chart(
    stated: np.ndarray,
    is_right: np.ndarray,
    ece: float,
    bins: int,
    counts_of: str,
    before: tuple[np.ndarray, float] | None = None,
) -> Chart:
    """Returns a reliability diagram: the accuracy by stated probability, with the number of probabilities of each bin.

    Args:
        stated: (N,), probabilities.
        is_right: (N,), whether the prediction with this probability is right.
        ece: expected calibration error of these values.
        bins: number of bins of equal width.
        counts_of: what has one of these probabilities each, in the plural.
        before: probabilities (N,) of the same predictions before they were calibrated, and their calibration error.
    """

    def draw(axes: Axes) -> None:
        from sklearn.calibration import CalibrationDisplay

        share = np.full(len(stated), 1 / len(stated))
        axes.hist(stated, bins, range=(0, 1), weights=share, rwidth=0.9, alpha=0.25, label=f"share of the {counts_of}")
        CalibrationDisplay.from_predictions(is_right, stated, n_bins=bins, ax=axes, name=f"model, ECE {ece:.4f}")
        if before is not None:
            name, grey = f"before calibration, ECE {before[1]:.4f}", {"color": "0.5", "linestyle": "--"}
            CalibrationDisplay.from_predictions(
                is_right, before[0], n_bins=bins, ax=axes, name=name, ref_line=False, **grey
            )
        axes.set(xlabel="stated probability", ylabel="observed frequency", xlim=(0, 1), ylim=(0, 1.02))
        axes.legend(loc="upper left")

    earlier = "" if before is None else f", {before[1]:.4f} before calibration"
    alt = f"Reliability diagram with {bins} bins; expected calibration error {ece:.4f}{earlier}."
    return Chart("reliability", "Reliability of the probabilities", alt, draw, (4.3, 3.8))
