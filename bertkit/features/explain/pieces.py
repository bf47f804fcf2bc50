"""Pieces of a text: words → pieces of the vocabulary → ids, and the vectors that the encoder adds up at each position.

S tokens, H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from numbers import Integral
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.features.explain.network import Network
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.runtime.progress import counted
from bertkit.tasks.windows import ends_with_marks, windows

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Word:
    """A word as the tokenizer splits texts into words, before it cuts them into pieces.

    Attributes:
        text: its characters in the text.
        segment: number of its text, 0 or 1.
        start, end: its tokens are ``start:end``.
    """

    text: str
    segment: int
    start: int
    end: int


@dataclass(frozen=True)
class Pieces:
    """A text, or a pair, as the encoder reads it.

    Attributes:
        texts: one or two.
        tokens: S pieces of the vocabulary, special tokens among them.
        ids: (S,) int64.
        segments: (S,) int64, token types; zeros where the model has none.
        is_special: (S,) bool.
        is_unknown: (S,) bool, pieces that stand for characters which the vocabulary lacks.
        words: in order; special tokens are no words.
        word_of: (S,) int64, index into ``words``; -1 for special tokens.
        summands: name of an embedding, such as ``position_embeddings`` → (S,) float32, length of the vector that it
            adds at each position. A family that encodes positions inside of its attention has none for them, one that
            pads its inputs none at all.
        left_out: number of tokens that are not read, as the input is longer than the model or its task reads.
        window: number of the window of a long text, from 0.
        windows: their number; 1 for a text that fits.
    """

    texts: tuple[str, ...]
    tokens: list[str]
    ids: np.ndarray
    segments: np.ndarray
    is_special: np.ndarray
    is_unknown: np.ndarray
    words: list[Word]
    word_of: np.ndarray
    summands: dict[str, np.ndarray]
    left_out: int = 0
    window: int = 0
    windows: int = 1

    @property
    def note(self) -> str:
        """Sentence on what is not shown of a text that is too long; empty for one that fits."""
        if self.windows > 1:
            return (
                f"the text is read in {self.windows} windows, numbered from 0; this is window {self.window}, from "
                f"“{self.words[0].text}” to “{self.words[-1].text}”; --window shows another"
            )
        return f"{counted(len(self.tokens), 'token')} read, {self.left_out} more left out" if self.left_out else ""

    def batch(self, network: Network) -> dict[str, Tensor]:
        """Returns the model's inputs, (1, S) int64 each."""
        import torch

        columns = {"input_ids": self.ids, "attention_mask": np.ones_like(self.ids), "token_type_ids": self.segments}
        return network.on_device({name: torch.tensor(columns[name])[None] for name in network.inputs})

    def labels(self) -> list[str]:
        """Returns a name for each token: the word that it is, as in the text; else the special token, or the piece."""
        names = []
        for token, word in zip(self.tokens, self.word_of.tolist(), strict=True):
            whole = word >= 0 and self.words[word].end - self.words[word].start == 1
            names.append(self.words[word].text if whole else token)
        return names

    def rows(self) -> list[dict[str, Any]]:
        """Returns a row for each token: ``position``, ``token``, ``id``, ``segment``, ``word``, ``mark`` and
        ``lengths``."""
        rows = []
        for position, token in enumerate(self.tokens):
            word = self.words[self.word_of[position]] if self.word_of[position] >= 0 else None
            mark = "special" if word is None else "unknown" if self.is_unknown[position] else ""
            if word is not None and not mark and word.end - word.start > 1:
                mark = "cut"
            rows.append(
                {
                    "position": position,
                    "token": token,
                    "id": int(self.ids[position]),
                    "segment": int(self.segments[position]),
                    "word": word.text if word is not None else "",
                    "mark": mark,
                    "lengths": {name: float(values[position]) for name, values in self.summands.items()},
                }
            )
        return rows

    def record(self) -> dict[str, Any]:
        """Returns the part as plain data."""
        which = {"left_out": self.left_out, "window": self.window, "windows": self.windows}
        return {"texts": list(self.texts), "tokens": self.rows(), **which}

    def lines(self) -> list[str]:
        """Returns the part for a terminal."""
        cut = sum(word.end - word.start > 1 for word in self.words)
        counts = f"{counted(len(self.words), 'word')}, {counted(len(self.tokens), 'token')}"
        lines = [
            f"pieces: {' '.join(self.tokens)}",
            f"  {counts}; {cut} cut into pieces, {self.is_unknown.sum()} unknown",
        ]
        return [*lines, f"  {self.note}"] if self.note else lines


