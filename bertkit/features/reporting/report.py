"""Reports of runs: of one at its end, of one again, or of several side by side.

`bertkit.runtime.pages.page` renders the page; its charts are drawn by matplotlib.
"""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.features.reporting.charts import readable
from bertkit.features.reporting.comparison import comparison_of
from bertkit.features.reporting.content import Content, content_of
from bertkit.features.reporting.reported import Chart, DataTable, Section, is_number, number, pieces
from bertkit.features.reporting.run_files import read_run
from bertkit.inference.evaluation import outcome_of
from bertkit.inference.outcome import Outcome
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.features import module_about
from bertkit.runtime.files import check_new_file, into_folder, write_whole
from bertkit.runtime.pages.page import render_page
from bertkit.runtime.progress import logging_errors_alone
from bertkit.runtime.reading.paths import different_ends
from bertkit.tasks.splits import FineTuningData

if TYPE_CHECKING:
    from markupsafe import Markup

REPORT, FIGURES = "report.html", "figures"
_WITHIN_NAME = re.compile(r"(?<=\w)[_/](?=\w)")
_BEFORE_PERCENT = re.compile(r"(?<=\d) (?=%)")
_PNG_DPI = 160  # 6.4 inches are 1,024 pixels


def report(*runs: str | Path, output: str | Path | None = None, texts: bool = True, explain: int = 0) -> Path:
    """Writes the report of a run, or of several runs side by side: one HTML file without links to others.

    The predictions for the validation set are computed again from the checkpoint; those of models of folds are read
    from the run directory. A run that has not finished gives a partial report.

    Args:
        runs: run directories of `bertkit.finetune` and `bertkit.pretrain`, at least one.
        output: the file, which must not exist. By default ``report.html`` in the directory of a single run, replaced
            if it exists, with the figures in ``figures``; for several runs a new ``report.html`` in the working
            directory.
        texts: show texts of the scored examples: wrong predictions, frequent spans, the first predictions of tasks of
            other packages, and notes that may quote texts.
        explain: number of wrong predictions, the most confident ones, whose words are marked by what they add to the
            predicted label, as in `bertkit.explain`; for labels and numbers of texts, of runs that hold rows out.

    Returns:
        Path of the file.

    Raises:
        RecipeError: no run is given, or one of them twice; ``explain`` does not fit; or a recipe cannot be read.
        CheckpointError: a folder holds no run, or for ``explain`` a model whose attention cannot be written out.
        DataError: the data of the run cannot be read, or have changed since the run.
        OutputError: the file exists or cannot be written.

    Examples:
        ```python
        bertkit.report("my-reviews", output="report.html")
        ```
    """
    folders = [Path(run) for run in runs]
    if not folders:
        raise RecipeError("report: give one or more run directories")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise RecipeError("report: give each run once")
    of_runs = [read_run(folder) for folder in folders]
    target = Path(output) if output is not None else Path(REPORT) if len(folders) > 1 else None
    if target is not None:
        check_new_file(target, f"--output {target}")
    outcomes = [  # none of pre-training and of unfinished runs
        outcome_of(run.folder, with_training=True)
        if run.is_finished and isinstance(run.recipe.data, FineTuningData)
        else None
        for run in of_runs
    ]
    explaining = module_about(__package__, "explain") if explain else None
    if explain and explaining is None:
        raise RecipeError(f"--explain {explain} needs bertkit.explain, which is not part of this installation")
    if explaining is not None:
        for run, outcome in zip(of_runs, outcomes, strict=True):
            explaining.check_explained(explain, texts, run.folder, outcome)
    contents = [content_of(run, outcome, texts=texts) for run, outcome in zip(of_runs, outcomes, strict=True)]
    if explaining is not None:
        contents = [
            replace(each, mistakes=tuple(explaining.with_words(each.mistakes, each.run.folder, explain)))
            for each in contents
        ]
    if target is None:
        return write_report(folders[0], contents[0])
    names = different_ends([folder.resolve() for folder in folders])
    comparison = comparison_of(names, contents, outcomes) if len(contents) > 1 else None
    title = contents[0].title if comparison is None else " · ".join(names)
    write_whole(target, render(title, contents, comparison))
    return target


