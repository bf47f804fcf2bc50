"""Settings of sequence labelling: the blocks ``task`` and ``data`` of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from bertkit.tables import Table
from bertkit.tasks.ner import sentences
from bertkit.tasks.ner.schemes import Scheme
from bertkit.tasks.ner.spans import OffsetUnit
from bertkit.tasks.splits import WindowedData
from bertkit.tasks.table_data import TableData


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """Columns and tags. Values that are not set are derived from the training data and stored in the checkpoint.

    Attributes:
        name: name of the task in results.
        token_column, tag_column: column name, or in column files column number from 1; ``None`` looks for usual names,
            and takes the first and the last column in column files.
        scheme: tagging scheme of the data; ``None`` detects it. The entity labels of the checkpoint are always IOB2.
        label_names: the labels in the order of their ids, in IOB2 unless ``scheme`` is ``plain``; an empty list uses
            those of the training data.
        label_all_subwords: train on every piece of a word instead of the first only; the other pieces of an entity are
            labelled as inside.
        strict: score only entities that follow the rules of IOB2; by default tags are interpreted as by conlleval.
    """

    name: str = "ner"
    token_column: str | int | None = None
    tag_column: str | int | None = None
    scheme: Scheme | None = None
    label_names: list[str] = field(default_factory=list)
    label_all_subwords: bool = False
    strict: bool = False

    def __post_init__(self) -> None:
        if self.token_column is not None and str(self.token_column) == str(self.tag_column):
            raise ValueError(f"tag_column: {self.tag_column} is the column of the tokens; give another")
        if len(set(self.label_names)) < len(self.label_names):
            raise ValueError(f"label_names: expected each name once, got {', '.join(self.label_names)}")


@dataclass(frozen=True, kw_only=True)
class DataSettings(TableData, WindowedData):
    """Sources of the sentences, and the context that the model reads.

    Attributes:
        context: ``document`` extends each input with neighbouring sentences of the same document (BERT §5.3: "the
            maximal document context provided by the data").
        comment_prefix: start of comment lines in column files, such as ``#``; see `bertkit.tasks.ner.conll.read_conll`.
        snap: extend spans that cut words to whole words, and count them; otherwise they are refused.
        offset_unit: what the offsets of spans count, in data and in predictions: characters (code points), or UTF-16
            code units.
    """

    kept: ClassVar[tuple[str, ...]] = (
        *WindowedData.kept,
        *TableData.kept,
        "context",
        "comment_prefix",
        "snap",
        "offset_unit",
    )

    context: Literal["sentence", "document"] = "sentence"
    comment_prefix: str | None = None
    snap: bool = False
    offset_unit: OffsetUnit = "character"

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
