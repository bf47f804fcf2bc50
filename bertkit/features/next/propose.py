"""`bertkit.propose_rows`: which unlabelled rows to label next, and what more rows will bring."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bertkit.data.tables import Table
from bertkit.data.tables.annotated import GUESS, PROBABILITY, PROPOSED, REASON
from bertkit.features.next.curve import LearningCurve, learning_curve, why_no_curve
from bertkit.features.next.rows import read_candidates, read_labelled, reasons, rows_of, select_rows, with_equal_columns
from bertkit.features.next.writing import check_output, write_rows
from bertkit.inference.evaluation import data_of_run, outcome_of
from bertkit.inference.loaded import LoadedCheckpoint
from bertkit.inference.predictor import load_task
from bertkit.model.checkpoint.remote import at_revision
from bertkit.recipe.files import read_recipe_file
from bertkit.runtime.errors import BertkitError, RecipeError
from bertkit.runtime.options import several
from bertkit.runtime.pages.summary import Summarized, Summary
from bertkit.runtime.placement.inference import Precision
from bertkit.runtime.progress import counted, say, without_repetitions
from bertkit.tasks.base import texts_of
from bertkit.tasks.checkpoints import recipe_of
from bertkit.tasks.classification.task import ClassificationTask, DataSettings
from bertkit.tasks.splits import Columns

_MOST_KNOWN = 5_000  # labelled rows that others are compared with
_BATCH = 64


@dataclass(frozen=True)
class Proposal(Summarized):
    """Rows to label, and what more rows will bring.

    Attributes:
        rows: the proposed rows, the most uncertain first: the columns of the input, the empty label, ``guess``, what
            the run predicts, its ``probability`` in [0, 1], and ``reason``.
        candidates: number of unlabelled rows that they were chosen from.
        labelled: number of rows of the run's training table that have a label; None if they are not known.
        curve: the learning curve; None if there is none.
        no_curve: why there is none; empty if there is one.
        notes: what was left out.
        output: file with the proposed rows, and the labelled ones below them; None if none was written.
        command: the command that trains with them, once their labels are filled in; empty without a file, and if the
            labelled rows are not known.
        page: the command that shows the page to label them; empty without a file.
    """

    rows: list[dict[str, Any]]
    candidates: int
    labelled: int | None
    curve: LearningCurve | None
    no_curve: str
    notes: list[str]
    output: str | None
    command: str
    page: str

    def record(self) -> dict[str, Any]:
        """Returns the result as plain data."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Returns the result for a terminal, without the rows."""
        curve = [f"no learning curve: {self.no_curve}"] if self.curve is None else self.curve.lines()
        below = "" if self.labelled is None else f", above the {self.labelled:,} labelled ones"
        file = [] if self.output is None else [f"{counted(len(self.rows), 'row')} to label{below}: {self.output}"]
        label = f"label them, in the file or with {self.page}"
        then = [f"{label}, then:", self.command] if self.command else [label] if self.page else []
        return [*curve, *file, *then]

    def summary(self) -> Summary:
        """Returns what is printed, and shown in notebooks."""
        title = f"{counted(len(self.rows), 'row')} to label, of {self.candidates:,}"
        guesses = Counter(f"guess {row[GUESS]}" for row in self.rows)
        return Summary(title, guesses.most_common(), [*self.notes, *self.lines()])


