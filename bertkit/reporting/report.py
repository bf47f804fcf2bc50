"""Reports of runs: of one at its end, of one again, or of several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bertkit.errors import RecipeError
from bertkit.files import check_new_file, into_folder, write_whole
from bertkit.inference.evaluation import outcome_of
from bertkit.inference.predicted import Outcome
from bertkit.reporting.comparison import comparison_of
from bertkit.reporting.content import Content, card_parts, content_of
from bertkit.reporting.page import draw_run, render
from bertkit.reporting.parts import Chart
from bertkit.reporting.run_files import RunFiles, read_run
from bertkit.sharing.card_facts import CardReport
from bertkit.tasks.splits import FineTuningData

REPORT, FIGURES = "report.html", "figures"


def report(*runs: str | Path, output: str | Path | None = None, texts: bool = True) -> Path:
    """Writes the report of a run, or of several runs side by side: one HTML file without links to others.

    The predictions for the validation set are computed again from the checkpoint. A run that has not finished gives a
    partial report.

    Args:
        runs: run directories of `bertkit.finetune` and `bertkit.pretrain`, at least one.
        output: the file, which must not exist. By default ``report.html`` in the directory of a single run, replaced
            if it exists, with the figures in ``figures``; for several runs a new ``report.html`` in the working
            directory.
        texts: show texts of the validation set: wrong predictions, frequent spans, and notes that may quote texts.

    Returns:
        Path of the file.

    Raises:
        RecipeError: no run is given, or one of them twice.
        CheckpointError: a folder holds no run.
        DataError: the data of the run cannot be read, or have changed since the run.
        OutputError: the file exists or cannot be written.
    """
    folders = [Path(run) for run in runs]
    if not folders:
        raise RecipeError("report: give one or more run directories")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise RecipeError("report: give each run once")
    files = [read_run(folder) for folder in folders]
    target = Path(output) if output is not None else Path(REPORT) if len(folders) > 1 else None
    if target is not None:
        check_new_file(target, f"--output {target}")
    outcomes = [_outcome(run) for run in files]
    contents = [
        content_of(run, outcome, texts=texts, finished=run.is_finished)
        for run, outcome in zip(files, outcomes, strict=True)
    ]
    if target is None:
        return _write(folders[0], contents[0])
    names = _names(folders)
    comparison = comparison_of(names, contents, outcomes) if len(contents) > 1 else None
    title = contents[0].title if comparison is None else " · ".join(names)
    drawn = [draw_run(content, f"run{number}") for number, content in enumerate(contents, start=1)]
    write_whole(target, render(title, drawn, comparison))
    return target


def report_finished_run(folder: Path, outcome: Outcome | None) -> CardReport:
    """Writes the report of a run that has just ended, with the outputs of its last evaluation.

    Args:
        folder: the run directory, complete except for the model card.
        outcome: the outputs for its validation set; None for pre-training.

    Returns:
        What the model card shows of it.
    """
    content = content_of(read_run(folder), outcome, texts=True, finished=True)
    _write(folder, content)
    chart, table = card_parts(content.sections)
    if chart is None and content.sections:  # pre-training: the first curves
        chart = next((part for part in content.sections[0].parts if isinstance(part, Chart)), None)
    return CardReport(
        figure=f"{FIGURES}/{chart.name}.png" if chart is not None else "",
        alt=chart.alt if chart is not None else "",
        table=() if table is None else (table.columns, *table.rows),
    )


def _outcome(run: RunFiles) -> Outcome | None:
    """Returns the outputs of a run's model for its validation set; None for pre-training and unfinished runs.

    Raises:
        DataError: the data cannot be read, or are not those of the run.
    """
    if not run.is_finished or not isinstance(run.recipe.data, FineTuningData):
        return None
    return outcome_of(run.folder, with_training=True)


def _names(folders: Sequence[Path]) -> list[str]:
    """Returns the shortest ends of the paths that differ from each other."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-length:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return list(map(str, folders))


def _write(folder: Path, content: Content) -> Path:
    """Writes the page and the figures of a run into its directory."""
    drawn = draw_run(content, "run1", with_png=True)
    page = render(content.title, [drawn])
    with into_folder(folder) as draft:
        (draft / REPORT).write_text(page, encoding="utf-8")
        if drawn.pictures:
            (draft / FIGURES).mkdir()
        for name, picture in drawn.pictures.items():
            (draft / FIGURES / f"{name}.png").write_bytes(picture.png)
    return folder / REPORT