def report_finished_run(folder: Path, outcome: Outcome | None) -> dict[str, Any]:
    """Writes the report of a run that has just ended.

    Returns:
        What a model card shows of it: ``figure``, the path of the main figure in the run directory, and ``alt``, its
        text alternative, both empty without one; and ``table``, such as the scores by class, headings first, empty
        without one.
    """
    content = content_of(read_run(folder), outcome, texts=True)
    write_report(folder, content)
    parts = [part for section in content.sections for part in section.parts if part.for_card]
    chart = next((part for part in parts if isinstance(part, Chart)), None)
    table = next((part for part in parts if isinstance(part, DataTable) and not part.has_texts), None)
    if chart is None and content.sections:  # pre-training: the first curves
        chart = next((part for part in content.sections[0].parts if isinstance(part, Chart)), None)
    return {
        "figure": f"{FIGURES}/{chart.name}.png" if chart is not None else "",
        "alt": chart.alt if chart is not None else "",
        "table": () if table is None else (table.columns, *table.rows),
    }


def write_report(folder: Path, content: Content) -> Path:
    """Writes the figures of a run into its directory, and then the page, by which a complete report is known."""
    with into_folder(folder) as draft:
        page = render(content.title, [content], figures=draft / FIGURES)
    write_whole(folder / REPORT, page)
    return folder / REPORT


def render(title: str, contents: Sequence[Content], comparison: Any = None, figures: Path | None = None) -> str:
    """Draws the charts of runs, and returns the HTML of a page.

    Args:
        title: of the page.
        contents: a run each.
        comparison: a `bertkit.features.reporting.comparison.RunComparison` of several runs.
        figures: folder to write the charts to as well, as PNG files.
    """
    runs = [
        {"content": content, "prefix": f"run{number}", "pictures": draw_charts(content.sections, figures)}
        for number, content in enumerate(contents, start=1)
    ]
    return render_page(
        "bertkit.features.reporting",
        "report.html",
        "table.js",
        filters={
            "number": number,
            "pieces": pieces,
            "is_number": is_number,
            "readable": readable,
            "breakable": breakable,
        },
        tests={"chart": lambda part: isinstance(part, Chart)},
        title=title,
        runs=runs,
        comparison=comparison,
        pictures={} if comparison is None or comparison.curves is None else draw_charts([comparison.curves]),
    )


def draw_charts(sections: Iterable[Section], figures: Path | None = None) -> dict[str, tuple[str, int]]:
    """Draws charts in the style of the report; the same chart gives the same bytes.

    Args:
        sections: their charts are drawn.
        figures: folder to write them to as PNG files; made if there are charts.

    Returns:
        Name of a chart → URL of an SVG image, with the image in it, and its width in pixels.
    """
    charts = [part for section in sections for part in section.parts if isinstance(part, Chart)]
    if not charts:
        return {}
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if figures is not None:
        figures.mkdir()
    pictures = {}
    with _style():
        for chart in charts:
            figure = Figure(figsize=chart.size, layout="constrained")
            FigureCanvasAgg(figure)
            chart.draw(figure.subplots())
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # the layout stands, and takes as long as the drawing
            svg = io.BytesIO()
            figure.savefig(svg, format="svg", metadata={"Date": None})
            if figures is not None:
                figure.savefig(figures / f"{chart.name}.png", dpi=_PNG_DPI, metadata={"Software": None})
            url = f"data:image/svg+xml;base64,{base64.b64encode(svg.getvalue()).decode()}"
            pictures[chart.name] = url, round(chart.size[0] * 96)
    return pictures


def breakable(text: str) -> Markup:
    """Returns text as HTML whose lines may end within the name of a class or a path, but not before a %.

    >>> breakable("card_lost <b>, 3.4 %")
    Markup('card_<wbr>lost &lt;b&gt;, 3.4\\xa0%')
    """
    from markupsafe import Markup, escape

    return Markup(_WITHIN_NAME.sub(r"\g<0><wbr>", _BEFORE_PERCENT.sub("\xa0", str(escape(text)))))


@contextmanager
def _style() -> Iterator[None]:
    """Context in which matplotlib draws in the style of the report, not in the user's, and prints nothing."""
    with logging_errors_alone("matplotlib"):  # it has notices on its caches and fonts
        from matplotlib import rc_context, rcParamsDefault

        with (
            warnings.catch_warnings(),
            as_file(files("bertkit.features.reporting") / "templates" / "report.mplstyle") as path,
        ):
            warnings.simplefilter("ignore")  # characters that its font lacks; browsers have them
            defaults = {key: value for key, value in rcParamsDefault.items() if key != "backend"}
            with rc_context(defaults), rc_context(fname=path):
                yield
