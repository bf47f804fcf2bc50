"""The paper's tables, read from ``paper.yaml``: their rows, their scores, and the runs that give ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

SOURCE = (
    "Devlin, Chang, Lee and Toutanova, BERT: Pre-training of Deep Bidirectional Transformers for Language "
    "Understanding, NAACL-HLT 2019, https://aclanthology.org/N19-1423/"
)
_FILE = Path(__file__).with_name("paper.yaml")


@dataclass(frozen=True)
class PaperRun:
    """A fine-tuning that gives one or several scores of a table.

    Attributes:
        name: its name for ``--tasks``.
        recipe: name of the recipe.
        values: recipe values by dotted key that differ from the recipe's; the layers ``all`` are those of the model.
        folder: folder of the files below the folder of the data, or that folder itself.
        files: key of the ``data`` block → names or patterns of the file, of which the first existing one is read; None
            for GLUE, whose recipes have the names.
        hub: recipe values by dotted key for the data on the Hub; None where the recipe has them.
        train, eval: numbers of examples of the published training set and first validation set.
    """

    name: str
    recipe: str
    train: int
    eval: int
    values: Mapping[str, Any]
    folder: str = ""
    files: Mapping[str, list[str]] | None = None
    hub: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class System:
    """Size of a model of the paper or of a checkpoint, and the variant of its pre-training: what they are matched by.

    Attributes:
        layers, hidden, heads: its size.
        variant: variant of its pre-training, one of `bertkit.features.grids.ablations.VARIANTS`, or another one of a
            checkpoint; None where a table has one only.
    """

    layers: int
    hidden: int
    heads: int
    variant: str | None = None


@dataclass(frozen=True)
class PaperRow:
    """A row of scores.

    Attributes:
        name: name of the row in the paper, such as ``MNLI-m``.
        run: name of the run.
        key: name of the score in ``all_results.json`` of a run.
        metric: name of the score for readers.
        set: the paper's set, ``dev`` or ``test``.
        scores: system → score in per cent; systems without one are missing.
    """

    name: str
    run: str
    key: str
    metric: str
    set: str
    scores: Mapping[str, float]

    @property
    def our_set(self) -> str:
        """The set of our score, ``dev`` or ``test``."""
        return "test" if self.key.startswith("predict_") else "dev"


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper.

    Attributes:
        name: ``table-1`` to ``table-7``.
        title: what it is about.
        page, section: where it stands in the proceedings.
        systems: name of a model → its size and variant.
        rows: the scores.
        average: system → mean of all rows in per cent, if the table has it.
        notes: what a reader of the scores has to know.
    """

    name: str
    title: str
    page: int
    section: str
    systems: Mapping[str, System]
    rows: tuple[PaperRow, ...]
    average: Mapping[str, float]
    notes: tuple[str, ...]

    @property
    def tasks(self) -> list[str]:
        """Names of the runs, each once, in the order of the rows."""
        return list(dict.fromkeys(row.run for row in self.rows))


@cache
def _contents() -> dict[str, Any]:
    return dict(yaml.safe_load(_FILE.read_text(encoding="utf-8")))


def table_names() -> list[str]:
    """Returns the names of the tables.

    >>> table_names()[0]
    'table-1'
    """
    return list(_contents()["tables"])


def paper_table(name: str) -> PaperTable:
    """Returns a table of the paper by its name.

    >>> paper_table("table-1").rows[-1].scores
    {'BERT-base': 66.4, 'BERT-large': 70.1}
    """
    table = _contents()["tables"][name]
    systems = {system: System(**size) for system, size in table["systems"].items()}

    def by_system(scores: list[float | None]) -> dict[str, float]:
        return {system: score for system, score in zip(systems, scores, strict=True) if score is not None}

    rows = [
        PaperRow(row, run, key, metric, "test" if key.startswith("predict_") else table["set"], by_system(scores))
        for row, run, key, metric, scores in table["rows"]
    ]
    average = by_system(table["average"]) if "average" in table else {}
    facts = (table["title"], table["page"], table["section"])
    return PaperTable(name, *facts, systems, tuple(rows), average, tuple(table.get("notes", ())))


def paper_run(name: str) -> PaperRun:
    """Returns a run by its name.

    >>> paper_run("rte").recipe
    'finetune/glue/rte'
    """
    return PaperRun(**{"name": name, "values": {}, **_contents()["runs"][name]})
