"""The files of a push: weights, configuration and tokenizer, and what a run has left, without local paths.

A card that was edited is checked as far as that is possible without the Hub. A score for the leaderboard of a benchmark
(https://huggingface.co/docs/hub/eval-results) is written only if the recipe of the run names its task
(``hub.benchmark_task``), since the Hub does not say which metric, in which unit, a leaderboard expects.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.features.sharing.card_facts import CardFacts
from bertkit.features.sharing.export import export_stock
from bertkit.features.sharing.kinds import write_files_of_others
from bertkit.features.sharing.model_card import hub_metric, is_as_recorded, main_metric, model_card, recorded_facts
from bertkit.model.checkpoint.encoders import BERT, head_of
from bertkit.model.checkpoint.load import load_config, load_model, load_tokenizer, save_tokenizer
from bertkit.recipe.files import read_recipe_file, to_yaml, without_paths
from bertkit.recipe.settings import HubSettings
from bertkit.runtime.errors import CheckpointError, HubError, RecipeError, shown
from bertkit.runtime.files import write_whole
from bertkit.runtime.progress import without_library_bars
from bertkit.tasks.checkpoints import own_head, task_of_checkpoint

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

EVAL_RESULTS = ".eval_results/bertkit.yaml"
"""Path in the repository of the score for a leaderboard."""

_RESULTS = ("all_results.json", "eval_results.json")
_REPORT, _FIGURES = "report.html", "figures"
_DEFAULT_SPLIT = "test"  # of a task in eval.yaml


def write_push(
    checkpoint: str, folder: Path, repo_id: str, settings: HubSettings, report: bool | None = None
) -> tuple[str, ...]:
    """Writes the files to push into a folder, and returns warnings.

    Args:
        checkpoint: the run directory or the folder of the checkpoint; it is only read.
        folder: an empty folder.
        repo_id: name of the repository in the model card.
        settings: form, licence and languages.
        report: push the report with its figures; ``None`` for ``hub.report`` of the run's recipe.

    Raises:
        CheckpointError: the checkpoint cannot be loaded, its outputs differ in this form, or its card is invalid.
        RecipeError: the checkpoint has no form of bertkit.
    """
    notes: list[str] = []
    if own_head(load_config(checkpoint, any_encoder=True), checkpoint) is not None:  # transformers has no such class
        settings = replace(settings, form="bertkit")
    if settings.form == "bert":
        notes += export_stock(checkpoint, folder)[2]
    else:
        _write_native(checkpoint, folder)
    source = Path(checkpoint)
    facts = recorded_facts(source)
    if facts is None:
        return (*notes, *_write_card(source, folder / "README.md", None, settings))
    facts = replace(
        facts,
        address=repo_id,
        is_stock=settings.form == "bert",
        license=settings.license or facts.license,
        language=tuple(settings.language) or facts.language,
        note=" ".join([facts.note, *(f"{note[:1].upper()}{note[1:]}." for note in notes)]).strip(),
    )
    blocks, _ = read_recipe_file(source / "recipe.yaml")
    write_whole(folder / "recipe.yaml", to_yaml(without_paths(blocks)))
    names = [name for name in _RESULTS if (source / name).is_file()]
    about_report: list[str] = []
    if (source / _REPORT).is_file() and (blocks.get("hub", {}).get("report", True) if report is None else report):
        names += [_REPORT, *sorted(f"{_FIGURES}/{path.name}" for path in (source / _FIGURES).glob("*.png"))]
        (folder / _FIGURES).mkdir()
        if facts.recipe.get("task", {}).get("kind") != "pretraining":
            about_report = [f"{_REPORT} shows texts of the scored rows; --no-report, or hub.report, leaves it out"]
    else:
        facts = replace(facts, report=None)
    for name in names:
        write_whole(folder / name, (source / name).read_bytes())
    return (*notes, *_write_card(source, folder / "README.md", facts, settings), *about_report)


def _write_native(checkpoint: str, folder: Path) -> None:
    """Writes bertkit's own form: the same weights, with the code of its classes."""
    config = load_config(checkpoint, any_encoder=True)
    own = own_head(config, checkpoint)
    if own is None and config.model_type not in BERT:
        raise RecipeError(
            f"--as bertkit: {checkpoint} is of type {config.model_type!r}, whose classes are not part of bertkit; give "
            "--as bert"
        )
    with without_library_bars():
        model, _ = load_model(own or head_of(config, checkpoint), checkpoint, config, new_head=False)
        model.save_pretrained(folder)
    save_tokenizer(load_tokenizer(checkpoint, config=config), folder)
    if getattr(config, "bertkit_task", None) is not None:
        write_files_of_others(task_of_checkpoint(config, checkpoint), config, folder)


