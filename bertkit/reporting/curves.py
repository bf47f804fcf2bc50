"""Charts of a training by step, from the entries that the Trainer logged."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bertkit.metrics import score_range
from bertkit.progress import counted, display_name, is_of_class, is_score
from bertkit.reporting.figures import PALETTE
from bertkit.tasks.report_charts import GREY
from bertkit.tasks.report_parts import Chart, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

History = Sequence[Mapping[str, Any]]
Points = tuple[list[int], list[float]]
Range = tuple[float | None, float | None]
"""Lowest and highest value of a quantity; None where there is none."""

_OTHER = ("learning_rate", "grad_norm", "train_runtime", "train_loss", "epoch", "step")
_LABELS = {"learning_rate": "learning rate", "grad_norm": "gradient norm"}
_MOST_SCORES = 5
_FEW_POINTS = 20  # of a curve whose points are marked, since the lines between them are not measured
_COUNTS = ("total", "thresh")  # ends of results that are no scores
_SIZE = (4.4, 2.8)


def readable(name: str) -> str:
    """Returns the name of a metric for a heading.

    >>> readable("masked_lm_loss"), readable("eval_f1_macro")
    ('masked LM loss', 'f1 macro')
    """
    return display_name(name.removeprefix("eval_"))


def without_classes(names: Sequence[str], main_metric: str | None) -> list[str]:
    """Returns metrics without those of single classes, which have a table; the main metric is kept.

    >>> without_classes(["overall_f1", "entity/PER/f1", "entity/LOC/f1"], "entity/LOC/f1")
    ['overall_f1', 'entity/LOC/f1']
    """
    return [name for name in names if name == main_metric or not is_of_class(name)]


def points(history: History, key: str) -> Points:
    """Returns the steps and the finite values of a key; of a step that was repeated, the last value."""
    values = {entry["step"]: float(entry[key]) for entry in history if isinstance(entry.get(key), (int, float))}
    steps = sorted(step for step, value in values.items() if math.isfinite(value))
    return steps, [values[step] for step in steps]


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
            name = f"validation {readable(key)}" if key.startswith("eval_") else _LABELS.get(key, readable(key))
            logs = f"{len(steps):,} of {counted(len(values), 'log', form=',')}"
            sentences.append(
                f"The {name} was not finite in {logs}, first at step {steps[0]:,}; its curve leaves this out."
            )
    return sentences


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


def still_falls(history: History) -> list[str]:
    """Returns a remark if the last of several validation losses is clearly the lowest; none otherwise.

    That is if it is at least 1 % lower than the one before, and this at least 5 % of the way that the loss has fallen.

    >>> still_falls([{"step": step, "eval_loss": loss} for step, loss in ((10, 1.4), (20, 1.13), (30, 0.89))])
    ['The validation loss still falls at the end, from 1.1300 to 0.8900: more epochs may give better scores.']
    """
    _, losses = points(history, "eval_loss")
    if len(losses) < 2 or losses[-1] > min(losses):
        return []
    drop = losses[-2] - losses[-1]
    if drop < 0.01 * losses[-2] or drop < 0.05 * (max(losses) - losses[-1]):
        return []
    return [
        f"The validation loss still falls at the end, from {losses[-2]:.4f} to {losses[-1]:.4f}: more epochs may give "
        "better scores."
    ]


def curve_section(
    history: History,
    main_metric: str | None,
    baselines: Mapping[str, Mapping[str, float]],
    phases: Sequence[Mapping[str, int]],
) -> Section | None:
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
    scores = [key for key in scores if key not in trained and key != "loss" and not key.endswith(_COUNTS)]
    scores = without_classes(scores, main_metric)
    charts = []
    for key in trained:
        curves = {"training": points(history, key), "validation": points(history, f"eval_{key}")}
        lines = baselines.get(key, {})
        limits = _range(key, (), curves, lines)
        charts.append(_chart(_file_name(key), upper_first(readable(key)), curves, readable(key), limits, lines, phases))
    if "eval_loss" in logged and "loss" not in trained:
        curves = {"validation": points(history, "eval_loss")}
        charts.append(_chart("loss", "Loss", curves, "loss", (0, None), {}, phases))
    charts += _score_charts(history, sorted(scores, key=lambda key: key != main_metric), baselines, phases)
    for key, label in _LABELS.items():
        curves = {label: points(history, key)}
        charts.append(_chart(_file_name(key), upper_first(label), curves, label, (0, None), {}, phases, may_cut=False))
    curves = {"tokens": throughput(history)}
    charts.append(_chart("throughput", "Throughput", curves, "tokens per second", (0, None), {}, phases, may_cut=False))
    drawn = [chart for chart in charts if chart is not None]
    return Section("Training", drawn) if drawn else None


def _score_charts(
    history: History,
    scores: Sequence[str],
    baselines: Mapping[str, Mapping[str, float]],
    phases: Sequence[Mapping[str, int]],
) -> list[Chart | None]:
    """Returns one chart of all scores that lie in a range, such as 0 to 1, and one for each of the others."""
    series = {key: points(history, f"eval_{key}") for key in scores}
    ranges = {key: _range(key, scores, {key: series[key]}, baselines.get(key, {})) for key in scores}
    together = [key for key in scores if ranges[key][1] is not None][:_MOST_SCORES]
    alone = [key for key in scores if ranges[key][1] is None][:_MOST_SCORES]
    charts = []
    for name, keys in [("scores", together), *((_file_name(key), [key]) for key in alone)]:
        if not keys:
            continue
        title = upper_first(readable(keys[0])) if len(keys) == 1 else "Scores on the validation set"
        label = readable(keys[0]) if len(keys) == 1 else "score"
        lines = {name: value for key in keys for name, value in baselines.get(key, {}).items()}
        lows, highs = zip(*(ranges[key] for key in keys), strict=True)
        limits = None if None in lows else min(lows), None if None in highs else max(highs)
        curves = {readable(key): series[key] for key in keys}
        charts.append(_chart(name, title, curves, label, limits, lines, phases))
    return charts


def overlaid(runs: Mapping[str, History], keys: Iterable[str]) -> Section | None:
    """Returns one chart for each key with the curves of all runs that logged it; None without any.

    Args:
        runs: name → entries.
        keys: keys of the entries, such as ``eval_loss``.
    """
    charts = []
    scores = {key.removeprefix("eval_") for history in runs.values() for entry in history for key in entry}
    for key in keys:
        curves = {name: points(history, key) for name, history in runs.items()}
        limits = _range(key.removeprefix("eval_"), scores, curves, {})
        chart = _chart(f"both-{_file_name(key)}", _title(key), curves, readable(key), limits, {}, ())
        if chart is not None:
            charts.append(chart)
    return Section("Training", charts) if charts else None


def upper_first(text: str) -> str:
    """Returns a text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def _file_name(key: str) -> str:
    return key.replace("_", "-")


