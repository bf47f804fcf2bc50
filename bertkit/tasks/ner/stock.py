"""Token classification with stock checkpoints: their labels, and raw text as their tokenizers split it.

Raw text is tokenized as a whole, as in transformers' pipeline, since most of these checkpoints were trained on text in
which punctuation follows a word without a space. Words of a table or of columns are tokenized one by one, as in
training with bertkit.

Dimension letters: T tokens of a text, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np

from bertkit.metrics.entities import OUTSIDE, PREFIXES, find_entities, is_entity_tag, split_tag
from bertkit.runtime.errors import DataError, shown
from bertkit.runtime.progress import counted
from bertkit.tasks.base import Outputs, one_array, softmax
from bertkit.tasks.ner.inputs import split_words
from bertkit.tasks.ner.schemes import Scheme, detect_scheme, in_usual_form, iob2_labels, joined_tag, to_iob2
from bertkit.tasks.ner.sentences import place_of_word
from bertkit.tasks.ner.settings import DataSettings, TaskSettings
from bertkit.tasks.ner.task import NerTask, Sentences
from bertkit.tasks.splits import Columns, Split
from bertkit.tasks.stock import StockTask, labels_of, matched_names
from bertkit.tasks.windows import encode_in_windows, most_context, stripped

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

    from bertkit.data.tables import Table

Aggregation = Literal["none", "simple", "first", "average", "max"]
"""Strategies of transformers' pipeline by which labels of tokens become labels of words."""

_LONGEST = 512  # tokens of a window, at most: longer texts are read in several


@dataclass(frozen=True, kw_only=True)
class StockDataSettings(DataSettings):
    """Sources of the sentences, and the treatment of raw text.

    Attributes:
        aggregation: how the labels of tokens become entities: ``first``, ``average`` and ``max`` give every word one
            label, from its first token, the mean of its tokens' probabilities, or its most certain token; ``simple``
            joins tokens of one type; ``none`` returns each token with its label, but those of ``O``.
    """

    aggregation: Aggregation = "first"