def _write_card(source: Path, there: Path, facts: CardFacts | None, settings: HubSettings) -> list[str]:
    """Writes the model card, that of the run or one that the user has written or edited; returns warnings."""
    here = source / "README.md"
    try:
        card = here.read_text(encoding="utf-8-sig") if here.is_file() else None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{here}: not UTF-8 at byte {error.start}; convert it, then push again") from error
    given = [f"--{name}" for name in ("license", "language") if getattr(settings, name)]
    ignored = [f"{' and '.join(given)}: in no model card, since none was generated"] if given else []
    if card is not None and not is_as_recorded(source, card):
        notes = check_card(card, str(here), facts)
        write_whole(there, card)
        own = [f"{here} differs from the generated model card, so it is pushed as it is"] if facts is not None else []
        return [*own, *notes, *ignored]
    if facts is None:
        return [f"no model card: {source} contains no finished run and no README.md", *ignored]
    write_whole(there, model_card(facts))
    missing = [f"--{name}" for name in ("license", "language") if not getattr(facts, name)]
    return [f"the model card is incomplete; push again with {' and '.join(missing)}"] if missing else []


def check_card(card: str, name: str, facts: CardFacts | None) -> list[str]:
    """Checks the metadata of a card that a user has written or edited, as far as that is possible without the Hub.

    Args:
        card: its text.
        name: its path in messages.
        facts: facts of the run; ``None`` without a finished run.

    Returns:
        Warnings.

    Raises:
        CheckpointError: the metadata are no YAML or have results of another form, or a result for the split that the
            run was scored on is not the one that the run recorded; the message has all wrong results.
    """
    import yaml
    from huggingface_hub import ModelCard

    if not _has_metadata(card):
        return [f"{name} has no metadata (license, language, results) at its top"]
    try:
        results: list[EvalResult] = ModelCard(card).data.eval_results or []
    except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(
            f"{name}: its metadata, the lines between --- at the top, are not valid: {reason}; correct them, or remove "
            "the file to push the generated card"
        ) from error
    if faults := [fault for result in results if (fault := _find_fault(result, facts)) is not None]:
        raise CheckpointError(f"{name}: its metadata are not valid: {'; '.join(faults)}. Correct them, then push again")
    return []


def validate_card(card: str, name: str) -> None:
    """Lets the Hub check the metadata of a card, as a commit does, before a repository is created for it.

    Raises:
        CheckpointError: the Hub does not accept them.
    """
    from huggingface_hub import ModelCard

    if not _has_metadata(card):
        return
    try:
        ModelCard(card).validate()
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{name}: its metadata are not valid: {reason}. Correct them, then push again") from error


