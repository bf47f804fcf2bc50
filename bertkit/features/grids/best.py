"""The runs of the best setting of a grid: their predictions of test sets, their report, and their ensemble."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bertkit.features.grids.definition import RUNS, Definition
from bertkit.features.grids.results import GridResults, best_cells, limits, read_results
from bertkit.features.grids.workers import main_score, record_of, write_record
from bertkit.inference.evaluation import check_unchanged, outcome_of
from bertkit.inference.networks import ENSEMBLE_FILE
from bertkit.inference.outcome import further_metrics
from bertkit.runtime.errors import OutputError
from bertkit.runtime.files import new_folder, read_json, read_record, write_json, write_whole
from bertkit.runtime.markdown import code, escape
from bertkit.runtime.progress import counted, say
from bertkit.tasks.splits import is_scored, splits_to_write, suffix_of
from bertkit.training.runs.directory import check_output_dir, contents
from bertkit.training.runs.evaluate import score_split, write_split
from bertkit.training.runs.listeners import complete_run
from bertkit.training.runs.record import write_results

_RESULTS = "predict_results.json"
_MEMBERS = "members"
# Files of a member that are also those of the ensemble.
_OF_ALL = ("config.json", "tokenizer.json", "tokenizer_config.json", "recipe.yaml")


def complete_best(definition: Definition, results: GridResults, tests: Sequence[str]) -> None:
    """Predicts the test sets by the best run, those with labels by all runs of its setting, and writes its report.

    What is there stays. The score on the test sets is added to the record of a run.
    """
    folder = results.output_dir
    if results.best_run is None:
        return
    cells = sorted(best_cells(definition, results), key=lambda cell: cell.name != results.best_run) if tests else []
    further = further_metrics(getattr(definition.recipe.task, "metrics", ()))
    for cell in cells:
        place = folder / RUNS / cell.name
        if not (place / _RESULTS).is_file():
            metrics: dict[str, float] = {}
            for name in tests:
                outcome = outcome_of(place, name)
                metrics |= score_split(outcome, name, further)
                if name in splits_to_write(outcome.task, tests):
                    write_split(outcome, name, place)
            write_results(place, {"predict": metrics})
        written = read_json(place / _RESULTS)
        names = [f"predict_{results.metric}{suffix_of(name)}" for name in tests]
        tested = [written[name] for name in names if name in written]
        if not tested:
            break  # without labels the predictions of the best run are enough
        # A process may be killed between the results and the record.
        write_record(folder, cell, {**(record_of(folder, cell) or {}), "test_score": statistics.mean(tested)})
    best = folder / RUNS / results.best_run
    complete_run(definition.recipe, best, lambda: outcome_of(best, with_training=True))


@dataclass(frozen=True)
class Ensemble:
    """Result of `ensemble`.

    Attributes:
        output_dir: the checkpoint for `bertkit predict` and `bertkit evaluate`.
        setting: name of the setting of its members.
        members: names of the runs.
        scores: score of each member, as in the results of the grid.
        score: score of the ensemble, averaged over the validation sets as those of the members; None with folds, as
            members were trained on the rows.
        metric: metric of the scores.
        notes: limits of the scores, such as an incomplete grid; also printed to stderr.
    """

    output_dir: Path
    setting: str
    members: tuple[str, ...]
    scores: tuple[float, ...]
    score: float | None
    metric: str
    notes: tuple[str, ...] = ()


def ensemble(grid: str | Path, *, output_dir: str | Path) -> Ensemble:
    """Combines the runs of the best setting of a grid into one checkpoint that averages their outputs.

    ``output_dir`` holds copies of the members, so the grid is not needed any more.

    Args:
        grid: output folder of `bertkit.finetune_grid`.
        output_dir: a new or empty folder.

    Raises:
        OutputError: there is no grid, it has no finished run, or ``output_dir`` is in use.
        DataError: the data of the runs cannot be read, or have changed; nothing is written.

    Examples:
        ```python
        bertkit.ensemble("my-grid", output_dir="together")
        bertkit.load("together").predict("a lovely film")
        ```
    """
    source, place = Path(grid), Path(output_dir)
    definition, results = read_results(source)
    check_output_dir(place, resume=False, can_resume=False)
    if results.best is None:
        raise OutputError(f"{source}: no run of this grid has finished; repeat its command")
    cells, notes = best_cells(definition, results), limits(results)
    for note in notes:
        say(f"note: {note}")
    with new_folder(place) as draft:
        (draft / _MEMBERS).mkdir()
        for number, cell in enumerate(cells, start=1):
            run, member = source / RUNS / cell.name, draft / _MEMBERS / f"{number:02}"
            member.mkdir()
            for name in contents(run):
                if name.endswith(".safetensors") or name == "config.json":
                    shutil.copyfile(run / name, member / name)
        for name in _OF_ALL:
            shutil.copyfile(source / RUNS / cells[0].name / name, draft / name)
        names = tuple(cell.name for cell in cells)
        members = [f"{_MEMBERS}/{number:02}" for number in range(1, len(cells) + 1)]
        record = {"members": members, "runs": names, "setting": results.best}
        write_json(draft / ENSEMBLE_FILE, record)
        write_whole(draft / "README.md", _describe(results.best, names, notes))
        score = None
        if definition.folds is None and not definition.recipe.data.scores_all_rows:
            further = further_metrics(getattr(definition.recipe.task, "metrics", ()))
            scored: dict[str, float] = {}
            first = source / RUNS / cells[0].name
            # Those of the run: a fold takes the place of all validation sets of the data.
            for name in filter(is_scored, read_record(first / "run.json").get("data") or ["validation"]):
                outcome = outcome_of(draft, name)
                check_unchanged(first, {name: outcome})
                suffix = name.removeprefix("validation")
                scored |= {f"eval_{key}{suffix}": value for key, value in outcome.scores(further).items()}
            score = main_score(outcome.task, scored)
    scores = tuple(float(results.runs[name]["score"]) for name in names)
    return Ensemble(place, results.best, names, scores, score, results.metric, tuple(notes))


def _describe(setting: str, runs: tuple[str, ...], notes: list[str]) -> str:
    """Returns the README of the folder; an ensemble has no model card, since it is not pushed to the Hub."""
    members = "\n".join(f"- `{_MEMBERS}/{number:02}`: run {code(run)}" for number, run in enumerate(runs, start=1))
    limits_of_scores = "".join(f"\n{escape(note)}\n" for note in notes)
    return f"""# Ensemble of {counted(len(runs), "run")}

The outputs (logits) of the members are averaged. They are the runs of the setting {code(setting)}:

{members}

`bertkit predict`, `evaluate` and `compare` and `bertkit.load` take this folder as a checkpoint. It cannot be exported
or pushed. A member has the weights and the configuration of its run; the tokenizer of all is in this folder.
{limits_of_scores}"""