def propose_rows(
    run: str | Path,
    input: str | Path | Any,
    *,
    rows: int = 50,
    output: str | Path | None = None,
    text_columns: str | Sequence[str] | None = None,
    device: Literal["auto", "cpu"] = "auto",
    precision: Precision = "auto",
    trust_remote_code: bool = False,
) -> Proposal:
    """Chooses the unlabelled rows that are worth most if they are labelled, and computes the learning curve of a run.

    A row is worth much if the run is unsure of it, and if it differs from the labelled rows and from the others that
    are chosen. The file has the chosen rows on top, with an empty label, and the labelled rows of the run below, so
    `bertkit.finetune` takes it as it is when the labels are filled in; rows whose label stays empty are left out.

    Args:
        run: directory of a run of text classification with one class per row.
        input: unlabelled rows: a table file, a text file with a text per line, a table such as a DataFrame, or texts.
            Rows with a label, with the text of a labelled row or of an earlier one are left out.
        rows: number of rows to choose; of fewer, all are.
        output: a new file: ``.csv``, ``.jsonl``, ``.json``, ``.parquet``, or ``.xlsx``, whose labels are chosen from a
            list.
        text_columns: columns of the input to read; by default those of the training.
        device: ``auto`` or ``cpu``.
        precision: ``auto`` is float32 on CPUs and fp16 on GPUs.
        trust_remote_code: run the code that the checkpoint brings.

    Raises:
        RecipeError: the run predicts no class, or several per row, or one of its columns is named ``guess``,
            ``probability`` or ``reason``; ``rows`` is below 1; or ``text_columns`` are not as many as in training.
        DataError: the rows cannot be read, or none is left.
        CheckpointError: the run cannot be loaded.
        OutputError: the file exists, cannot be written, or its ending is not one of these.

    Examples:
        ```python
        proposal = bertkit.propose_rows("my-reviews", "unlabelled.csv", rows=50, output="to_label.xlsx")
        proposal.rows[0]["reason"], proposal.curve.points[-1].accuracy
        ```
    """
    if rows < 1:
        raise RecipeError(f"rows {rows}: expected at least 1")
    target = None if output is None else Path(output)
    if target is not None:
        check_output(target)
    place = at_revision(run, None, trust_remote_code)
    with without_repetitions():  # the labelled rows are read again for the curve
        return _propose(str(run), place, input, rows, target, several(text_columns or []), device, precision)


def _propose(
    run: str,
    place: str,
    given: Any,
    rows: int,
    target: Path | None,
    text_columns: Sequence[str],
    device: Literal["auto", "cpu"],
    precision: Precision,
) -> Proposal:
    """Returns what `propose_rows` does; ``place`` is the folder of the run."""
    data = data_of_run(place, {})
    task, _ = load_task(place, data)
    if not isinstance(task, ClassificationTask) or task.settings.problem != "single_label":
        raise RecipeError(f"{run}: next is for runs of finetune classification with one class per row")
    label, names = str(task.settings.label_column), task.settings.label_names
    if own := [name for name in (*task.settings.text_columns, label) if name in PROPOSED]:
        raise RecipeError(
            f"{run}: its column {own[0]!r} has the name of one that next writes ({', '.join(PROPOSED)}); rename it in "
            "the table and train again"
        )
    labelled = read_labelled(task) if data else None
    table, notes = read_candidates(given, task, text_columns, labelled)
    if len(table) < rows:
        there = "1 is there: it is" if len(table) == 1 else f"{len(table):,} are there: all are"
        notes.append(f"{rows:,} rows were asked for, and {there} proposed")
    for note in notes:
        say(note)
    loaded = LoadedCheckpoint(place, device, _BATCH, data, precision)
    predictor = loaded.predictor.with_task(task.with_all_probabilities())
    predictions = predictor.predict_columns(task.columns_of(table))
    probabilities = np.array([list(each["probabilities"].values()) for each in predictions])  # (U, C)
    guesses = [(each["label"], each["probability"]) for each in predictions]
    proposed = _choose(loaded, task, table, probabilities, guesses, labelled, min(rows, len(table)))
    curve, no_curve = _measure_curve(place, task, probabilities, len(proposed), device)
    texts, command, page = task.settings.text_columns, "", ""
    if target is not None:
        below = [] if labelled is None else rows_of(labelled)
        write_rows(target, with_equal_columns([*proposed, *below], label), label, texts, names)
        unusual = [] if texts == ["text"] else [word for name in texts for word in ("--text-column", name)]
        page = shlex.join(["bertkit", "label", str(target), *unusual])
    if target is not None and labelled is not None:
        recipe = read_recipe_file(recipe_of(place))[0]
        model, problem = recipe.get("model", {}).get("name_or_path"), recipe.get("task", {}).get("problem")
        command = training_command(target, texts, label, model, task.data, problem)
    return Proposal(
        rows=proposed,
        candidates=len(table),
        labelled=None if labelled is None else len(labelled),
        curve=curve,
        no_curve=no_curve,
        notes=notes,
        output=None if target is None else str(target),
        command=command,
        page=page,
    )


