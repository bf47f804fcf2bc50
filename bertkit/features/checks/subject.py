"""The run that is checked: what it has prepared before its first step, its texts, and what rules know of its task."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import regex

from bertkit.metrics.entities import find_entities
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.recipe.load import Recipe
from bertkit.runtime.reading.text import iterating
from bertkit.tasks.base import texts_of
from bertkit.tasks.classification.text_classification import TextClassification
from bertkit.tasks.multiple_choice import MultipleChoiceTask
from bertkit.tasks.ner.task import NerTask
from bertkit.tasks.question_answering.task import QuestionAnsweringTask
from bertkit.tasks.registry import by_kind_of_task
from bertkit.tasks.splits import Columns, ColumnsOf, Split, Truncation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast, TrainingArguments

    from bertkit.data.corpus.sources import Source
    from bertkit.features.checks.sampling import Sample
    from bertkit.features.checks.trial import Trial
    from bertkit.runtime.placement.resolve import Placement
    from bertkit.tasks.base import Task
    from bertkit.tasks.pretraining import PretrainingCorpus
    from bertkit.training.pretraining.examples import RunExamples

_Result = TypeVar("_Result")

_SAMPLED_PARAGRAPHS, _SAMPLED_CHARACTERS = 20_000, 4_000_000  # of each source of a corpus
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"  # without spaces
_WORD = regex.compile(rf"[{_UNSPACED}]\p{{M}}*|[^\s{_UNSPACED}]+")


def words_of(text: str) -> list[str]:
    """Returns the words of a text: its parts between white space, and each character of a script without spaces.

    >>> words_of("A good film."), words_of("好看的 film。")
    (['A', 'good', 'film.'], ['好', '看', '的', 'film。'])
    """
    return text.split() if text.isascii() else _WORD.findall(text)


class Checked:
    """Properties of a kind of task for the rules of checks; another kind overrides those that differ.

    Attributes:
        relies_on_case: whether upper case usually distinguishes the labels, as it does for names.
        classifies_texts: whether a class is that of a text as a whole, or of a pair, so that their vectors tell it.
    """

    relies_on_case = False
    classifies_texts = True

    def __init__(self, task: Any):
        self.task = task

    def classes(self, examples: Columns) -> list[list[str]] | None:
        """Returns the names of the classes of each example, in order; ``None`` if there are no classes."""
        return None

    def spans(self, examples: Columns) -> list[list[tuple[str, int, int]]] | None:
        """Returns the labelled spans of the words in ``tokens`` of each example as (type, start, exclusive end)."""
        return None

    def lost_labels(self, features: Columns, examples: Columns) -> tuple[int, int] | None:
        """Counts the labels that no input of `Task.encode` contains, and all labels; ``None`` if all are kept."""
        return None


@by_kind_of_task
def checked(task: Task) -> Checked:
    """Returns what rules know of the kind of a task."""
    return Checked(task)


@checked.register(TextClassification)
class CheckedClassification(Checked):
    """Classes of one label or several; a regression has none."""

    def classes(self, examples: Columns) -> list[list[str]] | None:
        names, problem = self.task.settings.label_names, self.task.problem_type
        if "labels" not in examples or problem == "regression":
            return None
        if problem == "single_label_classification":
            return [[names[label]] if label >= 0 else [] for label in examples["labels"]]  # below 0: not in training
        return [[name for name, is_label in zip(names, row, strict=True) if is_label] for row in examples["labels"]]


@checked.register(MultipleChoiceTask)
class CheckedChoices(Checked):
    """The place of the right ending is the class."""

    classifies_texts = False

    def classes(self, examples: Columns) -> list[list[str]] | None:
        return [[f"ending {label}"] for label in examples["labels"]] if "labels" in examples else None


@checked.register(NerTask)
class CheckedTags(Checked):
    """Entities, or plain tags, which are no spans."""

    relies_on_case = True
    classifies_texts = False

    def _tags(self, examples: Columns) -> list[list[str]]:
        return [[self.task.settings.label_names[index] for index in labels] for labels in examples["labels"]]

    def spans(self, examples: Columns) -> list[list[tuple[str, int, int]]] | None:
        if "labels" not in examples or self.task.settings.scheme == "plain":
            return None
        return [list(find_entities(tags)) for tags in self._tags(examples)]

    def classes(self, examples: Columns) -> list[list[str]] | None:
        """Returns the types of the entities of each sentence; for plain tags the tags of its words."""
        if "labels" not in examples:
            return None
        spans = self.spans(examples)
        if spans is None:
            return self._tags(examples)
        return [[kind for kind, _, _ in of_sentence] for of_sentence in spans]


@checked.register(QuestionAnsweringTask)
class CheckedAnswers(Checked):
    """Answers, which windows may cut."""

    def lost_labels(self, features: Columns, examples: Columns) -> tuple[int, int] | None:
        """Counts the questions whose answer is in no window as a whole, and those that have an answer."""
        if "start_positions" not in features:
            return None
        owners, starts, cls = (np.asarray(features[name]) for name in ("example", "start_positions", "cls"))
        kept = np.unique(owners[(starts != cls) & (starts != IGNORE_INDEX)])
        answered = [row for row, answers in enumerate(examples["answers"]) if answers["text"]]
        return len(np.setdiff1d(answered, kept)), len(answered)


@dataclass(frozen=True)
class Texts:
    """Texts of a split, or a sample of the texts of a corpus.

    Attributes:
        name: the split, or the source of the corpus.
        columns: column → one text per example.
        place: returns the place of an example, counted from 0.
    """

    name: str
    columns: Mapping[str, list[str]]
    place: Callable[[int], str]

    def unique(self) -> Iterator[str]:
        """Yields each different text once, since questions share their contexts."""
        for texts in self.columns.values():
            yield from dict.fromkeys(texts)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yields the texts of each example."""
        return zip(*self.columns.values(), strict=True)


