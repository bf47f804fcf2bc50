"""Numbers of epochs, evaluations and checkpoints of a run."""

from __future__ import annotations

import math

from bertkit.checks.subject import Subject

_CHECKPOINT = 3  # a checkpoint has the weights and the two moments of AdamW, in float32


def checkpoints(subject: Subject) -> int:
    """Returns the number of checkpoints that are on the disk at the same time."""
    arguments = subject.arguments
    assert arguments is not None
    number, limit = saves(subject), arguments.save_total_limit
    # The new checkpoint is complete before an old one is removed.
    return number if limit is None else min(number, limit + 1)


def saves(subject: Subject) -> int:
    """Returns the number of checkpoints that the run writes."""
    arguments = subject.arguments
    assert arguments is not None
    strategy = str(arguments.save_strategy.value)
    by_strategy = {"no": 0, "steps": _times(subject, arguments.save_steps), "best": evaluations(subject)}
    return by_strategy.get(strategy, epochs(subject))


def checkpoint_size(subject: Subject) -> int:
    """Returns the bytes of a checkpoint: the weights, and AdamW's moments of the trained ones."""
    parameters = list(subject.network.parameters())
    trained = sum(parameter.nbytes for parameter in parameters if parameter.requires_grad)
    return sum(parameter.nbytes for parameter in parameters) + (_CHECKPOINT - 1) * trained


def epochs(subject: Subject) -> int:
    """Returns the number of epochs that the run begins."""
    batch = subject.recipe.train["global_train_batch_size"]
    return max(1, math.ceil(subject.total_steps / max(1, -(-len(subject.trainer.train_dataset) // batch))))


def _times(subject: Subject, every: float) -> int:
    """Returns how often something happens every so many steps, or shares of all steps, and after the last step."""
    steps = subject.total_steps
    return math.ceil(steps / (every if every >= 1 else max(1, math.ceil(every * steps)))) if every else 1


def evaluations(subject: Subject) -> int:
    """Returns the number of evaluations during the training."""
    arguments = subject.arguments
    assert arguments is not None
    strategy = str(arguments.eval_strategy.value)
    if strategy == "no":
        return 0
    if strategy == "epoch":
        return epochs(subject)
    return _times(subject, arguments.eval_steps or arguments.logging_steps)


def held_out(subject: Subject) -> list[int]:
    """Returns the numbers of held-out examples of a pre-training, by phase."""
    most = subject.recipe.data.max_eval_samples or math.inf
    return [int(min(len(each) / subject.share_of_corpus, most)) for each in subject.trainer.eval_sets]
