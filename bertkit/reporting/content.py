"""Content of the report of one run: facts, scores with intervals, sections and wrong predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from bertkit.errors import DataError
from bertkit.inference.outcomes import Outcome
from bertkit.metrics import score_range
from bertkit.metrics.intervals import score_interval
from bertkit.progress import counted, duration, is_score
from bertkit.reporting.curves import curve_section, not_finite, readable, still_falls, upper_first, without_classes
from bertkit.reporting.run_files import RunFiles
from bertkit.reporting.texts import number
from bertkit.sharing.model_card import without_paths
from bertkit.tasks.report_charts import bar_chart
from bertkit.tasks.report_parts import MOST_MISTAKES, Cell, Chart, DataTable, Mistake, Section

_GROUPS = 5  # of lengths of texts
_HIDDEN = "left out, since they may quote texts of the data"


@dataclass(frozen=True)
class Score:
    """A result on the validation set.

    Attributes:
        name: name of the metric, as in the results without ``eval_``.
        value: its value in ``all_results.json``; None where it is undefined, as a correlation of equal values is.
        low, high: 95 % interval over the examples; None where there is none, or none with a width.
        is_main: whether checkpoints are compared by it.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    is_main: bool = False

    @property
    def title(self) -> str:
        """Name for a heading."""
        return readable(self.name)


@dataclass(frozen=True)
class Content:
    """Everything that the report of a run shows.

    Attributes:
        run: the files of the run.
        title: name of the task.
        notices: limits of the report, such as an unfinished run.
        scores: results on the validation set, the main one first.
        remarks: what a reader of the scores must know, a sentence each.
        facts: name → value of the head, in groups by heading.
        data: table of the data, None without any.
        warnings: warnings and notes of the run.
        sections: charts and tables.
        mistakes: the surest wrong predictions.
        results: table of all results, None without any.
    """

    run: RunFiles
    title: str
    notices: tuple[str, ...]
    scores: tuple[Score, ...]
    facts: Mapping[str, Mapping[str, str]]
    data: DataTable | None
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    mistakes: tuple[Mistake, ...] = ()
    results: DataTable | None = None
    remarks: tuple[str, ...] = ()

    @property
    def heading_of_mistakes(self) -> str:
        """Sentence above the wrong predictions; an empty text without any."""
        number = len(self.mistakes)
        if not number:
            return ""
        if self.mistakes[0].measure == "error":
            return f"{counted(number, 'prediction')}, {'those with' if number > 1 else 'with'} the largest error first."
        if number == MOST_MISTAKES:
            return f"The {number} wrong predictions that the model is surest of."
        return f"{counted(number, 'wrong prediction')}{', the surest first' if number > 1 else ''}."


def content_of(run: RunFiles, outcome: Outcome | None, *, texts: bool, finished: bool) -> Content:
    """Collects the content of a report.

    Args:
        run: the files of the run.
        outcome: the outputs of its model for its validation set; None without one.
        texts: whether texts of the data may be shown.
        finished: whether the run is finished.
    """
    notices = []
    if not finished:
        done = f"after step {run.step:,} of {run.max_steps:,}" if run.step and run.max_steps else "before its first log"
        notices.append(
            f"This run has not finished: the report shows its last checkpoint, {done}. Continue the run with --resume."
        )
    if run.changed:
        notices.append(f"{without_paths(run.changed)}")
    notices += not_finite(run.history)
    main = outcome.task.main_metric if outcome is not None else None
    if outcome is not None and outcome.collapse:
        predictions = outcome.collapse if texts else "the predictions for all examples are the same"
        notices.append(f"This run has collapsed: {predictions} on the validation set.")
    curves = curve_section(run.history, main, run.record.get("baselines", {}), run.record.get("phases", ()))
    sections = [] if curves is None else [curves]
    mistakes: Sequence[Mistake] = ()
    if outcome is not None:
        given = (outcome.outputs, outcome.features, outcome.examples)
        sections += outcome.task.report_sections(*given, outcome.training)
        by_length = _by_length(outcome)
        sections += [Section("Lengths", [by_length])] if by_length is not None else []
        mistakes = outcome.task.mistakes(*given) if texts else ()
    remarks = [remark for section in sections for remark in section.remarks]
    if outcome is not None and not _is_highest(run, main):
        remarks += still_falls(run.history)
    if run.record.get("kept"):
        remarks.append(upper_first(f"{run.record['kept']}."))
    if not texts:
        sections = [_without_texts(section) for section in sections]
    notes = _warnings(run.record)
    if notes and not texts:
        notes = [f"{counted(len(notes), 'warning or note', 'warnings and notes')}, {_HIDDEN}"]
    return Content(
        run=run,
        title=_title(run),
        notices=tuple(notices),
        scores=tuple(_scores(run, outcome, main)),
        facts=_facts(run, finished),
        data=_data(run.record),
        warnings=tuple(notes),
        sections=tuple(section for section in sections if section.parts),
        mistakes=tuple(mistakes),
        results=_all_results(run.results),
        remarks=tuple(remarks),
    )


