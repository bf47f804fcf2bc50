"""Charts of a training by step, from the entries that the Trainer logged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bertkit.progress import display_name, is_of_class, is_score
from bertkit.reporting.figures import PALETTE
from bertkit.tasks.report_charts import GREY
from bertkit.tasks.report_parts import Chart, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

History = Sequence[Mapping[str, Any]]
Points = tuple[list[int], list[float]]

_OTHER = ("learning_rate", "grad_norm", "train_runtime", "train_loss", "epoch", "step")
_MOST_SCORES = 5
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
    """Returns the steps and the values of a key; of a step that was repeated, the last value."""
    found = {entry["step"]: float(entry[key]) for entry in history if isinstance(entry.get(key), (int, float))}
    return sorted(found), [found[step] for step in sorted(found)]


def throughput(history: History) -> Points:
    """Returns the tokens per second between consecutive logs, without the time of evaluations.

    Logs of a resumed run, whose time begins again, are not compared with those before.
    """
    steps, values = [], []
    before: tuple[float, float] | None = None
    evaluating = 0.0  # seconds so far
    for entry in history:
        evaluating += float(entry.get("eval_runtime", 0.0))
        if "train_runtime" not in entry or "num_input_tokens_seen" not in entry or "train_loss" in entry:
            continue
        now = float(entry["train_runtime"]) - evaluating, float(entry["num_input_tokens_seen"])
        if before is not None and now[0] > before[0] and now[1] >= before[1]:
            steps.append(int(entry["step"]))
            values.append((now[1] - before[1]) / (now[0] - before[0]))
        before = now
    return steps, values


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
    charts = [
        _chart(
            key.replace("_", "-"),
            _upper(readable(key)),
            {"training": points(history, key), "validation": points(history, f"eval_{key}")},
            readable(key),
            baselines.get(key, {}),
            phases,
        )
        for key in trained
    ]
    scores = [key.removeprefix("eval_") for key in logged if key.startswith("eval_") and is_score(key)]
    scores = [key for key in scores if key not in trained and key != "loss" and not key.endswith(_COUNTS)]
    scores = without_classes(scores, main_metric)
    first = [key for key in scores if key == main_metric]
    scores = [*first, *(key for key in scores if key not in first)]
    series = {key: points(history, f"eval_{key}") for key in scores}
    small = [key for key in scores if max(map(abs, series[key][1]), default=0) <= 1.5][:_MOST_SCORES]
    large = [key for key in scores if max(map(abs, series[key][1]), default=0) > 1.5][:_MOST_SCORES]
    for name, chosen in (("scores", small), ("larger-scores", large)):
        if chosen:
            title = _upper(readable(chosen[0])) if len(chosen) == 1 else "Scores on the validation set"
            lines = {key: value for metric in chosen for key, value in baselines.get(metric, {}).items()}
            curves = {readable(key): series[key] for key in chosen}
            charts.append(_chart(name, title, curves, "score", lines, phases, marker=True))
    if "eval_loss" in logged and "loss" not in trained:
        charts.append(_chart("loss", "Loss", {"validation": points(history, "eval_loss")}, "loss", {}, phases))
    for key, label in (("learning_rate", "learning rate"), ("grad_norm", "gradient norm")):
        charts.append(_chart(key.replace("_", "-"), _upper(label), {label: points(history, key)}, label, {}, phases))
    charts.append(_chart("throughput", "Throughput", {"tokens": throughput(history)}, "tokens per second", {}, phases))
    drawn = [chart for chart in charts if chart is not None]
    return Section("Training", drawn) if drawn else None


def overlaid(runs: Mapping[str, History], keys: Iterable[str]) -> Section | None:
    """Returns one chart for each key with the curves of all runs that logged it; None without any.

    Args:
        runs: name → entries.
        keys: keys of the entries, such as ``eval_loss``.
    """
    charts = []
    for key in keys:
        curves = {name: points(history, key) for name, history in runs.items()}
        chart = _chart(f"both-{key.replace('_', '-')}", _title(key), curves, readable(key), {}, (), marker=True)
        if chart is not None:
            charts.append(chart)
    return Section("Training", charts) if charts else None


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _title(key: str) -> str:
    name = readable(key)
    return f"Validation: {name}" if key.startswith("eval_") else f"Training: {name}"


def _chart(
    name: str,
    title: str,
    curves: Mapping[str, Points],
    label: str,
    baselines: Mapping[str, float],
    phases: Sequence[Mapping[str, int]],
    marker: bool = False,
) -> Chart | None:
    """Returns a chart of curves by step, with horizontal lines for baselines; None if no curve has two points."""
    known = {key: value for key, value in curves.items() if value[0]}
    if not any(len(steps) > 1 for steps, _ in known.values()):
        return None

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        for number, (key, (steps, values)) in enumerate(known.items()):
            is_sparse = marker or key == "validation" or len(steps) == 1
            axes.plot(
                *(steps, values),
                label=key,
                color=PALETTE[number % len(PALETTE)],
                marker="o" if is_sparse else "",
                markersize=4,
                linestyle=("-", "--", "-.", ":")[number % 4],
            )
        _lines(axes, baselines, phases)
        axes.set(xlabel="step", ylabel=label)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 5), useMathText=False)
        if len(known) + len(baselines) > 1:
            axes.legend(fontsize=8)

    last = "; ".join(f"{key} {value[1][-1]:.4g} at step {value[0][-1]:,}" for key, value in known.items())
    lines = "".join(f"; {key} {value:.4g}" for key, value in baselines.items())
    return Chart(name, title, f"{title} by step: {last}{lines}.", draw, _SIZE)


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
            xytext=(3, -9),
            textcoords="offset points",
            fontsize=8,
            color="#5b6675",
        )
