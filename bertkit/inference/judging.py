"""The verdict on the outputs of a model for labelled examples; `bertkit.inference.verdict` has its sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertkit.inference.predicted import Outcome, predicted
from bertkit.inference.verdict import Facts, Verdict, still_falls
from bertkit.metrics import score_range
from bertkit.runtime.progress import counted, display_name

_FITS = 0.5  # of the validation loss, below which the training loss is that of a model that fits its examples
_LAST_LOSSES = (
    3  # of the training, whose mean is its loss at the end  # of the training, whose mean is its loss at the end
)


def verdict_of(
    outcome: Outcome, history: Sequence[Mapping[str, Any]] = (), results: Mapping[str, float] | None = None
) -> Verdict:
    """Returns the verdict on the predictions of a model for the validation set of its run, without a proposal.

    Args:
        outcome: the outputs of the model.
        history: the entries that the Trainer logged, in order; none says nothing about the training.
        results: the results of the run, with those of a labelled test set; None says nothing about it.
    """
    facts = predicted(outcome.task).facts(outcome)
    return Verdict(sentences_on(facts, outcome, history, results or {}))


def sentences_on(
    facts: Facts, outcome: Outcome, history: Sequence[Mapping[str, Any]], results: Mapping[str, float]
) -> tuple[str, ...]:
    """Returns the sentences of a verdict; the arguments are those of `verdict_of`, and the facts of its outcome."""
    copies = (f"{outcome.copies}.",) if facts.sentences and outcome.copies else ()
    return (*facts.sentences, *copies, *of_test_set(outcome, results), *loss_still_falls(outcome, history))


def loss_still_falls(outcome: Outcome, history: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the sentence of `still_falls` on the validation loss of a run whose score can still rise.

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
    return still_falls(list(losses.values()))


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
    size = counted(int(results.get("predict_samples", 0)), "example", form=",")
    line = f"On the test set of {size} the {display_name(name)} is {test:.4f}, on {outcome.scored} {own:.4f}"
    sides = outcome.predictions_and_references()
    interval = predicted(outcome.task).interval(name, *sides, texts=outcome.same_texts)
    if interval is not None and not interval[0] <= test <= interval[1]:
        line += ", whose interval does not include it: the two sets probably differ"
    return [f"{line}."]