def _title(run: RunFiles) -> str:
    """Returns the name of the task; for pre-training, which has none, that of the recipe."""
    return str(without_paths(getattr(run.recipe.task, "name", run.record.get("recipe", run.recipe.kind))))


def _without_texts(section: Section) -> Section:
    parts = [part for part in section.parts if not (isinstance(part, DataTable) and part.has_texts)]
    return replace(section, parts=parts)


# ---- scores ---------------------------------------------------------------------------------------------------------


def measure_of(outcome: Outcome, name: str) -> Any:
    """Returns the function that computes a metric of predictions and references; NaN where it is undefined."""
    return lambda predictions, references: float(outcome.task.measured(predictions, references)[name])


def judged_of(outcome: Outcome) -> tuple[Sequence[Any], Sequence[Any]] | None:
    """Returns predictions and references in the form of the metric; None if the task does not define them."""
    try:
        return outcome.judged()
    except DataError:
        return None


def measured_metric(outcome: Outcome, judged: tuple[Sequence[Any], Sequence[Any]]) -> str:
    """Returns the metric that selections of examples are compared by: the main one, or the first one of `measured`."""
    known = outcome.task.measured(*judged)
    return outcome.task.main_metric if outcome.task.main_metric in known else next(iter(known))


def _scores(run: RunFiles, outcome: Outcome | None, main: str | None) -> list[Score]:
    """Returns the scores of the first validation set with their intervals, the main one first."""
    found = {key.removeprefix("eval_"): value for key, value in run.results.items() if key.startswith("eval_")}
    chosen = [key for key in found if is_score(key) and not key.endswith(("total", "thresh"))]
    found = {key: found[key] for key in without_classes(chosen, main)}
    intervals: dict[str, tuple[float | None, float | None]] = {}
    shown = list(found)
    if outcome is not None and (judged := judged_of(outcome)) is not None:
        known = outcome.task.measured(*judged)
        usual = measured_metric(outcome, judged)
        for name in known:
            terms = outcome.task.score_terms(name, *judged)
            if name in found and (terms is not None or name == usual):
                interval = score_interval(*judged, measure_of(outcome, name), terms) or (None, None)
                intervals[name] = _with_width(interval)
        suffixes = tuple(key for key in found if any(key.startswith(f"{name}_") for name in known))
        shown = [key for key in found if key in known or key == main or key in suffixes or key.startswith("ece")]
        shown = shown if len(shown) <= 12 else [key for key in shown if key in known or key == main][:12]
        shown = ["loss", *shown] if "loss" in found and "loss" not in shown else shown
    order = sorted(shown, key=lambda key: (key != main, key not in intervals, key == "loss"))
    none = (None, None)
    return [Score(key, found[key], *intervals.get(key, none), is_main=key == main) for key in order]


