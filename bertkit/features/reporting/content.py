"""Content of the report of one run: facts, scores with intervals, sections and wrong predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from bertkit.features.reporting.charts import curve_section, not_finite, readable, without_classes
from bertkit.features.reporting.reported import (
    Cell,
    Chart,
    DataTable,
    Mistake,
    Section,
    number,
    reported,
    sides_of,
    upper_first,
)
from bertkit.features.reporting.run_files import RunFiles
from bertkit.inference.outcome import VALIDATION_SET, Outcome, task_inference
from bertkit.inference.verdict import NO_VERDICT, Proposal, Verdict, verdict_of
from bertkit.recipe.files import run_name, without_paths
from bertkit.runtime.progress import counted, duration, is_score
from bertkit.tasks.base import per_example, texts_of

_GROUPS = 5  # of lengths of texts
_MOST_SCORES = 12
_HIDDEN = "left out, since they may quote texts of the data"


@dataclass(frozen=True)
class Score:
    """A result on the scored examples.

    Attributes:
        name: name of the metric, as in the results without ``eval_``.
        value: its value in ``all_results.json``; None where it is undefined, as a correlation of equal values is.
        low, high: 95 % interval over the examples; None where there is none, or none with a width.
        is_main: whether checkpoints are compared by it.
        units: what it is a score of, such as ``10 queries``; empty if unknown.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    is_main: bool = False
    units: str = ""


@dataclass(frozen=True)
class Content:
    """Everything that the report of a run shows.

    Attributes:
        run: the files of the run.
        title: name of the run, that of its folder or of ``train.run_name``.
        task: name of the task; for pre-training, which has none, that of the recipe.
        notices: limits of the report, such as an unfinished run.
        scores: results on the scored examples, the main one first.
        scored: what these examples are, see `bertkit.inference.outcome.Outcome`.
        verdict: what the scores say, and what to try next.
        test_scores: the same on the test set; none without labels of it.
        remarks: what else a reader of the scores must know, a sentence each.
        facts: heading → name → value, of the run, its cost, its hardware and its versions.
        data: table of the data, None without any.
        warnings: warnings and notes of the run.
        sections: charts and tables.
        mistakes: the most confident wrong predictions.
        unit: what their numbers count in the source of the data: ``line``, ``row`` or ``file``.
        results: table of all results, None without any.
    """

    run: RunFiles
    title: str
    task: str
    notices: tuple[str, ...]
    scores: tuple[Score, ...]
    facts: Mapping[str, Mapping[str, str]]
    data: DataTable | None
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    mistakes: tuple[Mistake, ...] = ()
    unit: str = "row"
    results: DataTable | None = None
    remarks: tuple[str, ...] = ()
    verdict: Verdict = NO_VERDICT
    test_scores: tuple[Score, ...] = ()
    scored: str = VALIDATION_SET


def content_of(run: RunFiles, outcome: Outcome | None, *, texts: bool) -> Content:
    """Collects the content of a report.

    Args:
        run: the files of the run.
        outcome: its predictions; None of pre-training and of unfinished runs.
        texts: show texts of the data; otherwise mistakes, tables and messages that may quote some are left out.
    """
    main, view = (None, None) if outcome is None else (outcome.task.main_metric, reported(outcome.task))
    curves = curve_section(run.history, main, run.record.get("baselines", {}), run.record.get("phases", ()))
    sections = [] if curves is None else [curves]
    mistakes: Sequence[Mistake] = ()
    if outcome is not None and view is not None:
        outcome = replace(outcome, results=run.results)
        by_length = _score_by_length(outcome)
        sections += [*view.sections(outcome), *([] if by_length is None else [Section("Lengths", [by_length])])]
        mistakes = [replace(each, number=outcome.number(each.row)) for each in view.mistakes(outcome)] if texts else ()
    remarks = [remark for section in sections for remark in section.remarks]
    if run.record.get("kept"):
        remarks.append(upper_first(f"{run.record['kept']}."))
    scores = _collect_scores(run, outcome, main)
    tested = [each for each in scores if f"predict_{each.name}" in run.results]
    notes = [f"{name}: {note}" for name, facts in run.record.get("data", {}).items() for note in facts.get("notes", ())]
    printed = [line for line in run.record.get("warnings", ()) if line not in notes]
    warnings = [str(without_paths(note)) for note in (*printed, *notes)]
    if run.record.get("verdict"):  # that of the end of the run
        known = run.record.get("proposal")
        proposal = None if known is None else Proposal(**{**known, "options": tuple(known["options"])})
        verdict = Verdict(tuple(run.record["verdict"]), proposal)
    else:
        verdict = NO_VERDICT if outcome is None else verdict_of(outcome, run.history, run.results)
    if not texts:
        sections = [
            replace(each, parts=[part for part in each.parts if isinstance(part, Chart) or not part.has_texts])
            for each in sections
        ]
        count = counted(len(warnings), "warning or note", "warnings and notes")
        warnings = [f"{count}, {_HIDDEN}"] if warnings else []
    return Content(
        run=run,
        title=str(run.recipe.train.get("run_name") or run_name(run.folder)),
        task=str(without_paths(getattr(run.recipe.task, "name", run.record.get("recipe", run.recipe.kind)))),
        notices=tuple(_collect_notices(run, outcome, texts)),
        scores=tuple(scores),
        facts=_collect_facts(run),
        data=_describe_data(run.record),
        warnings=tuple(warnings),
        sections=tuple(section for section in sections if section.parts),
        mistakes=tuple(mistakes),
        unit="row" if outcome is None else outcome.unit,
        results=DataTable("All results", ("name", "value"), list(run.results.items())) if run.results else None,
        remarks=tuple(remarks),
        verdict=verdict,
        test_scores=tuple(
            Score(each.name, run.results[f"predict_{each.name}"], is_main=each.is_main) for each in tested
        ),
        scored=VALIDATION_SET if outcome is None else outcome.scored,
    )


