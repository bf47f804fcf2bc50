"""``bertkit tokenizer swap``: another tokenizer for a checkpoint, such as that of another language.

Vocabularies mark words in other ways (see `bertkit.data.corpus.vocabulary.structure`), so pieces are compared by their
text and by whether they begin a word. For example, WordPiece's ``##en`` equals SentencePiece's ``en``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bertkit.data.corpus.sources import TextLines, find_sources
from bertkit.data.corpus.vocabulary.structure import BEGINNING, CONTINUATION, splits_by
from bertkit.features.adaptation.start import set_rows, start_of
from bertkit.features.adaptation.usage import Usage, readable_words, usage_of, usage_table
from bertkit.model.checkpoint.encoders import longest_input, positions_follow_padding
from bertkit.model.checkpoint.faults import check_tokenizer
from bertkit.model.checkpoint.load import load_tokenizer
from bertkit.runtime.errors import CheckpointError, DataError
from bertkit.runtime.files import new_folder
from bertkit.runtime.progress import counted, without_library_bars
from bertkit.tasks.ner.inputs import word_pieces

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_EXAMPLES, _MOST_PARTS = 8, 7  # averaged pieces that are shown; old pieces of one of them
_ROLES = ("cls_token", "sep_token", "pad_token", "mask_token", "unk_token", "bos_token", "eos_token")
# Field of a special token → field of the same role: the first and the last token of an input have either of two names.
_SPECIAL_IDS = {
    "pad_token_id": "pad_token_id",
    "cls_token_id": "bos_token_id",
    "sep_token_id": "eos_token_id",
    "bos_token_id": "cls_token_id",
    "eos_token_id": "sep_token_id",
}


@dataclass(frozen=True)
class Swap:
    """Result of `swap_tokenizer`.

    Attributes:
        folder: the new checkpoint.
        pieces: size of the new vocabulary.
        copied: number of pieces that the old vocabulary has, special tokens among them.
        averaged: number of pieces whose rows are means of the rows of their old pieces.
        unmatched: number of pieces without an old one; their rows are the mean of all.
        examples: some of the averaged pieces, each with its old pieces.
        before, after: how the old and the new tokenizer split the words of a corpus; None without one.
    """

    folder: Path
    pieces: int
    copied: int
    averaged: int
    unmatched: int
    examples: list[tuple[str, list[str]]]
    before: Usage | None
    after: Usage | None

    def record(self) -> dict[str, Any]:
        """Returns the content for JSON."""
        usages = {"before": self.before, "after": self.after}
        return {
            "output_dir": str(self.folder),
            **{name: getattr(self, name) for name in ("pieces", "copied", "averaged", "unmatched", "examples")},
            **{name: usage.record() for name, usage in usages.items() if usage is not None},
        }

    def lines(self) -> Iterator[str]:
        """Yields the lines for a terminal."""
        if self.before is not None and self.after is not None:
            yield from usage_table(self.before, self.after)
        for piece, parts in self.examples:
            yield f"  {piece} = {' '.join(parts)}"
        yield f"{counted(self.copied, 'piece')} copied, {self.averaged} as means of their old pieces"
        if self.unmatched:
            yield f"{self.unmatched} without any old piece, as the mean of all"
        yield f"{self.pieces} pieces: {self.folder}"


def swap_tokenizer(
    checkpoint: str | Path,
    tokenizer: str | Path,
    output_dir: str | Path,
    *,
    corpus: str | Path | Sequence[str | Path] = (),
    revision: str | None = None,
) -> Swap:
    """Replaces the vocabulary of a checkpoint by that of another tokenizer, and the rows of its weights for it.

    A piece that the old vocabulary has keeps its rows of the embedding matrix and of the output layer over the
    vocabulary; special tokens are matched by their role. The rows of any other piece are the means of the rows of the
    pieces that the old tokenizer splits its text into.

    Args:
        checkpoint: a run directory, a folder or a Hub id, with any head.
        tokenizer: a folder, such as that of `bertkit.train_tokenizer`, or a Hub id.
        output_dir: new or empty folder; a stock checkpoint, which transformers loads without bertkit.
        corpus: text files, folders, patterns and Hub ids, whose words both tokenizers split for the result.
        revision: branch, tag or commit of the checkpoint, if it is a Hub id.

    Returns:
        How many pieces have which rows, and how both tokenizers split the corpus.

    Raises:
        BertkitError: the checkpoint, the tokenizer or the corpus cannot be read, the two have the same vocabulary,
            positions would move, or the folder is in use; nothing is written.

    Examples:
        ```python
        bertkit.train_tokenizer(["field.txt"], 8000, "my-tokenizer")
        swap = bertkit.swap_tokenizer("my-bert", "my-tokenizer", "swapped")
        ```
    """
    start = start_of(checkpoint, revision, output_dir)
    old, new = start.tokenizer, load_tokenizer(str(tokenizer), for_pretraining=True)
    if old.get_vocab() == new.get_vocab():
        raise CheckpointError(f"{tokenizer}: {start.name} has this vocabulary already; nothing to swap")
    if positions_follow_padding(start.config) and new.pad_token_id != (padding := start.config.pad_token_id):
        raise CheckpointError(
            f"{tokenizer}: its padding token has the id {new.pad_token_id}, that of {start.name} {padding}; a "
            f"{start.config.model_type} counts positions from the id of the padding token, so they would move: give a "
            f"tokenizer whose padding token has the id {padding}, such as one of bertkit tokenizer train "
            "--tokenizer-type byte_level_bpe"
        )
    before = after = None
    if corpus:
        words = readable_words(Counter(chunk for text in TextLines(find_sources(corpus)) for chunk in text.split()))
        if not words:
            raise DataError("no words in the given text: it is empty, or has no letters and digits")
        before, after = usage_of(words, old), usage_of(words, new)
    sources = find_sources_of_pieces(new, old)
    new.model_max_length = longest_input(start.config)
    with new_folder(Path(output_dir)) as folder, without_library_bars():
        from bertkit.model.checkpoint.stock import write_stock

        model = start.model()
        set_rows(model, sources.ids)
        for name, other in _SPECIAL_IDS.items():
            if getattr(model.config, name, None) is not None:
                number = getattr(new, name)
                setattr(model.config, name, getattr(new, other) if number is None else number)
        check_tokenizer(new, model.config, str(tokenizer))
        write_stock(model, new, folder, start.name)
    several = [number for number, ids in enumerate(sources.ids) if 1 < len(ids) <= _MOST_PARTS][:_EXAMPLES]
    parts = [old.convert_ids_to_tokens(list(sources.ids[number])) for number in several]
    examples = list(zip(new.convert_ids_to_tokens(several), parts, strict=True))
    counts = (len(sources.ids), sources.copied, sources.averaged, sources.unmatched)
    return Swap(Path(output_dir), *counts, examples, before, after)


class Surface(NamedTuple):
    """Text that a piece stands for, and whether it begins a word.

    Attributes:
        text: its characters, without marks, so none of a mark alone; of other bytes the piece itself.
        begins: whether it begins a word; None for pieces without letters and digits, which are words of their own.
        is_text: False in a vocabulary of bytes for parts of a character, and blanks.
    """

    text: str
    begins: bool | None
    is_text: bool = True


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
    surface = _read_surfaces_by(old)
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
    new_surface = _read_surfaces_by(new)
    wanted = {number: new_surface(piece) for number, piece in pieces.items() if number not in of_roles}
    missing = sorted({each.text for each in wanted.values() if each.is_text and each not in by_surface})
    splits = dict(zip(missing, word_pieces([missing], old)[0], strict=True))
    old_surfaces = {number: surface(piece) for piece, number in old_ids.items()}
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
            is_text = number in wanted and wanted[number].is_text
            parts = [each for each in splits[wanted[number].text] if each not in special] if is_text else []
            if not any(old_surfaces[each].text for each in parts):  # only the mark of a word whose characters it lacks
                parts = []
            if parts and not wanted[number].begins:
                first = old_surfaces[parts[0]]._replace(begins=False)
                parts = [by_surface.get(first, parts[0]), *parts[1:]]
            unmatched += not parts
        ids.append(parts or ordinary)
    return Sources(ids, copied, unmatched)


def _read_surfaces_by(tokenizer: PreTrainedTokenizerFast) -> Callable[[str], Surface]:
    """Returns the function that reads the surface of a piece of a vocabulary."""
    from tokenizers import decoders

    backend = tokenizer.backend_tokenizer
    if splits_by(backend, "ByteLevel"):
        decoder = decoders.ByteLevel()

        def of_bytes(piece: str) -> Surface:
            text = decoder.decode([piece])
            if "\N{REPLACEMENT CHARACTER}" in text or not text.strip():
                return Surface(piece, None, is_text=False)
            return _make_surface(text.removeprefix(" "), text.startswith(" "))

        return of_bytes
    if splits_by(backend, "Metaspace"):
        return lambda piece: _make_surface(piece.removeprefix(BEGINNING), piece.startswith(BEGINNING))
    prefix = getattr(backend.model, "continuing_subword_prefix", None) or CONTINUATION
    return lambda piece: _make_surface(piece.removeprefix(prefix) or piece, not piece.startswith(prefix))


def _make_surface(text: str, begins: bool) -> Surface:
    return Surface(text, begins if any(map(str.isalnum, text)) else None)