@dataclass(kw_only=True)
class Subject:
    """A run, prepared for its first step as far as possible; the parts that could not be prepared are ``None``.

    Attributes:
        recipe: the resolved recipe.
        output_dir: folder of the run; ``None`` if it is not checked.
        tokenizer, config: of the checkpoint, or of a new model.
        stored: configuration of the checkpoint as it is stored; ``None`` for new weights.
        placement, arguments, trainer: of the run.
        new_weights: names of the weights that are not in the checkpoint.
        task, splits, features, truncation: of fine-tuning; the last three by split.
        sources, corpora, examples: of pre-training.
        sample: the part of the corpus that they are; ``None`` if they are the whole.
        num_processes: number of processes of the run, which the check does not start.
        models: number of models that are trained: that of the run, and those of folds.
        trial: measured steps; ``None`` if none was made.
        check_labels: True to look for wrong labels.
    """

    recipe: Recipe
    output_dir: Path | None = None
    check_labels: bool | None = None
    # `Rule.needs` says which parts a rule reads, so the types need not say that they may be missing.
    tokenizer: PreTrainedTokenizerFast = None
    config: PreTrainedConfig = None
    stored: PreTrainedConfig = None
    placement: Placement = None  # type: ignore[assignment]
    arguments: TrainingArguments = None
    trainer: Any = None
    new_weights: Sequence[str] = ()
    task: Task = None  # type: ignore[assignment]
    splits: dict[str, Split] = None  # type: ignore[assignment]
    features: dict[str, Any] = None  # type: ignore[assignment]
    truncation: Mapping[str, Truncation] = None  # type: ignore[assignment]
    sources: list[Source] = None  # type: ignore[assignment]
    corpora: PretrainingCorpus = None  # type: ignore[assignment]
    examples: RunExamples = None  # type: ignore[assignment]
    sample: Sample | None = None
    num_processes: int = 1
    models: int = 1
    trial: Trial = None  # type: ignore[assignment]
    _computed: dict[Callable[[Subject], Any], Any] = field(default_factory=dict, init=False, repr=False)

    def once(self, compute: Callable[[Subject], _Result]) -> _Result:
        """Returns what a function computes from this subject; several rules that use it compute it once."""
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        found: _Result = self._computed[compute]
        return found

    @property
    def network(self) -> PreTrainedModel:
        """The model; only for rules that need ``trainer``."""
        model: PreTrainedModel = self.trainer.model
        return model

    @property
    def checkpoint(self) -> str | None:
        """Folder or Hub id of the checkpoint; ``None`` for new weights."""
        source = self.recipe.model.get("name_or_path")
        return None if source is None else str(source)

    @cached_property
    def texts(self) -> list[Texts]:
        """The texts of each split, or samples of the corpus; empty if the data cannot be read."""
        if self.splits is not None and self.task is not None:

            def place(name: str, split: Split, row: int) -> str:
                return f"{name} ({Path(split.source).name}, {split.place(row)})"

            return [
                Texts(name, texts_of(self.task, ColumnsOf(split.examples)), partial(place, name, split))
                for name, split in self.splits.items()
            ]
        return [texts for source in self.sources or () if (texts := self._read_beginning(source)) is not None]

    def _read_beginning(self, source: Source) -> Texts | None:
        """Reads the first paragraphs of a source; None if it has none."""
        paragraph_texts: list[str] = []
        size = 0
        with iterating(source.paragraphs(self.recipe.data.form())) as paragraphs:
            for paragraph in islice(paragraphs, _SAMPLED_PARAGRAPHS):
                paragraph_texts.append(paragraph.text)
                size += len(paragraph.text)
                if size > _SAMPLED_CHARACTERS:
                    break
        if not paragraph_texts:
            return None
        name = Path(source.name).name
        return Texts(name, {"text": paragraph_texts}, lambda row: f"{name}, paragraph {row + 1}")

    @cached_property
    def words(self) -> Counter[str]:
        """Number of occurrences of each word, as `words_of` finds them, in the different texts of the data."""
        return Counter(word for texts in self.texts for text in texts.unique() for word in words_of(text))

    @cached_property
    def classes(self) -> dict[str, list[list[str]]]:
        """Names of the classes of each example, by split; without splits that have no classes."""
        if self.task is None or self.splits is None:
            return {}
        kind = checked(self.task)
        by_split = {name: kind.classes(ColumnsOf(split.examples)) for name, split in self.splits.items()}
        return {name: classes for name, classes in by_split.items() if classes is not None}

    @property
    def share_of_corpus(self) -> float:
        """Share of the corpus of pre-training that is read, above 0; 1 for the whole."""
        return 1.0 if self.sample is None else self.sample.share

    @cached_property
    def total_steps(self) -> int:
        """Number of optimizer steps of the run; only for rules that need ``trainer``."""
        if self.arguments.max_steps > 0:
            return self.arguments.max_steps
        return max(1, math.ceil(self.arguments.num_train_epochs * self.steps_of_epoch))  # as transformers' Trainer

    @property
    def steps_of_epoch(self) -> int:
        """Number of optimizer steps of an epoch, at least 1; only for rules that need ``trainer``."""
        whole, left = divmod(len(self.trainer.train_dataset), self.recipe.train["global_train_batch_size"])
        return max(1, whole + (left > 0 and not self.recipe.train.get("dataloader_drop_last")))

    @property
    def passes(self) -> float | None:
        """Number of passes over the training data; ``None`` for a stream, whose length is unknown; only for rules that
        need ``trainer``."""
        if self.features is not None:
            return self.total_steps / self.steps_of_epoch
        if self.corpora.facts["streamed"]:
            return None
        batch = self.recipe.train["global_train_batch_size"]
        inputs = [part.examples_per_epoch / self.share_of_corpus for part in self.trainer.train_dataset.parts]
        steps = [phase.steps for phase in self.examples.phases]
        return sum(number * batch / max(of_epoch, 1) for number, of_epoch in zip(steps, inputs, strict=True))