def _collect_notices(run: RunFiles, outcome: Outcome | None, texts: bool) -> list[str]:
    """Returns the limits of a report, such as an unfinished run, a sentence each."""
    notices = []
    if not run.is_finished:
        seen = "no score, since it has no checkpoint yet"
        if run.step and run.max_steps:
            seen = f"its last checkpoint, after step {run.step:,} of {run.max_steps:,}"
        notices.append(f"This run has not finished: the report shows {seen}. Continue the run with --resume.")
    if run.changed:
        notices.append(str(without_paths(run.changed)))
    notices += not_finite(run.history)
    if outcome is not None and outcome.collapse:
        predictions = outcome.collapse if texts else "the predictions for all examples are the same"
        notices.append(f"This run has collapsed: {predictions} on {outcome.scored}.")
    return notices


# ---- scores ---------------------------------------------------------------------------------------------------------


def _collect_scores(run: RunFiles, outcome: Outcome | None, main: str | None) -> list[Score]:
    """Returns the scores of the validation sets, the main one first; those of the first set have intervals."""
    results = {key.removeprefix("eval_"): value for key, value in run.results.items() if key.startswith("eval_")}
    names = without_classes(filter(is_score, results), main)
    intervals: dict[str, tuple[float | None, float | None]] = {}
    sides = None if outcome is None else sides_of(outcome)
    units: dict[str, str] = {}
    if outcome is not None and sides is not None:
        units = outcome.units
        known = per_example(outcome.task).compute_metrics(*sides)
        for name in filter(known.__contains__, names):
            is_main = name == _compared_metric(outcome, known)
            interval = outcome.interval(name, is_main)
            if interval is not None:
                low, high = interval
                # One whose ends are the same number in the report says nothing.
                has_width = low is not None and high is not None and number(low) != number(high)
                intervals[name] = interval if has_width else (None, None)
        always = (*known, main, "loss", *run.record.get("further_scores", ()))
        first = [name for name in names if name in always]
        others = [name for name in names if name.startswith(("ece", *(f"{each}_" for each in known)))]
        names = list(dict.fromkeys([*first, *others]))[: max(len(first), _MOST_SCORES)]
    order = sorted(names, key=lambda name: (name != main, name not in intervals, name == "loss"))
    return [
        Score(name, results[name], *intervals.get(name, (None, None)), name == main, units.get(name, ""))
        for name in order
    ]


def _compared_metric(outcome: Outcome, known: Mapping[str, float]) -> str:
    """Returns the metric that selections of examples are compared by: the main one if it is known, else the first."""
    return outcome.task.main_metric if outcome.task.main_metric in known else next(iter(known))


def _score_by_length(outcome: Outcome) -> DataTable | None:
    """Returns the score by length of the texts, in groups of about the same size; None for too few lengths or examples,
    and for scores of queries, which have texts of several examples each."""
    sides, columns = sides_of(outcome), texts_of(outcome.task, outcome.examples)
    if sides is None or not columns:
        return None
    lengths = np.array([sum(len(text.split()) for text in row) for row in zip(*columns.values(), strict=True)])
    if len(lengths) < 2 * _GROUPS:
        return None
    borders = np.unique(np.quantile(lengths, np.linspace(0, 1, _GROUPS + 1), method="nearest"))
    if len(borders) < 3:
        return None
    scores = per_example(outcome.task).compute_metrics
    name = _compared_metric(outcome, scores(*sides))
    terms = task_inference(outcome.task).terms(name, *sides)
    if terms is not None and len(terms.values) < len(lengths):
        return None
    rows: list[tuple[Cell, ...]] = []
    for low, end in pairwise([*map(int, borders[:-1]), int(borders[-1]) + 1]):
        of_group = np.flatnonzero((lengths >= low) & (lengths < end)).tolist()
        value = scores(*([side[row] for row in of_group] for side in sides)).get(name, math.nan)
        words = f"{low}" if end - low == 1 else f"{low}–{end - 1}"
        rows.append((words, float(value) if math.isfinite(value) else None, len(of_group)))
    return DataTable("Score by length of the text", ("words", readable(name), "examples"), rows)


# ---- facts ----------------------------------------------------------------------------------------------------------


def _collect_facts(run: RunFiles) -> dict[str, dict[str, str]]:
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
        "steps": steps if run.is_finished or not run.max_steps else f"{steps} of {run.max_steps:,}",
        "time": duration(record["wall_time"]) if run.is_finished and "wall_time" in record else "",
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
        "precision of the training": str(placement.get("mixed_precision", "")).replace("no", "float32")
        + " (TF32)" * bool(placement.get("tf32")),
        "precision of the scores": str(placement.get("evaluation_precision", "")),
    }
    groups = {"Run": what, "Cost": cost, "Hardware": where, "Versions": dict(record.get("versions", {}))}
    return {title: {key: value for key, value in group.items() if value} for title, group in groups.items()}


def _describe_data(record: Mapping[str, Any]) -> DataTable | None:
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
            if held_out := facts.get("held_out_documents"):
                note = f"{counted(held_out, 'document is', 'documents are', form=',')} held out, as the validation set."
        rows.append(
            (name, str(without_paths(source)), count, lost if cut else "–", str(facts.get("fingerprint", ""))[:23])
        )
    columns = ("split", "source", count_of, "truncated", "fingerprint")
    return DataTable("Data", columns, rows, note) if rows else None