def _title(key: str) -> str:
    name = readable(key)
    return f"Validation: {name}" if key.startswith("eval_") else f"Training: {name}"


def _range(key: str, scores: Collection[str], curves: Mapping[str, Points], baselines: Mapping[str, float]) -> Range:
    """Returns the range of a score for an axis: that of `score_range`, unless a value lies outside of it.

    The range of a correlation without negative values begins at 0.
    """
    values = [*baselines.values(), *(value for _, of_curve in curves.values() for value in of_curve)]
    low, high = score_range(key, scores)
    lowest, highest = min(values, default=0.0), max(values, default=0.0)
    if high is not None and (highest > high or lowest < low):  # a score of another package
        high = None
    return None if lowest < low else max(low, 0.0) if lowest >= 0 else low, high


def _chart(
    name: str,
    title: str,
    curves: Mapping[str, Points],
    label: str,
    limits: Range,
    baselines: Mapping[str, float],
    phases: Sequence[Mapping[str, int]],
    may_cut: bool = True,
) -> Chart | None:
    """Returns a chart of curves by step, with horizontal lines for baselines; None if no curve has two points.

    Args:
        name, title: of the chart.
        curves: name → points.
        label: of the vertical axis.
        limits: range of the vertical axis; without a highest value it fits the curves.
        baselines, phases: as for `curve_section`.
        may_cut: if all values are in the upper half of an axis from 0, cut the axis, and draw the cut.
    """
    known = {key: value for key, value in curves.items() if value[0]}
    if not any(len(steps) > 1 for steps, _ in known.values()):
        return None
    drawn = [*baselines.values(), *(value for _, values in known.values() for value in values)]
    low, high = limits
    is_cut = may_cut and low == 0 and high is None and min(drawn) > max(drawn) / 2

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        for number, (key, (steps, values)) in enumerate(known.items()):
            axes.plot(
                *(steps, values),
                label=key,
                color=PALETTE[number % len(PALETTE)],
                marker="o" if len(steps) <= _FEW_POINTS else "",
                markersize=4,
                linestyle=("-", "--", "-.", ":")[number % 4],
                clip_on=False,
                zorder=3,
            )
        _lines(axes, baselines, phases)
        axes.set(xlabel="step", ylabel=label)
        axes.set_xlim(left=0)
        if is_cut:
            _draw_cut(axes)
        elif low is not None:
            axes.set_ylim(low, high if high is not None else 1.05 * max(*drawn, 1e-9))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 5), useMathText=False)
        if len(known) + len(baselines) > 1:
            axes.legend(fontsize=8)

    last = "; ".join(f"{key} {value[1][-1]:.4g} at step {value[0][-1]:,}" for key, value in known.items())
    lines = "".join(f"; {key} {value:.4g}" for key, value in baselines.items())
    note = "The vertical axis is cut: it does not begin at 0." if is_cut else ""
    return Chart(name, title, f"{title} by step: {last}{lines}.", draw, _SIZE, note)


def _draw_cut(axes: Axes) -> None:
    """Draws two slanted strokes across the lower end of the vertical axis."""
    from matplotlib.ticker import MaxNLocator

    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom - 0.08 * (top - bottom), top)  # room for the strokes below the curves
    axes.yaxis.set_major_locator(MaxNLocator(6, prune="lower"))
    axes.plot(
        *([0, 0], [0.02, 0.05]),
        transform=axes.transAxes,
        marker=[(-1, -0.5), (1, 0.5)],
        markersize=9,
        linestyle="none",
        color="#1d2733",
        markeredgewidth=1.2,
        clip_on=False,
    )


def _lines(axes: Axes, baselines: Mapping[str, float], phases: Sequence[Mapping[str, int]]) -> None:
    for number, (key, value) in enumerate(baselines.items()):
        axes.axhline(
            value, color=GREY, linestyle=(":", "--", "-.")[number % 3], linewidth=1.2, label=f"{key}, {value:.2f}"
        )
    for phase in phases[1:]:
        axes.axvline(phase["first_step"], color=GREY, linewidth=1)
        axes.annotate(
            f"{phase['max_seq_length']} tokens",
            (phase["first_step"], 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 6),  # above the curves
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color="#5b6675",
        )
