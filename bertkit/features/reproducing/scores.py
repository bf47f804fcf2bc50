"""Scores of fine-tuned checkpoints beside the paper's."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertkit.features.grids.definition import RUNS
from bertkit.features.grids.results import GridResults
from bertkit.features.reproducing.candidates import Candidate
from bertkit.features.reproducing.paper import PaperRow, PaperTable, paper_run
from bertkit.metrics import score_range
from bertkit.metrics.intervals import mean_interval
from bertkit.runtime.files import read_json
from bertkit.runtime.progress import is_score
from bertkit.training.runs.record import recorded

_PART = 0.05  # a set whose number of examples differs by more than this share from the published one is another set


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
        seconds: device → wall time of these runs, of a resumed one since its resumption; not of other settings.
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
    of_best = f"{grid.best}-seed="
    places = [
        grid.output_dir / RUNS / name
        for name, record in grid.runs.items()
        if "score" in record and name.startswith(of_best)
    ]
    results = [read_json(place / "all_results.json") for place in places]
    known = [each for each in results if row.key in each]
    if not known:
        why = "every run failed" if not places else f"the runs have no {row.our_set} score"
        return replace(empty, note=f"no score: {why}")
    names = [name.partition("_")[2] for name in known[0] if is_score(name)]
    least, most = score_range(row.key.partition("_")[2], names)
    scale = 1 if most == 100 else 100  # in per cent
    scores = [each[row.key] * scale for each in known]
    interval = mean_interval(scores)
    low, high = (None, None) if interval is None else (max(interval[0], scale * least), min(interval[1], 100.0))
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
    mean, paper = statistics.mean(scores), row.scores.get(candidate.system or "")
    return replace(
        empty,
        n=len(scores),
        mean=mean,
        sd=statistics.stdev(scores) if len(scores) > 1 else None,
        low=low,
        high=high,
        difference=None if paper is None or note else mean - paper,
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
    comparable = score is not None and all(row.difference is not None for row in ours)
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
        difference=mean - score if comparable and score is not None else None,
    )
