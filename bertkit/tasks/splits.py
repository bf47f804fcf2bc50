"""The examples of a fine-tuning task: the settings that all tasks share, and the splits of a set."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from datasets import Dataset

Columns = Mapping[str, Sequence[Any]]
"""Name → a value a row: examples, or the inputs that `Task.encode` makes of them."""


def is_scored(name: str) -> bool:
    """Whether a run scores the split of this name: ``validation``, ``validation_mm``, …"""
    return name.startswith("validation")


def is_labelled(name: str) -> bool:
    """Whether the split of this name must have labels: those that are trained on or scored."""
    return name == "train" or is_scored(name)


@dataclass(frozen=True, kw_only=True)
class FineTuningData:
    """The part of a fine-tuning recipe's ``data`` block that all tasks share.

    Attributes:
        paths: (of the class) the fields that hold a file or a folder; in ``recipe.yaml`` they are absolute.
        kept: (of the class) the fields that a checkpoint keeps, since its predictions depend on them.
        data_dir: folder with the data; ``None`` loads the set from the Hub.
        max_seq_length: tokens of one input with [CLS] and [SEP]; longer inputs are cut, and the cuts are counted.
        max_train_samples: keep only the first so many training examples.
        max_eval_samples: keep only the first so many validation examples. The test set stays whole: a leaderboard takes
            nothing else.
    """

    paths: ClassVar[tuple[str, ...]] = ("data_dir",)
    kept: ClassVar[tuple[str, ...]] = ("max_seq_length",)

    data_dir: str | None = None
    max_seq_length: int = 128
    max_train_samples: int | None = None
    max_eval_samples: int | None = None

    def __post_init__(self) -> None:
        if self.max_seq_length < 3:
            raise ValueError(f"max_seq_length: {self.max_seq_length} leaves no room beside [CLS] and [SEP]")
        for name in ("max_train_samples", "max_eval_samples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: {value} is not at least 1")

    def limited(self, name: str, split: Split) -> Split:
        """The split with as many examples as the settings keep of one of its name."""
        if name == "train":
            return split.first(self.max_train_samples)
        return split.first(self.max_eval_samples) if is_scored(name) else split


@dataclass(frozen=True, kw_only=True)
class WindowedData(FineTuningData):
    """The same, where a text of more than ``max_seq_length`` tokens can be read in overlapping windows.

    Attributes:
        stride: tokens that neighbouring windows share; ``None`` is a quarter of ``max_seq_length``.
    """

    kept: ClassVar[tuple[str, ...]] = (*FineTuningData.kept, "stride")

    stride: int | None = None

    @property
    def overlap(self) -> int:
        """Tokens that neighbouring windows share."""
        return self.max_seq_length // 4 if self.stride is None else self.stride

    def check_overlap(self) -> None:
        """Refuses windows that share all that they have room for.

        Raises:
            ValueError: they do; the message begins with the name of the setting.
        """
        if not 0 <= self.overlap < self.max_seq_length - 2:
            raise ValueError(
                f"stride: windows of {self.max_seq_length} tokens, [CLS] and [SEP] among them, cannot share "
                f"{self.overlap}; expected 0 to {self.max_seq_length - 3}"
            )


@dataclass(frozen=True)
class Split:
    """One split of a data set.

    Attributes:
        examples: a row an example; the columns are the task's.
        source: the file or Hub set it came from, for messages and the model card.
        fingerprint: a digest of the content, for ``run.json``.
        notes: what is unusual about it, in words; said and recorded.
    """

    examples: Dataset
    source: str
    fingerprint: str
    notes: tuple[str, ...] = ()

    def first(self, limit: int | None) -> Split:
        """The split with only its first ``limit`` examples; ``None`` keeps all."""
        if limit is None or limit >= len(self.examples):
            return self
        return dataclasses.replace(self, examples=self.examples.select(range(limit)))


class ColumnsOf(Columns):
    """The columns of a data set, each read whole when it is asked for."""

    def __init__(self, rows: Dataset):
        self._rows = rows

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._rows.column_names:
            raise KeyError(name)
        values: list[Any] = self._rows[name][:]
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows.column_names)

    def __len__(self) -> int:
        return len(self._rows.column_names)


@dataclass(frozen=True)
class Truncation:
    """What ``max_seq_length`` cut from one split.

    Attributes:
        examples: inputs that were cut.
        tokens: tokens that were lost.
        of_examples, of_tokens: inputs and tokens before the cut.
    """

    examples: int
    tokens: int
    of_examples: int
    of_tokens: int

    def __str__(self) -> str:
        if not self.examples:
            return "nothing cut"
        share = 100 * self.examples / self.of_examples
        return f"{self.examples} of {self.of_examples} inputs cut ({share:.1f} %), {self.tokens} tokens lost"
