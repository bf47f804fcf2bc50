"""Settings of sequence labelling: the blocks ``task`` and ``data`` of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bertkit.data.tables import Table
from bertkit.metrics import MetricSettings
from bertkit.runtime.options import check_different, option, setting
from bertkit.tasks.ner import sentences
from bertkit.tasks.ner.schemes import Scheme, fault_of_labels, fault_of_tag
from bertkit.tasks.ner.spans import OffsetUnit
from bertkit.tasks.splits import WindowedData
from bertkit.tasks.table_data import TableData


@dataclass(frozen=True, kw_only=True)
class TaskSettings(MetricSettings):
    """Columns and tags. Values that are not set are derived from the training data and stored in the checkpoint."""

    name: str = setting("Name of the task in results.", default="ner")
    token_column: str | int | None = option(
        "Column of words or texts: a name, or in a column file a number from 1; by default a usual name, in a "
        "column file the first of words.",
        default=None,
    )
    tag_column: str | int | None = option(
        "Column of tags or spans: a name, or in a column file a number from 1; by default one with a usual "
        "name, in a column file the last.",
        default=None,
    )
    scheme: Scheme | None = setting(
        "Tagging scheme of the data; `null` detects it. The entity labels of the checkpoint are always IOB2.",
        default=None,
    )
    label_names: list[str] = setting(
        "The labels in the order of their ids, in IOB2 unless `scheme` is `plain`; an empty list uses those of "
        "the training data.",
        factory=list,
    )
    label_all_subwords: bool = option(
        "Train on every piece of a word instead of the first only; the other pieces of an entity are labelled "
        "as inside.",
        default=False,
        rare=True,
    )
    strict: bool = setting(
        "Score only entities that follow the rules of IOB2; by default tags are interpreted as by conlleval.",
        default=False,
    )

    def __post_init__(self) -> None:
        if self.token_column is not None and str(self.token_column) == str(self.tag_column):
            raise ValueError(f"tag_column: {self.tag_column} is the column of the tokens; give another")
        check_different("label_names", self.label_names)
        # Labels for entities of one word are enough, unless the other tokens of a word with B- get I-.
        is_checked = self.label_all_subwords or any(map(fault_of_tag, self.label_names))
        is_of_entities = self.label_names and self.scheme not in (None, "plain")
        if is_of_entities and is_checked and (fault := fault_of_labels(self.label_names)):
            raise ValueError(f"label_names: {fault}")


@dataclass(frozen=True, kw_only=True)
class DataSettings(TableData, WindowedData):
    """Sources of the sentences, and the context that the model reads."""

    kept: ClassVar[tuple[str, ...]] = (
        *WindowedData.kept,
        *TableData.kept,
        "context",
        "comment_prefix",
        "snap",
        "offset_unit",
    )

    train_file: str | None = option(
        "Sentences to train on: columns as in CoNLL, .jsonl, .json or .parquet, a table of one word per row, or a "
        "folder of brat.",
        default=None,
    )
    context: Literal["sentence", "document"] = option(
        "Read each sentence alone, or with neighbouring sentences of its document (BERT, section 5.3).",
        default="sentence",
        rare=True,
    )
    comment_prefix: str | None = option(
        "Start of comment lines in column files, such as `#` in CoNLL-U.", default=None, rare=True
    )
    snap: bool = option(
        "Extend spans that cut words to whole words, and count them; by default they are refused.",
        default=False,
        rare=True,
    )
    offset_unit: OffsetUnit = option(
        "What the offsets of spans count, in data and with `predict --as`: characters (code points), or UTF-16 code "
        "units.",
        default="character",
        rare=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_overlap()
        prefix = self.comment_prefix
        if prefix is not None and (not prefix.strip() or prefix != prefix.strip()):
            raise ValueError(f"comment_prefix: expected the start of comment lines, such as '#', got {prefix!r}")

    def _table(self, place: str) -> Table:
        if self.dataset_name is not None:
            return super()._table(place)
        return sentences.read_sentences(place, self.comment_prefix)
