"""The verdict on a run: what its scores say, in sentences of facts.

`sentences_on` makes them for the end of a run, its report and its model card: those on the predictions, which are
`bertkit.inference.outcome.TaskInference.facts`, and those on the test set and the losses of the training.
`bertkit.compare`, which reads predictions alone, has only the first. What to try next follows from them in
`bertkit.training.runs.evaluate`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.inference.facts import Facts
from bertkit.inference.outcome import Outcome
from bertkit.metrics import score_range
from bertkit.runtime.progress import counted, display_name

_FITS = 0.5  # of the validation loss, below which the training loss is that of a model that fits its examples
_LAST_LOSSES = 3  # of the training, whose mean is its loss at the end


@dataclass(frozen=True)
class Proposal:
    """A change of a run to try.

    Attributes:
        reason: what it is for, in a few words.
        command: the command of the task: ``classification``.
        options: the options that differ from the recipe of the run.
        suffix: end of the name of the new folder.
    """

    reason: str
    command: str
    options: tuple[str, ...]
    suffix: str = "2"

    def line(self, folder: Path | None = None) -> str:
        """Returns the command that tries it.

        Args:
            folder: the run directory; None for the working folder.
        """
        recipe, new = ("recipe.yaml", "NEW") if folder is None else (f"{folder}/recipe.yaml", f"{folder}-{self.suffix}")
        places = f"--recipe {shlex.quote(recipe)} --output-dir {shlex.quote(new)}"
        return f"bertkit finetune {self.command} {places} {' '.join(self.options)}"


@dataclass(frozen=True)
class Verdict:
    """What the scores of a run say.

    Attributes:
        sentences: facts, a sentence each.
        proposal: what to try next; None if the facts call for nothing.
    """

    sentences: tuple[str, ...] = ()
    proposal: Proposal | None = None

    def __str__(self) -> str:
        return "\n".join(self.sentences)


NO_VERDICT = Verdict()


def verdict_of(
    outcome: Outcome, history: Sequence[Mapping[str, Any]] = (), results: Mapping[str, float] | None = None
) -> Verdict:
    """Returns the verdict on the predictions of a model for the validation set of its run, without a proposal.

    Args:
        outcome: the outputs of the model.
        history: the entries that the Trainer logged, in order; none says nothing about the training.
        results: the results of the run, with those of a labelled test set; None says nothing about it.
    """
    return Verdict(sentences_on(outcome.facts(), outcome, history, results or {}))


def sentences_on(
    facts: Facts, outcome: Outcome, history: Sequence[Mapping[str, Any]], results: Mapping[str, float]
) -> tuple[str, ...]:
    """Returns the sentences of a verdict; the arguments are those of `verdict_of`, and the facts of its outcome."""
    copies = (f"{outcome.copies}.",) if facts.sentences and outcome.copies else ()
    return (*facts.sentences, *copies, *of_test_set(outcome, results), *sentence_on_losses(outcome, history))


def sentence_on_losses(outcome: Outcome, history: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the sentence of `sentence_if_falling` on the validation loss of a run whose score can still rise.

    A model that fits its training examples is left out: its validation loss falls as the learning rate does.
    """
    metric, losses = outcome.task.main_metric, dict[int, float]()
    names = {key.removeprefix("eval_") for entry in history for key in entry}
    values = [entry[f"eval_{metric}"] for entry in history if entry.get(f"eval_{metric}") is not None]
    if values and max(values) == score_range(metric, names)[1]:
        return []
    for entry in history:
        if entry.get("eval_loss") is not None:
            # The weights that a run keeps are evaluated once more in its last step.
            losses.setdefault(int(entry.get("step", len(losses))), float(entry["eval_loss"]))
    last = [float(entry["loss"]) for entry in history if entry.get("loss") is not None][-_LAST_LOSSES:]
    if last and losses and float(np.mean(last)) < _FITS * list(losses.values())[-1]:
        return []
    return sentence_if_falling(list(losses.values()))


def of_test_set(outcome: Outcome, results: Mapping[str, float]) -> list[str]:
    """Returns the sentence on the main score of the test set beside that of the validation set; none without labels.

    Args:
        outcome: the outputs for the validation set.
        results: ``eval_…`` and ``predict_…`` by name.
    """
    name = outcome.task.main_metric
    own, test = results.get(f"eval_{name}"), results.get(f"predict_{name}")
    if own is None or test is None:
        return []
    size = counted(int(results.get("predict_samples", 0)), "input", form=",")  # of which a long text has several
    line = f"On the test set of {size} the {display_name(name)} is {test:.4f}, and {own:.4f} on {outcome.scored}"
    interval = outcome.interval(name)
    if interval is not None and not interval[0] <= test <= interval[1]:
        line += "; the interval of the latter does not include the former"
    return [f"{line}."]


def sentence_if_falling(losses: Sequence[float]) -> list[str]:
    """Returns a sentence if the last of several validation losses is clearly the lowest; none otherwise.

    That is if it is at least 1 % lower than the one before, and this at least 5 % of the way that the loss has fallen.

    >>> sentence_if_falling([1.4, 1.13, 0.89])
    ['The validation loss still falls at the end, from 1.1300 to 0.8900: more epochs may give better scores.']
    """
    if len(losses) < 2 or not losses[-1] < min(losses[:-1]):
        return []
    drop = losses[-2] - losses[-1]
    if drop < 0.01 * losses[-2] or drop < 0.05 * (max(losses) - losses[-1]):
        return []
    return [
        f"The validation loss still falls at the end, from {losses[-2]:.4f} to {losses[-1]:.4f}: more epochs may give "
        "better scores."
    ]