def _has_metadata(card: str) -> bool:
    """Returns whether a card has a block of metadata at its top."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    return REGEX_YAML_BLOCK.search(card) is not None


def _find_fault(result: EvalResult, facts: CardFacts | None) -> str | None:
    """Returns why a result of a card is wrong; ``None`` if it may be right, such as one for another split."""
    value, name = result.metric_value, result.metric_type
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= sys.float_info.max:
        return f"model-index: {name}: expected a finite number, got {shown(value)}"
    split = (result.dataset_type, result.dataset_config, result.dataset_split)
    if facts is None or not facts.covers_whole_split or split != facts.dataset:
        return None
    recorded = {hub_metric(key): score for key, score in facts.metrics.items() if key.startswith("eval_")}.get(name)
    if recorded is None:
        return None
    # The recorded score, or it in per cent, rounded to the digits that the value has; a share to two at least.
    digits = -int(Decimal(str(value)).as_tuple().exponent)
    for score in (recorded, 100 * recorded):
        if abs(value - score) <= 0.5 * 10.0 ** -(digits if abs(score) > 1 else max(digits, 2)) + 1e-9:
            return None
    has = f"has {recorded:.4f}" if math.isfinite(recorded) else "has it undefined"
    return f"model-index: {name} is {value:g}, but the run {has} (all_results.json)"


def benchmark_task(facts: CardFacts | None) -> str | None:
    """Returns the id of the task of a leaderboard that the recipe of a run names; None without one."""
    return None if facts is None else facts.recipe.get("hub", {}).get("benchmark_task")


def write_eval_results(source: Path, folder: Path) -> None:
    """Writes the score for the leaderboard of a benchmark, if the recipe of the run names its task."""
    facts = recorded_facts(source)
    task_id = benchmark_task(facts)
    if facts is not None and task_id is not None:
        (folder / EVAL_RESULTS).parent.mkdir()
        write_whole(folder / EVAL_RESULTS, eval_results(facts, task_id, main_metric(source)))


def eval_results(facts: CardFacts, task_id: str, metric: str | None) -> str:
    """Returns the content of the file, after a look at the ``eval.yaml`` of the scored data set on the Hub.

    Args:
        facts: facts of the run.
        task_id: id of a task in ``eval.yaml``.
        metric: the main score of the run, without ``eval_``; ``None`` if it has none, such as a pre-training.

    Raises:
        HubError: the run has no main score, or an undefined one, or was not scored on a whole split of a Hub data set,
            the data set is no benchmark, or its task is another one.
        HTTPError, OSError: the Hub cannot be reached.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    setting = f"hub.benchmark_task: {task_id}"
    if metric is None:
        raise HubError(f"{setting}: the run has no main score, as a pre-training has none; remove it")
    score = facts.metrics[f"eval_{metric}"]
    if not math.isfinite(score):
        raise HubError(f"{setting}: {metric} of the run is undefined; remove it")
    if facts.dataset is None or not facts.covers_whole_split:
        raise HubError(f"{setting}: the run was not scored on a whole split of a Hub data set; remove it")
    dataset, config, split = facts.dataset
    tasks = {str(task.get("id")): task for task in _read_tasks(dataset, setting)}
    if task_id not in tasks:
        raise HubError(
            f"{setting}: {dataset} has the tasks {', '.join(tasks) or 'none'}; give one of them, or remove it"
        )
    scored_on = str(tasks[task_id].get("config") or "default"), str(tasks[task_id].get("split") or _DEFAULT_SPLIT)
    if scored_on != (config, split):
        raise HubError(
            f"{setting}: this task of {dataset} is scored on {' '.join(scored_on)}, and the run on {config} {split}; "
            "remove it"
        )
    version = facts.versions.get("bertkit", "")
    entry = EvalResultEntry(
        dataset_id=dataset,
        task_id=task_id,
        value=round(score, 4),
        notes=" ".join(f"{metric}, one run of bertkit {version} with seed {facts.seed}".split()),
    )
    return yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False)


def _read_tasks(dataset: str, setting: str) -> list[dict[str, Any]]:
    import yaml
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import RemoteEntryNotFoundError

    try:
        path = hf_hub_download(dataset, "eval.yaml", repo_type="dataset")
    except RemoteEntryNotFoundError as error:
        raise HubError(f"{setting}: {dataset} is no benchmark of the Hub: it has no eval.yaml; remove it") from error
    try:
        with open(path, encoding="utf-8") as file:
            tasks = (yaml.safe_load(file) or {}).get("tasks") or []
        return [dict(task) for task in tasks]
    except (yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        raise HubError(f"{setting}: the eval.yaml of {dataset} cannot be read ({type(error).__name__})") from error