class StockNer(StockTask, NerTask):
    """Token classification by a checkpoint that does not record its columns and scheme.

    Labels with prefixes (``B-PER``), and types beside ``O``, are entities; other labels are plain tags of words. Entity
    tags of any scheme are scored as IOB2.
    """

    data_settings = StockDataSettings
    data: StockDataSettings
    _own_labels: Sequence[str] = ()  # as tags of entities, or plain ones
    _names: Sequence[str] = ()  # of the labels of single tokens: types without a prefix stay as they are

    @classmethod
    def of_config(cls, config: PreTrainedConfig, name: str, longest: int, data: Mapping[str, Any]) -> Self:
        """Infers the task from a configuration, see `bertkit.tasks.checkpoints.stock_task`."""
        labels = labels_of(config, name)
        tags = _entity_tags(labels)
        scheme: Scheme = "plain" if tags is None else "IOB2"
        settings = TaskSettings(scheme=scheme, label_names=labels if tags is None else iob2_labels(tags))
        task = cls(settings, StockDataSettings(**{"max_seq_length": min(longest, _LONGEST), **data}))
        task._own_labels = labels if tags is None else tags
        keep_names = all(tag in (label, f"I-{label}") for label, tag in zip(labels, task._own_labels, strict=True))
        task._names = labels if keep_names else task._own_labels
        kinds = len({split_tag(tag)[1] for tag in tags or () if tag != OUTSIDE})
        forms = in_usual_form(labels) if tags is not None else {}
        task.assumptions = (
            f"{len(labels)} plain tags" if tags is None else f"entities of {counted(kinds, 'type')}",
            *[f"labels such as {label!r} read as {form!r}" for label, form in forms.items() if label != form][:1],
            f"aggregation {task.data.aggregation}",
            f"windows of {task.data.max_seq_length} tokens",
        )
        return task

    @property
    def model_labels(self) -> Sequence[str]:
        return self._names

    def _split_of(self, name: str, of_split: Sentences) -> Split:
        """Builds the examples, with the tags under the names of the checkpoint."""
        table, _, tags, form = of_split
        if tags is None:
            return super()._split_of(name, of_split)
        tag_names = {tag for of_sentence in tags for tag in of_sentence}
        if self._plain:
            names, note = matched_names(tag_names, self.settings.label_names, table.source)
        else:
            wrong = sorted(tag for tag in tag_names if not is_entity_tag(tag))
            if wrong and all(split_tag(tag)[0] in ("I", OUTSIDE) for tag in self._own_labels):
                # Types beside O, as the labels of the checkpoint: see `_entity_tags`.
                tags = [[f"I-{tag}" if tag in wrong else tag for tag in of_sentence] for of_sentence in tags]
                tag_names = {tag for of_sentence in tags for tag in of_sentence}
                form = f"tags such as {shown(wrong[0])} are read as {shown(f'I-{wrong[0]}')}"
            elif wrong:
                matched_names(wrong, self.settings.label_names, table.source)  # raises unless only their case differs
                raise DataError(f"{table.source}: {wrong[0]!r} is no tag of an entity; write it as the checkpoint does")
            types = sorted({split_tag(tag)[1] for tag in tag_names - {OUTSIDE}})
            known = list(dict.fromkeys(split_tag(tag)[1] for tag in self.settings.label_names if tag != OUTSIDE))
            known_types, note = matched_names(types, known, table.source)
            parts = {tag: split_tag(tag) for tag in tag_names - {OUTSIDE}}
            names = {tag: joined_tag(prefix, known_types[kind]) for tag, (prefix, kind) in parts.items()}
            names[OUTSIDE] = OUTSIDE
        renamed = [[names[tag] for tag in of_sentence] for of_sentence in tags]
        scheme = "plain" if self._plain else detect_scheme(renamed, partial(place_of_word, table))
        task = self if scheme == "plain" else self.with_settings(scheme=scheme)  # that of the data, which is converted
        notes = "; ".join(filter(None, (form, note)))
        return NerTask._split_of(task, name, of_split._replace(tags=renamed, form=notes))

    # ---- encode -----------------------------------------------------------------------------------------------------

    def columns_of(self, table: Table) -> dict[str, list[Any]]:
        columns = super().columns_of(table)
        if "text" not in columns and self.data.aggregation != StockDataSettings.aggregation:
            raise DataError(
                f"{table.source}: has words, and each gets the label of its first token; aggregation "
                f"{self.data.aggregation} is for raw texts, remove it"
            )
        return columns

    def read_input(self, lines: Sequence[str], first: int = 1) -> dict[str, list[Any]]:
        """Keeps raw texts whole."""
        return {"text": list(lines)}

    def encode(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        """Encodes words as `NerTask.encode`, and raw texts in windows.

        For raw texts a row has the ``positions`` of the tokens that are read from it, their characters ``starts`` and
        ``ends``, and whether each ``begins`` a word.
        """
        if "text" not in examples:
            return super().encode(examples, tokenizer)
        names = ("input_ids", "attention_mask", "token_type_ids")
        features: dict[str, list[Any]] = {
            name: [] for name in (*names, "example", "length", "full_length", "positions", "starts", "ends", "begins")
        }
        texts = list(examples["text"])
        encoded = encode_in_windows(texts, tokenizer, self.data.max_seq_length, self.data.overlap)
        for example, (text, windowed) in enumerate(zip(texts, encoded, strict=True)):
            owner = most_context(windowed.windows)
            ids = np.zeros(len(owner), np.int64)
            for (start, end), inputs in zip(windowed.windows, windowed.inputs, strict=True):
                before = windowed.special_tokens_before
                ids[start:end] = inputs["input_ids"][before : before + end - start]
            begins = word_starts(text, ids, windowed.offsets, tokenizer)
            for number, ((start, _), inputs) in enumerate(zip(windowed.windows, windowed.inputs, strict=True)):
                own = np.flatnonzero(owner == number)
                for name in names:
                    features[name].append(inputs[name])
                features["example"].append(example)
                features["length"].append(len(inputs["input_ids"]))
                features["positions"].append((own - start + windowed.special_tokens_before).tolist())
                features["starts"].append(windowed.offsets[own, 0].tolist())
                features["ends"].append(windowed.offsets[own, 1].tolist())
                features["begins"].append(begins[own].tolist())
        features["full_length"] = features["length"]
        return features

    # ---- decode → score ---------------------------------------------------------------------------------------------

    def decode(self, outputs: Outputs, features: Columns, examples: Columns) -> list[dict[str, Any]]:
        """Returns predictions in the form of `NerTask.decode`; a probability is that of a token or a word, and of an
        entity the mean over them."""
        if "text" not in examples:
            of_words = self.word_probabilities(outputs, features, examples)
            return [
                {"tags": self._tags_of(rows.argmax(axis=-1)), "probabilities": rows.max(axis=-1, initial=0).tolist()}
                for rows in of_words
            ]
        predictions = []
        for text, units in zip(examples["text"], self.units(outputs, features, examples), strict=True):
            names = [self._names[unit.label] for unit in units]
            spans = [(name, n, n + 1) for n, name in enumerate(names) if self._plain or name != OUTSIDE]
            if not self._plain and self.data.aggregation != "none":
                spans = [*find_entities([self._own_labels[unit.label] for unit in units])]
            borders = [unit.start for unit in units], [unit.end for unit in units]
            predictions.append(self._in_text(text, spans, *borders, np.array([unit.probability for unit in units])))
        return predictions

    def units(self, outputs: Outputs, features: Columns, examples: Columns) -> list[list[Unit]]:
        """Returns the tokens of each raw text, or its words, with their labels, by the aggregation of the data."""
        logits = one_array(outputs)
        rows: list[list[int]] = [[] for _ in examples["text"]]
        for row, example in enumerate(features["example"]):
            rows[example].append(row)
        units = []
        for text, of_text in zip(examples["text"], rows, strict=True):
            probabilities = np.concatenate([softmax(logits[row][features["positions"][row]]) for row in of_text])
            starts, ends, begins = (
                [value for row in of_text for value in features[name][row]] for name in ("starts", "ends", "begins")
            )
            units.append(units_of(text, probabilities, starts, ends, begins, self.data.aggregation))
        return units

    def predictions_and_references(
        self, outputs: Outputs, features: Columns, examples: Columns
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        predicted, references = super().predictions_and_references(outputs, features, examples)
        ids = {name: number for number, name in enumerate(self.settings.label_names)}
        return [np.array([ids[tag] for tag in self._tags_of(labels)]) for labels in predicted], references

    def _tags_of(self, labels: np.ndarray) -> list[str]:
        """Returns the tags of words, given the model's labels (words,): plain, or in IOB2."""
        tags = [self._own_labels[label] for label in labels]
        return tags if self._plain else to_iob2(tags)


def _entity_tags(labels: Sequence[str]) -> list[str] | None:
    """Returns the labels as entity tags, in the same order; None if they are plain tags.

    Types without prefixes beside ``O`` become ``I-TYPE``; labels without a prefix beside others with one, such as
    ``[PAD]``, are no entities. Prefixes alone, such as ``B``, are tags of a type without a name. Tags of other forms
    are read as in training, see `in_usual_form`.

    >>> _entity_tags(["O", "PER"]), _entity_tags(["B-PER", "I-PER", "[PAD]"]), _entity_tags(["NOUN", "VERB"])
    (['O', 'I-PER'], ['B-PER', 'I-PER', 'O'], None)
    >>> _entity_tags(["o", "b-per"]), _entity_tags(["PER-B", "PER-I", "O"])
    (['O', 'B-per'], ['B-PER', 'I-PER', 'O'])
    >>> _entity_tags(["O", "B", "I"])
    ['O', 'B', 'I']
    """
    forms = in_usual_form(labels)
    labels = [forms.get(label, label) for label in labels]
    if "B" in labels and {*labels} <= {OUTSIDE, *PREFIXES}:
        return labels
    prefixed = [label for label in labels if label[:2] in {f"{prefix}-" for prefix in PREFIXES} and len(label) > 2]
    if prefixed:
        return [label if label in prefixed else OUTSIDE for label in labels]
    return [label if label == OUTSIDE else f"I-{label}" for label in labels] if OUTSIDE in labels else None


# ---- tokens and words of raw text -----------------------------------------------------------------------------------


class Unit(NamedTuple):
    """A token or a word with its label.

    Attributes:
        label: id of the most probable label.
        probability: probability of this label, in [0, 1].
        start, end: characters in the text, without white space at either end; ``end`` is exclusive.
    """

    label: int
    probability: float
    start: int
    end: int


def word_starts(text: str, ids: np.ndarray, offsets: np.ndarray, tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """Returns for each token of a text whether it begins a word, (T,) bool.

    Where the tokenizer marks the pieces that continue a word (``##`` of WordPiece), its marks decide, as in
    transformers' pipeline. Other tokenizers mark spaces only; then a word is one of `split_words`, so that
    a full stop is not part of the word before it. The pipeline separates words by spaces there.

    Args:
        text: the text.
        ids, offsets: (T,) and (T, 2) int64, ids and characters of its tokens.
        tokenizer: the tokenizer.
    """
    if not len(ids):
        return np.zeros(0, bool)
    prefix = getattr(tokenizer.backend_tokenizer.model, "continuing_subword_prefix", None)
    if prefix:
        pieces = tokenizer.convert_ids_to_tokens(ids.tolist())
        return np.array([not piece.startswith(prefix) for piece in pieces])
    word_of = np.full(len(text) + 1, -1)
    for number, word in enumerate(split_words(text)):
        word_of[word.start : word.end] = number
    starts = [stripped(text, start, end)[0] for start, end in offsets.tolist()]
    words = word_of[starts]
    return np.append(True, (words[1:] != words[:-1]) | (words[1:] < 0))


def units_of(
    text: str,
    probabilities: np.ndarray,
    starts: Sequence[int],
    ends: Sequence[int],
    begins: Sequence[bool],
    aggregation: Aggregation,
) -> list[Unit]:
    """Returns the tokens of a text, or its words, with their labels.

    Args:
        text: the text.
        probabilities: (T, C) of its tokens.
        starts, ends: characters of the tokens.
        begins: whether each token begins a word, from `word_starts`.
        aggregation: ``none`` and ``simple`` return tokens, the others words, with the probabilities of their first
            token, of the token that is most certain of a label (``max``), or the mean over their tokens.
    """
    # Some tokenizers count the space before a token, and the lone \u2581 of SentencePiece is white space alone.
    ranges = [stripped(text, start, end) for start, end in zip(starts, ends, strict=True)]
    groups: list[list[int]] = []
    for token in range(len(ranges)):
        if aggregation in ("none", "simple") or begins[token] or not groups:
            groups.append([token])
        else:
            groups[-1].append(token)
    units = []
    for group in groups:
        rows = probabilities[group]
        if aggregation == "average":
            row = rows.mean(axis=0)
        else:
            row = rows[rows.max(axis=1).argmax() if aggregation == "max" else 0]
        label = int(row.argmax())
        units.append(Unit(label, float(row[label]), ranges[group[0]][0], ranges[group[-1]][1]))
    return units
