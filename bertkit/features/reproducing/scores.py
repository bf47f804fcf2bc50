"""Checkpoints that are fine-tuned for a table, the paper's models of their sizes, and the scores of both."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bertkit.features.grids.definition import RUNS
from bertkit.features.grids.results import COLLAPSED, GridResults, scored_runs, summarize_scores
from bertkit.features.grids.table import failures
from bertkit.features.grids.values import label
from bertkit.features.reproducing.paper import PaperRow, PaperTable, System, paper_run
from bertkit.metrics import score_range
from bertkit.model.checkpoint.encoders import BERT
from bertkit.model.checkpoint.load import load_config
from bertkit.recipe.files import run_name
from bertkit.runtime.files import read_json
from bertkit.runtime.formats import Format, ResultTable, interval_text, score_text
from bertkit.runtime.progress import counted, duration, is_score
from bertkit.tasks.checkpoints import block_of_run
from bertkit.training.runs.record import recorded

_PART = 0.05  # a set whose number of examples differs by more than this share from the published one is another set

_INTERVAL = "95 % interval"
# Objective of pairs, and whether tokens see the earlier ones only → variant of the paper.
_VARIANTS = {("nsp", False): "full", ("none", False): "no-nsp", ("none", True): "ltr-no-nsp"}


@dataclass(frozen=True)
class Candidate:
    """A checkpoint that is fine-tuned.

    Attributes:
        name: its name in results and folders, as `run_name` gives it.
        path: folder or Hub id.
        size: its layers, hidden size and heads, and the variant of its pre-training.
        system: the paper's model of this size and variant; None without one.
        note: why there is no system, or what was assumed; empty without either.
    """

    name: str
    path: str
    size: System
    system: str | None
    note: str = ""


def candidate_of(path: str, paper: PaperTable) -> Candidate:
    """Returns a checkpoint with the model of the table that has its size and variant.

    Raises:
        CheckpointError: it does not exist, or is no encoder.
    """
    config = load_config(path, any_encoder=True)
    layers, hidden, heads = (
        getattr(config, key, 0) for key in ("num_hidden_layers", "hidden_size", "num_attention_heads")
    )
    variant, assumed = (None, "")
    if any(system.variant for system in paper.systems.values()):
        variant, assumed = _read_variant(path, config)
    size = System(layers, hidden, heads, variant)
    name = run_name(path)
    if config.model_type not in BERT:
        return Candidate(name, path, size, None, f"{name} is {config.model_type} and not BERT: no difference")
    system = next((system for system, each in paper.systems.items() if each == size), None)
    if system is None:
        shape = f"{counted(layers, 'layer')} of {hidden} with {counted(heads, 'head')}"
        shape += "" if variant in (None, *_VARIANTS.values()) else f", pre-trained as {variant}"
        assumed = f"{name} has {shape}, which is no model of the paper's table: no difference"
    return Candidate(name, path, size, system, assumed)


def _read_variant(path: str, config: Any) -> tuple[str, str]:
    """Returns the variant of the pre-training of a checkpoint, such as ``no-nsp`` or ``ltr-sop``, and a note if it was
    assumed."""
    is_left_to_right = getattr(config, "attention", None) == "left_to_right"
    objective = block_of_run(path, "task").get("pair_objective")
    if objective is None and is_left_to_right:
        return "ltr-no-nsp", f"{path}: no recipe of its pre-training; taken to be without next sentence prediction"
    if objective is None:
        return "full", f"{path}: no recipe of its pre-training; taken to be BERT's, with next sentence prediction"
    return _VARIANTS.get((objective, is_left_to_right), f"{'ltr-' * is_left_to_right}{objective}"), ""


@dataclass(frozen=True)
class ReproducedRow:
    """A score of a checkpoint beside the paper's; all scores are in per cent.

    Attributes:
        model: name of the checkpoint.
        system: the paper's model of its size; None if the table has none.
        row, task, metric: names of the row and of the score, as in the paper, and the run's name for ``--tasks``.
        paper: score of each model of the paper.
        paper_set, our_set: ``dev`` or ``test``.
        n: number of runs with a score.
        mean, sd, low, high: of our scores over seeds, with the 95 % interval of the mean (Student's t); None without.
        difference: our mean minus the paper's score; None where they cannot be compared.
        seconds: device → wall time of all runs of the setting, also of those without this score; of a resumed one since
            its resumption.
        setting: recipe values by dotted key of the setting of a grid that the scores are of, the best one on dev.
        collapsed: number of runs that predict the same for all examples.
        note: why there is no score or no difference; empty without a reason.
    """

    model: str
    system: str | None
    row: str
    task: str
    metric: str
    paper: Mapping[str, float]
    paper_set: str
    our_set: str
    n: int = 0
    mean: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    difference: float | None = None
    seconds: Mapping[str, float] | None = None
    setting: Mapping[str, Any] | None = None
    collapsed: int = 0
    note: str = ""


@dataclass(frozen=True)
class Reproduction:
    """Result of `reproduce`, also written as ``TABLE.json``, ``.txt``, ``.tex`` and ``.md``.

    Attributes:
        output_dir: folder with these files, and a grid for each checkpoint and task below ``grids/``.
        table, title, page, section, source: the table, and where it stands in the paper.
        systems: models of the paper.
        rows: the scores, by checkpoint.
        failed: name of a failed run → its error.
        notes: limits of the comparison.
    """

    output_dir: Path
    table: str
    title: str
    page: int
    section: str
    source: str
    systems: tuple[str, ...]
    rows: tuple[ReproducedRow, ...]
    failed: Mapping[str, str]
    notes: tuple[str, ...]


def row_of(candidate: Candidate, row: PaperRow, grid: GridResults | None, missing: str) -> ReproducedRow:
    """Returns the scores of the runs of the best setting of a grid for a row of the paper."""
    facts = (candidate.name, candidate.system, row.name, row.run, row.metric, row.scores, row.set, row.our_set)
    empty = ReproducedRow(*facts)
    if grid is None:
        return replace(empty, note=f"not run: {missing}")
    best = grid.best_setting
    places = [grid.output_dir / RUNS / name for name in scored_runs(grid.runs, grid.best)]
    results = [read_json(place / "all_results.json") for place in places]
    known = [each for each in results if each.get(row.key) is not None]
    if not known:
        why = "every run failed" if not places else f"the runs have no {row.our_set} score"
        if any(row.key in each for each in results):
            why = "it is undefined in every run, as a correlation of equal predictions is"
        return replace(empty, note=f"no score: {why}")
    names = [name.partition("_")[2] for name in known[0] if is_score(name)]
    least, most = score_range(row.key.partition("_")[2], names)
    scale = 1 if most == 100 else 100  # in per cent
    scores = [each[row.key] * scale for each in known]
    summary = summarize_scores(scores, (scale * least, 100.0))
    seconds: dict[str, float] = {}
    records = [recorded(place) for place in places]
    for record in records:
        device = record["hardware"]["device"]
        seconds[device] = seconds.get(device, 0.0) + record["wall_time"]
    run, note = paper_run(row.run), ""
    for what, split, published in (("trained", "train", run.train), ("evaluated", "validation", run.eval)):
        number = records[0]["data"][split]["examples"]
        if not note and abs(number - published) > _PART * published:
            note = f"{what} on {number:,} examples, the published set has {published:,}: no difference"
    mean, paper = summary["mean"], row.scores.get(candidate.system or "")
    return replace(
        empty,
        n=len(scores),
        mean=mean,
        sd=summary["sd"],
        low=summary["low"],
        high=summary["high"],
        difference=None if mean is None or paper is None or note else mean - paper,
        seconds=seconds,
        setting=best.values if best else None,
        collapsed=len(best.collapsed) if best else 0,
        note=note,
    )


def average_of(candidate: Candidate, paper: PaperTable, rows: Sequence[ReproducedRow]) -> ReproducedRow | None:
    """Returns the mean of all rows of the table; None unless each has a score."""
    ours = [row for row in rows if row.model == candidate.name and row.mean is not None]
    if len(ours) < len(paper.rows):
        return None
    mean = statistics.mean(row.mean for row in ours if row.mean is not None)
    score = paper.average.get(candidate.system or "")
    are_comparable = all(row.difference is not None for row in ours)
    return ReproducedRow(
        candidate.name,
        candidate.system,
        "average",
        "",
        "",
        paper.average,
        ours[0].paper_set,
        ours[0].our_set,
        n=min(row.n for row in ours),
        mean=mean,
        difference=mean - score if are_comparable and score is not None else None,
    )


def reproduction_table(results: Reproduction, width: int | None = None, format: Format = "text") -> str:
    """Formats the paper's scores beside ours, in per cent.

    Checkpoints of the paper's sizes have one column ``paper``; beside any other one, each model of the paper has one,
    if there are three at most.

    Args:
        results: results of a reproduction.
        width, format: as of `ResultTable.formatted`. A narrow terminal gets no times, and no intervals.
    """
    systems = results.systems if len(results.systems) <= 3 and any(row.system is None for row in results.rows) else ()
    cells = [_format_row(row, systems, results.rows) for row in results.rows]
    columns = {name: column for name in cells[0] if any(column := [row[name] for row in cells])}
    heading = (
        f"Table {results.table.rpartition('-')[2]} of the BERT paper (page {results.page}, section {results.section}): "
        f"{results.title}, in per cent"
    )
    several = len({row.model for row in results.rows}) > 1
    reasons = [f"{row.model + ', ' if several else ''}{row.row}: {row.note}" for row in results.rows if row.note]
    totals: dict[str, float] = {}  # of the devices; rows of one run share its time
    for seconds in {(row.model, row.task): row.seconds for row in results.rows if row.seconds}.values():
        for device, number in seconds.items():
            totals[device] = totals.get(device, 0.0) + number
    which = " of the runs of the best settings" if any(row.setting for row in results.rows) else ""
    times = [f"time on {device}{which}: {duration(total)}" for device, total in totals.items()]
    lines = [*dict.fromkeys(reasons), *times, *(f"note: {note}" for note in results.notes)]
    if any(row.collapsed for row in results.rows):
        lines.append(f"collapsed: {COLLAPSED}; train longer, or change the learning rate")
    lines += failures(results.failed)
    rows = [  # of CSV: the paper's score is that of the model of the same size
        {
            **asdict(row),
            "setting": label(row.setting or {}),
            "paper": row.paper.get(row.system or ""),
            "seconds": sum(row.seconds.values()) if row.seconds else None,
            "device": ", ".join(row.seconds or ()),
        }
        for row in results.rows
    ]
    return ResultTable(columns, rows, heading, lines, ("time", _INTERVAL)).formatted(format, width)


def _format_row(row: ReproducedRow, systems: Sequence[str], rows: Sequence[ReproducedRow]) -> dict[str, str]:
    papers = {name: score_text(row.paper.get(name), digits=1) for name in systems}
    if not systems:
        papers = {"paper": score_text(row.paper.get(row.system or ""), digits=1)}
    return {
        "model": row.model if len({each.model for each in rows}) > 1 else "",
        "as": row.system or "" if len({each.system for each in rows}) > 1 else "",
        "row": row.row,
        "metric": row.metric,
        "set": row.our_set if len({each.our_set for each in rows}) > 1 else "",
        **papers,
        "ours": score_text(row.mean, row.sd, digits=1),
        _INTERVAL: interval_text(row.low, row.high, digits=1, unknown=""),
        "difference": "" if row.difference is None else f"{row.difference:+.1f}",
        "n": str(row.n) if row.n else "",
        "time": duration(sum(row.seconds.values())) if row.seconds else "",
        "setting": label(row.setting or {}),
        "notes": f"{row.collapsed} collapsed" if row.collapsed else "",
    }
