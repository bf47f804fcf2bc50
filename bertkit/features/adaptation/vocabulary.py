"""A tokenizer with more pieces: the old ids stay, the new ones follow."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertkit.features.adaptation.pieces import (
    NewPiece,
    UnigramSplitter,
    WordPieceSplitter,
    choose_merges,
    choose_pieces,
)
from bertkit.runtime.errors import CheckpointError, RecipeError
from bertkit.runtime.progress import Reached

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

_MORE_FOR_A_PIECE = 1e-4  # log-probability that a new piece of Unigram gains for each piece that it saves


@dataclass(frozen=True)
class Growth:
    """New pieces of a vocabulary, and the content of ``tokenizer.json`` with them.

    Attributes:
        pieces: the new pieces in the order of their ids.
        first_id: id of the first one.
        content: of the new ``tokenizer.json``.
    """

    pieces: Sequence[NewPiece]
    first_id: int
    content: Mapping[str, Any]

    @property
    def ids(self) -> dict[str, int]:
        """New piece → its id."""
        return {piece.text: self.first_id + place for place, piece in enumerate(self.pieces)}


def grow(
    tokenizer: PreTrainedTokenizerFast,
    words: Mapping[str, int],
    number: int,
    min_frequency: int,
    name: str,
    progress: Reached,
) -> Growth:
    """Chooses up to ``number`` pieces for the words, in the kind of vocabulary that a tokenizer has.

    Args:
        tokenizer: a WordPiece, byte-level BPE or Unigram tokenizer.
        words: of the corpus, from `count_words`.
        number, min_frequency, progress: as for `choose_pieces`.
        name: name of the checkpoint, for messages.

    Raises:
        CheckpointError: it is of another kind, or its ids would move.
        RecipeError: ``number`` is not more than the characters that WordPiece needs first.
    """
    backend = tokenizer.backend_tokenizer
    content = json.loads(backend.to_str())
    kind = content["model"].get("type")
    marks = [content["model"].get(field) for field in ("continuing_subword_prefix", "end_of_word_suffix")]
    if kind not in ("WordPiece", "BPE", "Unigram") or (kind == "BPE" and any(marks)):
        form = f"{kind} with marks of words" if any(marks) else kind
        raise CheckpointError(
            f"{name}: its vocabulary is of the type {form}; bertkit extends WordPiece, byte-level BPE and Unigram"
        )
    ids: dict[str, int] = tokenizer.get_vocab()
    first_id = max(ids.values()) + 1
    _bring_in_added_tokens(content, first_id, name)
    model = content["model"]
    if kind == "WordPiece":
        special = {token.content for token in backend.get_added_tokens_decoder().values()}
        pieces = _grow_word_piece(model, special, words, number, min_frequency, progress)
    elif kind == "BPE":
        pieces, merges = choose_merges(words, splitter_of(backend), model["vocab"], number, min_frequency, progress)
        model["merges"] += [list(pair) for pair in merges]
    else:
        pieces = _grow_unigram(model, splitter_of(backend), words, number, min_frequency, progress)
    growth = Growth(pieces, first_id, content)
    if isinstance(model["vocab"], dict):
        model["vocab"].update(growth.ids)
    return growth


def _bring_in_added_tokens(content: dict[str, Any], first_id: int, name: str) -> None:
    """Writes added tokens, such as [MASK], into the vocabulary of the model under the ids that they have.

    Added tokens that a vocabulary lacks are numbered after its last piece when it is loaded, so new pieces would move
    them.
    """
    vocabulary = content["model"]["vocab"]
    if isinstance(vocabulary, dict):
        for token in content["added_tokens"]:
            vocabulary.setdefault(token["content"], token["id"])
        return
    added = {token["id"]: token["content"] for token in content["added_tokens"]}
    lowest = min(score for _, score in vocabulary)
    for number in range(len(vocabulary), first_id):  # the id of a piece of Unigram is its place in the list
        if number not in added:
            raise CheckpointError(f"{name}: its tokenizer has no piece with the id {number}, so later ids would move")
        # No text is split into it: its characters alone are more probable.
        vocabulary.append([added[number], lowest * (len(added[number]) + 1)])


def _grow_word_piece(
    model: dict[str, Any], special: set[str], words: Mapping[str, int], number: int, least: int, progress: Reached
) -> list[NewPiece]:
    """Chooses pieces, first for the characters that occur within pieces only.

    Without these a new piece could leave the rest of a word without a piece, and the whole word would be unknown.
    Vocabularies of BERT have all.
    """
    prefix, unknown = model["continuing_subword_prefix"], model["unk_token"]
    splitter = WordPieceSplitter(model["vocab"], unknown, prefix, model["max_input_chars_per_word"])
    known = set(model["vocab"]) - special
    within = {
        character
        for piece in known
        for character in (piece.removeprefix(prefix) if piece.startswith(prefix) else piece[1:])
    }
    missing = sorted(character for character in within if prefix + character not in known)
    if len(missing) >= number:
        raise RecipeError(f"add: expected more than {len(missing)}, since as many single characters come first")
    first = [NewPiece(prefix + each, (each if each in known else unknown,)) for each in missing]
    splitter.added |= {piece.text for piece in first}
    chosen = choose_pieces(words, splitter, number - len(first), least, progress)
    # Words are split into the characters too, which are no pieces of the old vocabulary.
    parts_of = {piece.text: piece.parts for piece in first}
    chosen = [
        NewPiece(piece.text, tuple(old for part in piece.parts for old in parts_of.get(part, (part,))))
        for piece in chosen
    ]
    return first + chosen if chosen else []


def _grow_unigram(
    model: dict[str, Any],
    split: Callable[[str], list[str]],
    words: Mapping[str, int],
    number: int,
    least: int,
    progress: Reached,
) -> list[NewPiece]:
    """Chooses pieces, and adds them to the model with scores by which they are used."""
    scores = dict(model["vocab"])
    unknown = None if model["unk_id"] is None else model["vocab"][model["unk_id"]][0]
    splitter = UnigramSplitter(scores, unknown, split)
    pieces = choose_pieces(words, splitter, number, least, progress)
    for piece in pieces:
        score = sum(scores[part] for part in piece.parts) + _MORE_FOR_A_PIECE * (len(piece.parts) - 1)
        model["vocab"].append([piece.text, score])
    return pieces


def splitter_of(backend: Tokenizer) -> Callable[[str], list[str]]:
    """Returns the function that splits a word, as the pre-tokenizer writes it, into pieces of the vocabulary."""
    model, names = backend.model, {number: piece for piece, number in backend.get_vocab().items()}
    return lambda word: [names[token.id] for token in model.tokenize(word)]  # the value of an unknown piece is its text