def _with_width(interval: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
    """Returns an interval, or none if its ends are the same number in the report: such a one says nothing."""
    low, high = interval
    return (None, None) if low is None or high is None or number(low) == number(high) else (low, high)


def _is_highest(run: RunFiles, name: str | None) -> bool:
    """Returns whether a score has its highest possible value."""
    scores = [key.removeprefix("eval_") for key in run.results if key.startswith("eval_")]
    return name in scores and run.results[f"eval_{name}"] == score_range(str(name), scores)[1]


def _by_length(outcome: Outcome) -> Chart | None:
    """Returns the score by length of the texts, in groups of about the same size."""
    judged = judged_of(outcome)
    columns = outcome.task.texts_of(outcome.examples)
    if judged is None or not columns:
        return None
    lengths = np.array([sum(len(text.split()) for text in row) for row in zip(*columns.values(), strict=True)])
    if len(lengths) < 2 * _GROUPS:
        return None
    borders = np.unique(np.quantile(lengths, np.linspace(0, 1, _GROUPS + 1), method="nearest"))
    if len(borders) < 3:
        return None
    name, bars = measured_metric(outcome, judged), []
    for place, (low, high) in enumerate(pairwise(borders.tolist())):
        is_last = place == len(borders) - 2
        rows = np.flatnonzero((lengths >= low) & ((lengths <= high) if is_last else (lengths < high))).tolist()
        top = int(high) if is_last else int(high) - 1
        value = outcome.task.measured(*([side[row] for row in rows] for side in judged)).get(name, math.nan)
        if math.isfinite(value):
            bars.append((f"{int(low)}" if top <= low else f"{int(low)}–{top}", float(value), len(rows)))
    _, highest = score_range(name, outcome.task.measured(*judged))
    if highest is not None and any(value > highest for _, value, _ in bars):
        highest = None
    title = f"Score by length of the text: {readable(name)}"
    return bar_chart("text-length", title, bars, labels=("words", readable(name)), highest=highest) if bars else None


# ---- facts ----------------------------------------------------------------------------------------------------------


def _facts(run: RunFiles, finished: bool) -> dict[str, dict[str, str]]:
    record, recipe, results = run.record, run.recipe, run.results
    placement = record.get("placement", {})
    source = recipe.model.get("name_or_path")
    train = recipe.train
    what = {
        "task": str(recipe.kind.replace("_", " ")),
        "checkpoint": "new weights" if source is None else str(without_paths(str(source))),
        "recipe": str(without_paths(record.get("recipe", ""))),
        "learning rate": f"{train.get('learning_rate', 5e-5):g}",
        "batch": f"{counted(train['global_train_batch_size'], 'input')} per step",
        "seed": str(record.get("seed", train["seed"])),
        "max. tokens of an input": str(recipe.data.max_seq_length),
    }
    steps = f"{run.step:,}" if run.step is not None else "unknown"
    resumed = record.get("resumed_from_step")
    cost = {
        "resumed": "" if resumed is None else f"after step {resumed:,}; times and speed are of the steps since then",
        "steps": steps if finished or not run.max_steps else f"{steps} of {run.max_steps:,}",
        "time": duration(record["wall_time"]) if finished and "wall_time" in record else "",
        "training": duration(results["train_runtime"]) if "train_runtime" in results else "",
        "tokens per second": f"{results['train_tokens_per_second']:,.1f}"
        if "train_tokens_per_second" in results
        else "",
        "tokens seen": f"{record['tokens_seen']:,}" if "tokens_seen" in record else "",
    }
    hardware = record.get("hardware", {})
    where = {
        "device": str(hardware.get("device", placement.get("device", ""))),
        "processor": str(hardware.get("processor", "")),
        "processes": str(placement.get("num_processes", "")),
        "strategy": str(placement.get("strategy", "")),
        "precision of the training": str(placement.get("mixed_precision", "")).replace("no", "float32"),
        "precision of the scores": str(placement.get("evaluation_precision", "")),
    }
    groups = {"Run": what, "Cost": cost, "Hardware": where, "Versions": dict(record.get("versions", {}))}
    return {title: {key: value for key, value in group.items() if value} for title, group in groups.items()}


def _data(record: Mapping[str, Any]) -> DataTable | None:
    rows: list[tuple[Cell, ...]] = []
    count_of, note = "examples", ""
    for name, facts in record.get("data", {}).items():
        cut = record.get("truncation", {}).get(name, {})
        lost = "nothing"
        if cut.get("examples"):
            share = 100 * cut["examples"] / cut["of_examples"]
            inputs, tokens = counted(cut["of_examples"], "input", form=","), counted(cut["tokens"], "token", form=",")
            lost = f"{cut['examples']:,} of {inputs} ({share:.1f} %), {tokens}"
        source = facts.get("source") or ", ".join(map(str, without_paths(list(facts.get("files", ())))))
        count = facts.get("examples", facts.get("documents"))
        if "documents" in facts:
            count_of = "documents"
            held_out = facts.get("held_out_documents", 0)
            note = f"{counted(held_out, 'document is', 'documents are', form=',')} held out, as the validation set."
        rows.append(
            (name, str(without_paths(source)), count, lost if cut else "–", str(facts.get("fingerprint", ""))[:23])
        )
    columns = ("split", "source", count_of, "truncated", "fingerprint")
    return DataTable("Data", columns, rows, note) if rows else None


def _warnings(record: Mapping[str, Any]) -> list[str]:
    notes = [f"{name}: {note}" for name, facts in record.get("data", {}).items() for note in facts.get("notes", ())]
    said = [line for line in record.get("warnings", ()) if line not in notes]
    return [str(without_paths(note)) for note in (*said, *notes)]


def _all_results(results: Mapping[str, float]) -> DataTable | None:
    rows = [(key, value) for key, value in results.items()]
    return DataTable("All results", ("name", "value"), rows) if rows else None


def card_parts(sections: Sequence[Section]) -> tuple[Chart | None, DataTable | None]:
    """Returns the figure and the table that the model card shows."""
    parts = [part for section in sections for part in section.parts if part.for_card]
    charts = [part for part in parts if isinstance(part, Chart)]
    tables = [part for part in parts if isinstance(part, DataTable) and not part.has_texts]
    return (charts[0] if charts else None), (tables[0] if tables else None)