def pieces_of(network: Network, texts: Sequence[str], name: str | None = None, window: int | None = None) -> Pieces:
    """Cuts a text, or two, into the pieces that the model reads; without ``summands``.

    Args:
        network: its tokenizer is used.
        texts: one or two.
        name: name of the text in messages; its number by default.
        window: number of the window of a single text that is too long. Without it, and where the task reads no
            windows, the end is cut.

    Raises:
        DataError: a text is empty, or the tokenizer leaves no word of any.
        RecipeError: there is no such window.
    """
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise DataError(f"{name or f'text {number}'}: empty; give a text with at least one word")
    options = {"return_token_type_ids": True, "return_offsets_mapping": True, "verbose": False}
    whole = encoded = network.tokenizer(*texts, truncation=False, **options)
    length = len(whole["input_ids"])
    parts: list[Sequence[int]] = [range(length)]
    if length > network.longest:
        if window is not None and len(texts) == 1 and network.overlap is not None:
            is_own = [owner == 0 for owner in whole.sequence_ids(0)]
            begin, end = is_own.index(True), length - is_own[::-1].index(True)
            around = length - (end - begin)  # special tokens, which each window has
            parts = [
                [*range(begin), *range(begin + start, begin + stop), *range(end, length)]
                for start, stop in windows(end - begin, network.longest - around, network.overlap)
            ]
        else:
            encoded = network.tokenizer(*texts, truncation=True, max_length=network.longest, **options)
            parts = [range(len(encoded["input_ids"]))]
    number = number_of_window(window, len(parts))
    owners, of_words, offsets = encoded.sequence_ids(0), encoded.word_ids(0), encoded["offset_mapping"]
    words = []
    for segment, text in enumerate(texts):
        own = [(at, token) for at, token in enumerate(parts[number]) if owners[token] == segment]
        tokens = [token for _, token in own]
        first = own[0][0] if own else 0
        words += words_at(
            text, segment, [of_words[token] for token in tokens], [offsets[token] for token in tokens], first
        )
    if not words:
        raise DataError(f"{name or 'text 1'}: the tokenizer leaves no word of it; give a text with at least one word")
    ids, segments = ([encoded[key][token] for token in parts[number]] for key in ("input_ids", "token_type_ids"))
    left_out = length - len(encoded["input_ids"])
    return pieces_with(network, texts, ids, segments, words, left_out, number, len(parts))


def number_of_window(window: int | None, count: int, default: int = 0) -> int:
    """Returns the number of a window, or the default without one; RecipeError if there is no such window."""
    if window is not None and not (isinstance(window, Integral) and 0 <= window < count):
        raise RecipeError(f"window {window!r}: the input has {counted(count, 'window')}, numbered from 0")
    return default if window is None else int(window)


def words_at(
    text: str, segment: int, word_ids: Sequence[int | None], offsets: Sequence[tuple[int, int]], first: int
) -> list[Word]:
    """Returns the words of neighbouring tokens of a text.

    Args:
        text: the text.
        segment: its number, 0 or 1.
        word_ids: for each token the number of its word, None for none, as the tokenizers library has them.
        offsets: for each token its characters in the text.
        first: position of the first token in the input.
    """
    words = []
    begins, ends = [begin for begin, _ in offsets], ends_with_marks(text, offsets)
    places = range(first, first + len(offsets))
    for word, group in groupby(zip(places, word_ids, begins, ends, strict=True), key=itemgetter(1)):
        tokens = list(group)
        if word is not None:
            (start, _, begin, _), (last, _, _, end) = tokens[0], tokens[-1]
            words.append(Word(text[begin:end].strip(), segment, start, last + 1))
    return words


def pieces_with(
    network: Network,
    texts: Sequence[str],
    ids: Sequence[int],
    segments: Sequence[int],
    words: list[Word],
    left_out: int = 0,
    window: int = 0,
    windows: int = 1,
) -> Pieces:
    """Returns the pieces of an input whose ids and words are known; without ``summands``."""
    tokenizer = network.tokenizer
    own = np.array(ids)
    word_of = np.full(len(own), -1)
    for number, word in enumerate(words):
        word_of[word.start : word.end] = number
    return Pieces(
        texts=tuple(texts),
        tokens=tokenizer.convert_ids_to_tokens(own.tolist()),
        ids=own,
        segments=np.array(segments) if "token_type_ids" in network.inputs else np.zeros_like(own),
        is_special=word_of < 0,
        is_unknown=(own == tokenizer.unk_token_id) & (word_of >= 0),
        words=words,
        word_of=word_of,
        summands={},
        left_out=left_out,
        window=window,
        windows=windows,
    )


def with_summands(network: Network, pieces: Pieces) -> Pieces:
    """Returns the pieces with the lengths of the vectors that the embedding layers of the encoder give and add up."""
    import torch
    from torch import nn

    lengths: dict[str, np.ndarray] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Tensor) -> None:
            values = output.detach().float().reshape(-1, output.shape[-1]).norm(dim=-1)
            if len(values) == len(pieces.ids):
                lengths[name] = values.cpu().numpy()

        return hook

    embeddings = getattr(network.model.base_model, "embeddings", network.model.base_model)
    with ExitStack() as hooks, torch.inference_mode():
        for name, module in embeddings.named_modules():
            if isinstance(module, nn.Embedding):
                hooks.enter_context(module.register_forward_hook(keep(name.rpartition(".")[2])))
        network.model.base_model(**pieces.batch(network))
    return replace(pieces, summands=lengths)
