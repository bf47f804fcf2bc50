"""What a fine-tuning task must provide: load → encode → (model) → decode → score.

Training, evaluation and prediction all call the same ``encode`` and ``decode``; there is no second preprocessing.
A module of this folder that defines ``TaskSettings``, ``DataSettings`` and ``TASK`` is a task: its name is what a
recipe's ``task.kind`` says.
"""

from __future__ import annotations

import dataclasses
import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bertkit.errors import CheckpointError, RecipeError

if TYPE_CHECKING:
    import numpy as np
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from bertkit.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class FineTuningData:
    """The part of a fine-tuning recipe's ``data`` block that all tasks share.

    Attributes:
        data_dir: folder with the data; ``None`` loads the set from the Hub.
        max_seq_length: tokens of one input with [CLS] and [SEP]; longer inputs are cut, and the cuts are counted.
        max_train_samples: keep only the first so many training examples.
        max_eval_samples: keep only the first so many validation examples. The test set stays whole: a leaderboard takes
            nothing else.
    """

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


@dataclass(frozen=True)
class Split:
    """One split of a data set.

    Attributes:
        examples: a row an example; the columns are the task's.
        source: the file or Hub set it came from, for messages and the model card.
        fingerprint: a digest of the content, for ``run.json``.
    """

    examples: Dataset
    source: str
    fingerprint: str


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


class Task(ABC):
    """A fine-tuning task.

    Attributes:
        kind: the module's name.
        head: the name of the model class in ``bertkit.model.modeling_bert``.
        pipeline_tag: the Hub's word for what the checkpoint does.
        main_metric: the key of `score` by which checkpoints are compared; larger is better.
    """

    kind: ClassVar[str]
    head: ClassVar[str]
    pipeline_tag: ClassVar[str]
    main_metric: str

    def __init__(self, task: Any, data: FineTuningData):
        self.task = task
        self.data = data

    @property
    @abstractmethod
    def name(self) -> str:
        """What the task is called in results and in the model card."""

    @property
    @abstractmethod
    def dataset(self) -> tuple[str, str, str] | None:
        """Hub id, configuration and the split that scores belong to; ``None`` for files of the user's own."""

    @property
    def model_inputs(self) -> tuple[str, ...]:
        """The columns of `encode` that the model takes."""
        return ("input_ids", "attention_mask", "token_type_ids")

    @abstractmethod
    def load(self, splits: Sequence[str] = ("train", "validation", "test")) -> dict[str, Split]:
        """Reads the splits named; one that the data set lacks is absent from the result.

        Raises:
            DataError: something is missing or wrong; the message names file and line.
        """

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Fields of ``BertConfig`` that follow from the task (``num_labels``, ``id2label``, …)."""

    @abstractmethod
    def encode(self, examples: Mapping[str, Sequence[Any]], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        """Turns columns of examples into model inputs, unpadded.

        Returns:
            ``input_ids``, ``attention_mask``, ``token_type_ids``; ``labels`` where the examples have them;
            ``length`` (tokens kept) and ``full_length`` (tokens before the cut).
        """

    @abstractmethod
    def decode(self, logits: np.ndarray) -> list[dict[str, Any]]:
        """Turns logits of N inputs into N predictions for people and files."""

    @abstractmethod
    def score(self, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        """The task's metrics, named as in the evaluate library."""

    @abstractmethod
    def read_input(self, lines: Sequence[str]) -> dict[str, list[str]]:
        """Turns lines that a user gives (one input each) into columns for `encode`."""

    @abstractmethod
    def line(self, prediction: Mapping[str, Any]) -> str:
        """One prediction of `decode` as a line for a terminal, without the input."""

    @abstractmethod
    def write_test_predictions(self, examples: Dataset, logits: np.ndarray, folder: Path) -> Path:
        """Writes the test set's predictions in the form its leaderboard takes; returns the file."""

    def encode_split(self, split: Split, tokenizer: PreTrainedTokenizerBase) -> tuple[Dataset, Truncation]:
        """`encode` over a whole split, and what was cut from it."""
        features = split.examples.map(
            lambda rows: self.encode(rows, tokenizer),
            batched=True,
            remove_columns=split.examples.column_names,
            keep_in_memory=True,
        )
        kept, full = (features.data.column(name).to_numpy() for name in ("length", "full_length"))
        cut = full - kept
        return features.remove_columns("full_length"), Truncation(
            int((cut > 0).sum()), int(cut.sum()), len(full), int(full.sum())
        )

    def describe(self) -> dict[str, Any]:
        """What `task_of` needs to build the task again; goes into the checkpoint's ``config.json``."""
        return {
            "kind": self.kind,
            "task": dataclasses.asdict(self.task),
            "data": {"max_seq_length": self.data.max_seq_length},
        }


def task_of_recipe(recipe: Recipe) -> Task:
    """The task that a fine-tuning recipe describes."""
    module = importlib.import_module(f"bertkit.tasks.{recipe.kind}")
    task: Task = module.TASK(recipe.task, recipe.data)
    return task


def task_of_checkpoint(config: Any, name: str, **data: Any) -> Task:
    """The task that a checkpoint was fine-tuned for.

    Args:
        config: the checkpoint's configuration, as loaded.
        name: what the user called the checkpoint, for messages.
        data: values of the ``data`` block that differ from training, such as ``data_dir``.

    Raises:
        CheckpointError: the checkpoint does not say what it was fine-tuned for.
    """
    recorded = getattr(config, "bertkit_task", None)
    if not recorded:
        made = ", ".join(config.architectures or ["nothing known"])
        raise CheckpointError(
            f"{name}: config.json does not say which task this checkpoint ({made}) was fine-tuned for; "
            "give a run directory that `bertkit finetune` wrote"
        )
    try:
        module = importlib.import_module(f"bertkit.tasks.{recorded['kind']}")
        settings = module.TaskSettings(**recorded["task"])
        length = recorded["data"]["max_seq_length"]
    except (ImportError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{name}: config.json names a task that this version of bertkit does not know ({error}); update bertkit"
        ) from error
    try:
        task: Task = module.TASK(settings, module.DataSettings(**{"max_seq_length": length, **data}))
    except ValueError as error:
        raise RecipeError(f"data.{error}") from error
    return task
