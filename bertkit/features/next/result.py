"""The result of `bertkit.propose_rows`."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertkit.data.tables.proposed import GUESS
from bertkit.features.next.curve import LearningCurve
from bertkit.runtime.pages.summary import Summarized, Summary
from bertkit.runtime.progress import counted
from bertkit.tasks.classification.task import DataSettings


@dataclass(frozen=True)
class Proposal(Summarized):
    """Rows to label, and what more rows will bring.

    Attributes:
        rows: the proposed rows, the most valuable first: the columns of the input, the empty label, ``guess``,
            ``probability`` in [0, 1] and ``reason``.
        candidates: number of unlabelled rows that they were chosen from.
        labelled: number of rows that the run was trained on; None if they are not known.
        curve: the learning curve; None if there is none.
        no_curve: why there is none; empty if there is one.
        notes: what was left out.
        output: file with the proposed rows, and the labelled ones below them; None if none was written.
        command: the command that trains with them, once their labels are filled in; empty without a file.
    """

    rows: list[dict[str, Any]]
    candidates: int
    labelled: int | None
    curve: LearningCurve | None
    no_curve: str
    notes: list[str]
    output: str | None
    command: str

    def record(self) -> dict[str, Any]:
        """Returns the result as plain data."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Returns the result for a terminal, without the rows."""
        curve = [f"no learning curve: {self.no_curve}"] if self.curve is None else self.curve.lines()
        below = "" if self.labelled is None else f", above the {self.labelled:,} labelled ones"
        file = [] if self.output is None else [f"{counted(len(self.rows), 'row')} to label{below}: {self.output}"]
        page = "" if self.output is None else shlex.join(["bertkit", "label", self.output])
        then = [f"label them, in the file or with {page}, then:", self.command] if self.command else []
        return [*curve, *file, *then]

    def summary(self) -> Summary:
        """Returns what is printed, and shown in notebooks."""
        title = f"{counted(len(self.rows), 'row')} to label, of {self.candidates:,}"
        guesses = Counter(f"guess {row[GUESS]}" for row in self.rows)
        return Summary(title, guesses.most_common(), [*self.notes, *self.lines()])


def training_command(
    file: Path, texts: Sequence[str], label: str, model: str | None, data: DataSettings | None = None
) -> str:
    """Returns the command that trains with a file of rows whose labels are filled in.

    Args:
        file: the file.
        texts, label: its columns.
        model: the checkpoint to start from; None if it is not known, as in old runs.
        data: settings of the run that proposed the rows, of which length and groups stay; None if they are not known.
    """
    words = ["bertkit", "finetune", "classification", "--train-file", str(file)]
    if ([*texts], label) != (["text"], "label"):
        words += [word for column in texts for word in ("--text-column", column)] + ["--label-column", label]
    words += ["--model", model] if model else []
    if data is not None and data.group_column is not None:
        words += ["--set", f"data.group_column={data.group_column}"]
    if data is not None and data.max_seq_length != type(data)().max_seq_length:
        words += ["--max-seq-length", str(data.max_seq_length)]
    return shlex.join([*words, "--output-dir", "OUT"])
