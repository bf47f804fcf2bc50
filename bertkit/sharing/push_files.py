"""The files of a push: weights, configuration and tokenizer, and what a run has left, without local paths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bertkit.checkpoint.encoders import BERT, head_of
from bertkit.checkpoint.load import load_config, load_model, load_tokenizer, save_tokenizer
from bertkit.errors import CheckpointError, RecipeError
from bertkit.files import write_whole
from bertkit.progress import without_library_bars
from bertkit.recipe.hub import HubSettings
from bertkit.recipe.paths import without_paths
from bertkit.recipe.yaml_files import read_recipe_file, to_yaml
from bertkit.sharing.card_facts import CardFacts
from bertkit.sharing.card_metadata import check_card
from bertkit.sharing.eval_results import EVAL_RESULTS, eval_results
from bertkit.sharing.export import export_stock
from bertkit.sharing.model_card import is_as_recorded, main_metric, model_card, recorded_facts

_RESULTS = ("all_results.json", "eval_results.json")
_REPORT, _FIGURES = "report.html", "figures"


def put_together(
    checkpoint: str, folder: Path, repo_id: str, settings: HubSettings, report: bool | None = None
) -> tuple[str, ...]:
    """Writes the files to push into a folder.

    Args:
        checkpoint: the run directory or the folder of the checkpoint; it is only read.
        folder: an empty folder.
        repo_id: name of the repository in the model card.
        settings: form, licence and languages.
        report: push the report with its figures; ``None`` for ``hub.report`` of the run's recipe.

    Returns:
        Warnings.

    Raises:
        CheckpointError: the checkpoint cannot be loaded, its outputs differ in this form, or its card is invalid.
        RecipeError: the checkpoint has no form of bertkit.
    """
    notes: list[str] = []
    about_report: list[str] = []
    if settings.form == "bert":
        _, _, stock_notes = export_stock(checkpoint, folder)
        notes += stock_notes
    else:
        _write_native(checkpoint, folder)
    source = Path(checkpoint)
    facts = recorded_facts(source)
    if facts is not None:
        facts = replace(
            facts,
            address=repo_id,
            is_stock=settings.form == "bert",
            license=settings.license or facts.license,
            language=tuple(settings.language) or facts.language,
            note=" ".join([facts.note, *notes]).strip(),
        )
        for name in _RESULTS:
            if (source / name).is_file():
                write_whole(folder / name, (source / name).read_bytes())
        blocks, _ = read_recipe_file(source / "recipe.yaml")
        write_whole(folder / "recipe.yaml", to_yaml(without_paths(blocks)))
        wanted = bool(blocks.get("hub", {}).get("report", True)) if report is None else report
        pushed = _copy_report(source, folder) if wanted else []
        if pushed and facts.recipe.get("task", {}).get("kind") != "pretraining":
            about_report.append(
                f"{_REPORT} shows texts of the validation set; --no-report, or hub.report, leaves it out"
            )
        if facts.report is not None and not pushed:
            facts = replace(facts, report=None)
    return (*notes, *_write_card(source, folder / "README.md", facts), *about_report)


def write_eval_results(source: Path, folder: Path) -> None:
    """Writes the score for the leaderboard of a benchmark, if the recipe of the run names its task."""
    facts = recorded_facts(source)
    task_id = facts.recipe.get("hub", {}).get("benchmark_task") if facts is not None else None
    if facts is not None and task_id is not None:
        (folder / EVAL_RESULTS).parent.mkdir()
        write_whole(folder / EVAL_RESULTS, eval_results(facts, task_id, main_metric(source)))


def _copy_report(source: Path, folder: Path) -> list[str]:
    """Copies the report of a run with its figures; returns their names, none if there is no report."""
    if not (source / _REPORT).is_file():
        return []
    names = [_REPORT, *sorted(f"{_FIGURES}/{path.name}" for path in (source / _FIGURES).glob("*.png"))]
    (folder / _FIGURES).mkdir()
    for name in names:
        write_whole(folder / name, (source / name).read_bytes())
    return names


def _write_native(checkpoint: str, folder: Path) -> None:
    """Writes bertkit's own form: the same weights, with the code of its classes.

    Raises:
        RecipeError: the checkpoint is of a family whose classes are not bertkit's.
    """
    config = load_config(checkpoint, any_encoder=True)
    if config.model_type not in BERT:
        raise RecipeError(
            f"--as bertkit: {checkpoint} is of type {config.model_type!r}, whose classes are not part of bertkit"
        )
    with without_library_bars():
        model, _ = load_model(head_of(config, checkpoint), checkpoint, config, new_head=False)
        model.save_pretrained(folder)
    save_tokenizer(load_tokenizer(checkpoint, config=config), folder)


def _write_card(source: Path, there: Path, facts: CardFacts | None) -> list[str]:
    """Writes the model card, that of the run or one that the user has written or edited; returns warnings.

    Args:
        source: the checkpoint, with its card if there is one.
        there: path of the card to push.
        facts: facts of the card to push; ``None`` without a finished run.

    Raises:
        CheckpointError: the user's card is not UTF-8, or `check_card` refuses it.
    """
    here = source / "README.md"
    try:
        written = here.read_text(encoding="utf-8-sig") if here.is_file() else None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{here}: not UTF-8 at byte {error.start}; convert it, then push again") from error
    if written is not None and not is_as_recorded(source, written):
        notes = check_card(written, str(here), facts)
        write_whole(there, written)
        own = [f"{here} differs from the generated model card, so it is pushed as it is"] if facts is not None else []
        return [*own, *notes]
    if facts is None:
        return [f"no model card: {source} contains no finished run and no README.md"]
    write_whole(there, model_card(facts))
    missing = [f"--{name}" for name in ("license", "language") if not getattr(facts, name)]
    return [f"the model card is incomplete; push again with {' and '.join(missing)}"] if missing else []
