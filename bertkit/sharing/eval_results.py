"""``.eval_results`` of a model repository: a score that the Hub shows on the leaderboard of a benchmark.

The format is that of https://huggingface.co/docs/hub/eval-results. The data set has to be a benchmark: its
``eval.yaml`` lists tasks, each a configuration and a split. A push writes such a score only if the recipe of the run
names the task (``hub.benchmark_task``), since the Hub does not say which metric, in which unit, a leaderboard expects.
"""

from __future__ import annotations

from typing import Any

from bertkit.errors import HubError
from bertkit.sharing.card_facts import CardFacts
from bertkit.sharing.card_metadata import covers_whole_split

EVAL_RESULTS = ".eval_results/bertkit.yaml"
"""Path of the file in the repository."""

_DEFAULT_SPLIT = "test"  # of a task in eval.yaml


def eval_results(facts: CardFacts, task_id: str, metric: str | None) -> str:
    """Returns the content of the file, after a look at the ``eval.yaml`` of the scored data set on the Hub.

    Args:
        facts: facts of the run.
        task_id: id of a task in ``eval.yaml``.
        metric: the main score of the run, without ``eval_``; ``None`` if it has none, such as a pre-training.

    Raises:
        HubError: the run has no main score or was not scored on a whole split of a Hub data set, the data set is no
            benchmark, or its task is another one.
        HTTPError, OSError: the Hub cannot be reached.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    setting = f"hub.benchmark_task: {task_id}"
    if metric is None:
        raise HubError(f"{setting}: the run has no main score, as a pre-training has none; remove it")
    if facts.dataset is None or not covers_whole_split(facts):
        raise HubError(f"{setting}: the run was not scored on a whole split of a Hub data set; remove it")
    dataset, config, split = facts.dataset
    tasks = {str(task.get("id")): task for task in _tasks(dataset, setting)}
    if task_id not in tasks:
        raise HubError(
            f"{setting}: {dataset} has the tasks {', '.join(tasks) or 'none'}; give one of them, or remove it"
        )
    wanted = str(tasks[task_id].get("config") or "default"), str(tasks[task_id].get("split") or _DEFAULT_SPLIT)
    if wanted != (config, split):
        raise HubError(
            f"{setting}: this task of {dataset} is scored on {' '.join(wanted)}, and the run on {config} {split}; "
            "remove it"
        )
    version = facts.versions.get("bertkit", "")
    entry = EvalResultEntry(
        dataset_id=dataset,
        task_id=task_id,
        value=round(facts.metrics[f"eval_{metric}"], 4),
        notes=" ".join(f"{metric}, one run of bertkit {version} with seed {facts.seed}".split()),
    )
    return yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False)


def _tasks(dataset: str, setting: str) -> list[dict[str, Any]]:
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
