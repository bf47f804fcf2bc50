"""Blocks of the documentation from SCORES.json, what `scores.py` has measured: scores of both libraries."""

from __future__ import annotations

from typing import Any

from bertkit.runtime.markdown import table

SCORED = {
    "sst2": "SST-2, accuracy",
    "rte": "RTE, accuracy",
    "mrpc": "MRPC, mean of accuracy and F1",
    "stsb": "STS-B, mean of both correlations",
    "wnut17": "WNUT-17, entity F1",
    "conll2000-chunking": "CoNLL-2000 chunks, F1",
}
"""Task of ``scores.py`` → its name and score for readers."""
STOCK = "transformers' Trainer"


def section(results: dict[str, Any]) -> str:
    """Means and standard deviations of both libraries, one line for each task."""
    lines = []
    for name, task in of_tasks(results):
        decimals = decimals_of(task)
        cells = (
            f"{task[side]['mean']:.{decimals}f} ± {task[side]['sd']:.{decimals}f}" for side in ("stock", "bertkit")
        )
        lines.append([SCORED[name], *cells])
    commits: dict[str, list[str]] = {}
    for name, task in of_tasks(results):
        commits.setdefault(task["commit"], []).append(SCORED[name].partition(",")[0])
    of_commits = "; ".join(f"{commit}: {', '.join(names)}" for commit, names in commits.items())
    return f"{table(['', STOCK, 'bertkit'], lines)}\n\nMeasured with {of_commits}."


def decimals_of(task: dict[str, Any]) -> int:
    """Decimals of a score: of a share four, of per cent two."""
    return 2 if task["stock"]["mean"] > 1 else 4


def by_seed(results: dict[str, Any]) -> str:
    """Scores of each seed of both libraries, with the commands, machines and commits."""
    lines = []
    commands: dict[str, str] = {}
    for name, task in of_tasks(results):
        cells = [", ".join(task["bertkit"]["scores"])]
        decimals = decimals_of(task)
        for side in ("stock", "bertkit"):
            cells.append(" ".join(f"{score:.{decimals}f}" for score in task[side]["scores"].values()))
        lines.append([SCORED[name], *cells])
        machine = task["machine"]
        versions = f"torch {machine['torch']}, transformers {machine['transformers']}"
        commands[task["command"]] = f"{machine['cpu']}, {versions}; {task['commit']}, {task['date']}"
    measured = "\n".join(f"- `{command}`: {facts}." for command, facts in commands.items())
    return f"{table(['', 'seeds', STOCK, 'bertkit'], lines)}\n\n{measured}"


def of_tasks(results: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The tasks of SCORES.json in the order of `SCORED`."""
    return [(name, results["scores"][name]) for name in SCORED if name in results["scores"]]
