"""Pieces of one vocabulary that stand for those of another.

Vocabularies mark words in other ways (see `bertkit.data.corpus.vocabulary.structure`), so pieces are compared by their
text
and by whether they begin a word: ``##en`` of WordPiece is ``en`` of SentencePiece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bertkit.data.corpus.vocabulary.structure import BEGINNING, CONTINUATION, splits_by
from bertkit.tasks.ner.inputs import word_pieces

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_ROLES = ("cls_token", "sep_token", "pad_token", "mask_token", "unk_token", "bos_token", "eos_token")


class Surface(NamedTuple):
    """What a piece stands for in a text.

    Attributes:
        text: its characters, without marks; for an incomplete character the piece itself.
        begins: whether it begins a word; None for pieces without letters and digits, which are words of their own.
    """

    text: str
    begins: bool | None


@dataclass(frozen=True)
class Sources:
    """Old ids for each new id.

    Attributes:
        ids: old ids of each new id, in the order of the new ones; several stand for their mean.
        copied: number of new pieces that the old vocabulary has, special tokens among them.
        unmatched: number of new pieces without any old one; their ``ids`` are all ordinary ones.
    """

    ids: Sequence[Sequence[int]]
    copied: int
    unmatched: int

    @property
    def averaged(self) -> int:
        """Number of new pieces that stand for several old ones, or for one of another form."""
        return len(self.ids) - self.copied - self.unmatched


def find_sources_of_pieces(new: PreTrainedTokenizerFast, old: PreTrainedTokenizerFast) -> Sources:
    """Finds the old pieces of each piece of a new vocabulary.

    A special token has that of the same role. Another piece has the old piece of the same surface, or the old pieces
    that the old tokenizer splits its text into.
    """
    old_ids = old.get_vocab()
    special = {*old.all_special_ids}
    surface = _surface_by(old)
    by_surface: dict[Surface, int] = {}
    for piece, number in sorted(old_ids.items(), key=lambda item: item[1]):  # "," comes before "▁,"
        if number not in special:
            by_surface.setdefault(surface(piece), number)
    of_roles = {
        getattr(new, f"{role}_id"): getattr(old, f"{role}_id")
        for role in reversed(_ROLES)
        if getattr(new, f"{role}_id") is not None and getattr(old, f"{role}_id") is not None
    }
    pieces = {number: piece for piece, number in new.get_vocab().items()}
    new_surface = _surface_by(new)
    wanted = {number: new_surface(piece) for number, piece in pieces.items() if number not in of_roles}
    missing = sorted({each.text for each in wanted.values() if each not in by_surface})
    splits = dict(zip(missing, word_pieces([missing], old)[0], strict=True))
    names = {number: surface(piece) for piece, number in old_ids.items()}
    ordinary = sorted(set(old_ids.values()) - special)
    ids: list[Sequence[int]] = []
    copied = unmatched = 0
    for number in range(max(pieces) + 1):
        if number in of_roles:
            parts: Sequence[int] = [of_roles[number]]
            copied += 1
        elif wanted.get(number) in by_surface:
            parts = [by_surface[wanted[number]]]
            copied += 1
        else:
            parts = [each for each in splits[wanted[number].text] if each not in special] if number in wanted else []
            if parts and not wanted[number].begins:
                first = names[parts[0]]._replace(begins=False)
                parts = [by_surface.get(first, parts[0]), *parts[1:]]
            unmatched += not parts
        ids.append(parts or ordinary)
    return Sources(ids, copied, unmatched)


def _surface_by(tokenizer: PreTrainedTokenizerFast) -> Callable[[str], Surface]:
    """Returns the function that reads the surface of a piece of a vocabulary."""
    from tokenizers import decoders

    backend = tokenizer.backend_tokenizer
    if splits_by(backend, "ByteLevel"):
        decoder = decoders.ByteLevel()

        def of_bytes(piece: str) -> Surface:
            text = decoder.decode([piece])
            if "\N{REPLACEMENT CHARACTER}" in text:
                return Surface(piece, None)
            return _surface(text.removeprefix(" "), text.startswith(" ")) if text.strip() else Surface(piece, None)

        return of_bytes
    if splits_by(backend, "Metaspace"):
        return lambda piece: _surface(piece.removeprefix(BEGINNING), piece.startswith(BEGINNING))
    prefix = getattr(backend.model, "continuing_subword_prefix", None) or CONTINUATION
    return lambda piece: _surface(piece.removeprefix(prefix) or piece, not piece.startswith(prefix))


def _surface(text: str, begins: bool) -> Surface:
    return Surface(text, begins if any(map(str.isalnum, text)) else None)
