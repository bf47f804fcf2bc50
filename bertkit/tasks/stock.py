"""Tasks of checkpoints that record none, inferred from their heads: what these tasks share, and labels by name."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from bertkit.runtime.errors import CheckpointError, DataError, quoted
from bertkit.tasks.base import Task

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_NUMBERED = re.compile(r"LABEL_(\d+)")


class StockTask(Task):
    """Task of a checkpoint that does not record it.

    Attributes:
        assumptions: what was inferred, in words, for the line that is printed; the kind of the task is not among them.
    """

    assumptions: Sequence[str] = ()

    @classmethod
    @abstractmethod
    def of_config(cls, config: PreTrainedConfig, name: str, longest: int, data: Mapping[str, Any]) -> Self:
        """Infers the task from a configuration; the arguments are those of `stock_task`.

        Args:
            longest: tokens of the longest input that the model and the tokenizer take.
        """


def labels_of(config: PreTrainedConfig, name: str) -> list[str]:
    """Returns the names of a configuration's labels in the order of their ids, each name once.

    Raises:
        CheckpointError: ``id2label`` is empty or lacks an id, or two ids have the same name.
    """
    by_id = config.id2label or {}
    if not by_id:
        raise CheckpointError(f"{name}: config.json has no labels; get a complete copy of the checkpoint")
    if sorted(by_id) != list(range(len(by_id))):
        raise CheckpointError(
            f"{name}: id2label in config.json has the ids {', '.join(map(str, sorted(by_id)))}; expected 0 to "
            f"{len(by_id) - 1}; correct it in a copy of the checkpoint"
        )
    names = [str(by_id[number]) for number in range(len(by_id))]
    twice = sorted({label for label in names if names.count(label) > 1})
    if twice:
        raise CheckpointError(
            f"{name}: id2label in config.json has the name {twice[0]!r} more than once; give each label its own name "
            "in a copy of the checkpoint"
        )
    return names


def matched_names(given: Collection[str], known: Sequence[str], source: str) -> tuple[dict[str, str], str]:
    """Maps the labels of data to those of a checkpoint by name.

    The names are compared exactly; failing that, without regard to case if that leaves them distinct. Labels that the
    checkpoint only numbers, ``LABEL_0`` to ``LABEL_N``, are matched by number if those of the data are the whole
    numbers from 0. The data may lack some of the labels.

    Args:
        given: the distinct labels of the data, as text.
        known: labels of the checkpoint in the order of their ids.
        source: name of the data in messages.

    Returns:
        Label of the data → label of the checkpoint, and a note on how they were matched; empty for the same names.

    Raises:
        DataError: a label of the data is none of the checkpoint's; the message has both lists.

    >>> matched_names(["pos", "NEG"], ["Neg", "Pos"], "x.csv")
    ({'pos': 'Pos', 'NEG': 'Neg'}, 'labels matched without regard to case')
    >>> matched_names(["0", "1"], ["LABEL_0", "LABEL_1"], "x.csv")[0]
    {'0': 'LABEL_0', '1': 'LABEL_1'}
    """
    if set(given) <= set(known):
        return {name: name for name in given}, ""
    folded = {name.casefold(): name for name in known}
    if len(folded) == len(known) and len({name.casefold() for name in given}) == len(given):
        found = {name: folded[name.casefold()] for name in given if name.casefold() in folded}
        if len(found) == len(given):
            return found, "labels matched without regard to case"
    if all(_NUMBERED.fullmatch(name) for name in known):
        numbers = {str(int(name.removeprefix("LABEL_"))): name for name in known}
        if set(given) <= set(numbers):
            return {name: numbers[name] for name in given}, "labels matched by number, 0 is LABEL_0"
    raise DataError(
        f"{source}: the labels of the data and of the checkpoint differ\n"
        f"  data:       {quoted(sorted(given))}\n"
        f"  checkpoint: {quoted(known)}\n"
        "write the labels of the data as the checkpoint has them, or change id2label in a copy of its config.json"
    )
