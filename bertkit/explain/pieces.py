"""Pieces of a text: words → pieces of the vocabulary → ids, and the vectors that the encoder adds up at each position.

S tokens, H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.errors import DataError
from bertkit.explain.network import Network
from bertkit.progress import counted

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
            adds at each position. A family that encodes positions inside of its attention has none for them.
        left_out: tokens at the end that the model has no room for.
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
    left_out: int

    def batch(self, network: Network) -> dict[str, Tensor]:
        """Returns the model's inputs, (1, S) int64 each."""
        import torch

        columns = {"input_ids": self.ids, "attention_mask": np.ones_like(self.ids), "token_type_ids": self.segments}
        return network.on_device({name: torch.tensor(columns[name])[None] for name in network.inputs})

    def labels(self) -> list[str]:
        """Returns a name for each token: its characters in the text, or the special token."""
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
            rows.append(
                {
                    "position": position,
                    "token": token,
                    "id": int(self.ids[position]),
                    "segment": int(self.segments[position]),
                    "word": word.text if word is not None else "",
                    "mark": self._mark(position, word),
                    "lengths": {name: float(values[position]) for name, values in self.summands.items()},
                }
            )
        return rows

    def record(self) -> dict[str, Any]:
        """Returns the part as plain data."""
        return {"texts": list(self.texts), "tokens": self.rows(), "left_out": self.left_out}

    def _mark(self, position: int, word: Word | None) -> str:
        if word is None:
            return "special"
        if self.is_unknown[position]:
            return "unknown"
        return "cut" if word.end - word.start > 1 else ""

    def lines(self) -> list[str]:
        """Returns the part for a terminal."""
        cut = sum(word.end - word.start > 1 for word in self.words)
        counts = f"{counted(len(self.words), 'word')}, {counted(len(self.tokens), 'token')}"
        lines = [
            f"pieces: {' '.join(self.tokens)}",
            f"  {counts}; {cut} cut into pieces, {self.is_unknown.sum()} unknown",
        ]
        if self.left_out:
            lines.append(f"  {self.left_out} further tokens do not fit the model and are left out")
        return lines


def pieces_of(network: Network, texts: Sequence[str], name: str | None = None, with_summands: bool = True) -> Pieces:
    """Cuts a text, or two, into the pieces that the model reads.

    Args:
        network: its tokenizer is used.
        texts: one or two.
        name: name of the text in messages; its number by default.
        with_summands: also compute ``summands``.

    Raises:
        DataError: a text has no word.
    """
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise DataError(f"{name or f'text {number}'}: empty; give a text with at least one word")
    tokenizer = network.tokenizer
    whole = tokenizer(*texts, truncation=False, return_token_type_ids=True, verbose=False)
    encoded = tokenizer(
        *texts,
        truncation=True,
        max_length=network.longest,
        return_token_type_ids=True,
        return_offsets_mapping=True,
        verbose=False,
    )
    words, word_of = _words(texts, encoded)
    if not words:
        raise DataError(f"{name or 'text 1'}: the tokenizer leaves no word of it; give a text with at least one word")
    ids = np.array(encoded["input_ids"])
    tokens = tokenizer.convert_ids_to_tokens(ids.tolist())
    has_segments = "token_type_ids" in network.inputs
    pieces = Pieces(
        texts=tuple(texts),
        tokens=tokens,
        ids=ids,
        segments=np.array(encoded["token_type_ids"]) if has_segments else np.zeros_like(ids),
        is_special=word_of < 0,
        is_unknown=(ids == tokenizer.unk_token_id) & (word_of >= 0),
        words=words,
        word_of=word_of,
        summands={},
        left_out=len(whole["input_ids"]) - len(ids),
    )
    if with_summands:
        pieces.summands.update(_summands(network, pieces))
    return pieces


def _words(texts: Sequence[str], encoded: Any) -> tuple[list[Word], np.ndarray]:
    """Returns the words of an encoded text or pair, and the index of the word of each token."""
    words: list[Word] = []
    word_of: list[int] = []
    last: tuple[int, int] | None = None
    for position, (text, word) in enumerate(zip(encoded.sequence_ids(0), encoded.word_ids(0), strict=True)):
        if text is None or word is None:
            word_of.append(-1)
            last = None
            continue
        first = words[-1].start if (text, word) == last else position
        if (text, word) == last:
            words.pop()
        start, end = encoded["offset_mapping"][first][0], encoded["offset_mapping"][position][1]
        words.append(Word(texts[text][start:end].strip(), text, first, position + 1))
        word_of.append(len(words) - 1)
        last = (text, word)
    return words, np.array(word_of)


def _summands(network: Network, pieces: Pieces) -> dict[str, np.ndarray]:
    """Returns the lengths of the vectors that the embedding layers of the encoder give, by the name of the layer."""
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
    return lengths