def _choose(
    loaded: LoadedCheckpoint,
    task: ClassificationTask,
    table: Table,
    probabilities: np.ndarray,
    guesses: Sequence[tuple[str, float]],
    labelled: Table | None,
    number: int,
) -> list[dict[str, Any]]:
    """Returns the rows of a table that are proposed, with the guess for each and the reason.

    Args:
        loaded, task: the run.
        table: U unlabelled rows.
        probabilities: those of their classes, (U, C).
        guesses: what the run predicts for each, and its probability: with a threshold not always the most probable.
        labelled: the rows of the run; None if they are not known.
        number: how many are chosen.
    """
    vectors = _embed_texts(loaded, task, task.columns_of(table))
    known = vectors[:0]
    if labelled is not None:
        if len(labelled) > _MOST_KNOWN:
            labelled = labelled.part(np.random.default_rng(0).permutation(len(labelled))[:_MOST_KNOWN].tolist())
        known = _embed_texts(loaded, task, task.columns_of(labelled))
    label = str(task.settings.label_column)
    chosen, similarities = select_rows(probabilities, vectors, known, number)
    why = reasons(probabilities, similarities, chosen, task.settings.label_names)
    rows = []
    for place, row, reason in zip(chosen, rows_of(table.part(chosen.tolist())), why, strict=True):
        guess, probability = guesses[place]
        rows.append({**row, label: None, GUESS: guess, PROBABILITY: round(probability, 4), REASON: reason})
    return with_equal_columns(rows, label)


def _embed_texts(encoder: LoadedCheckpoint, task: ClassificationTask, columns: Columns) -> np.ndarray:
    """Returns the vectors of texts, or of pairs both, (N, D)."""
    return np.concatenate([encoder.embed(texts) for texts in texts_of(task, columns).values()], axis=1)


def _measure_curve(
    place: str, task: ClassificationTask, probabilities: np.ndarray, more: int, device: Literal["auto", "cpu"]
) -> tuple[LearningCurve | None, str]:
    """Returns the learning curve of a run, or why there is none.

    Args:
        place: the run.
        task: its task, with its data where they are known.
        probabilities: those of unlabelled rows, (U, C).
        more: number of rows that will be labelled.
        device: where vectors are computed.
    """
    if data_of_run(place, {}) and not task.data.scores_all_rows:  # without its data, `outcome_of` says why
        return None, (
            f"{place} has no out-of-fold predictions; finetune classification makes them of tables of up to 1,000 rows "
            "without a validation file, and with --folds 5 of larger ones"
        )
    try:
        outcome = outcome_of(place)
        assert isinstance(outcome.task, ClassificationTask)
        labels, found = np.asarray(outcome.features["labels"]), np.asarray(outcome.outputs, np.float64)
        if why := why_no_curve(labels):
            return None, why
        # The vectors of the run itself would be too good for its own rows.
        name = read_recipe_file(recipe_of(place))[0].get("model", {}).get("name_or_path")
        if name is None:
            return None, f"{place} started from new weights, whose vectors do not tell its classes apart"
        vectors = _embed_texts(LoadedCheckpoint(str(name), device, _BATCH, {}), task, outcome.examples)
    except BertkitError as error:
        return None, str(error)
    is_right = outcome.task.predicted(found) == labels
    shift = probabilities.max(axis=1).mean() - outcome.task.probabilities(found).max(axis=1).mean()
    return learning_curve(vectors, labels, is_right, float(shift), (more, 2 * more, 4 * more), outcome.same_texts), ""


def training_command(
    file: Path,
    texts: Sequence[str],
    label: str,
    model: str | None,
    data: DataSettings | None = None,
    problem: str | None = None,
) -> str:
    """Returns the command that trains with a file of rows whose labels are filled in.

    Args:
        file: the file.
        texts, label: its columns.
        model: the checkpoint to start from; None if it is not known, as in old runs.
        data: settings of the run that proposed the rows, of which length and groups stay, and the folds that
            groups need; None if they are not known.
        problem: the problem that the run was given, without which labels such as 1.5 are refused; None for none.
    """
    words = ["bertkit", "finetune", "classification", "--train-file", str(file)]
    if ([*texts], label) != (["text"], "label"):
        words += [word for column in texts for word in ("--text-column", column)] + ["--label-column", label]
    words += ["--problem", problem] if problem else []
    words += ["--model", model] if model else []
    if data is not None:
        if data.group_column is not None:
            words += ["--folds", str(data.folds), "--set", f"data.group_column={data.group_column}"]
        words += ["--max-seq-length", str(data.max_seq_length)]
    return shlex.join([*words, "--output-dir", "OUT"])
