"""``bertkit tokenizer extend``: words of a corpus as new pieces of a checkpoint's vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.data.corpus.sources import TextLines, find_sources
from bertkit.data.corpus.vocabulary.structure import special_tokens
from bertkit.features.adaptation.pieces import NewPiece
from bertkit.features.adaptation.start import set_rows, start_of
from bertkit.features.adaptation.usage import Effect, Usage, count_words, effect_on, usage_of, usage_table
from bertkit.features.adaptation.vocabulary import Growth, grow, splitter_of
from bertkit.model.checkpoint.load import load_tokenizer, save_tokenizer
from bertkit.runtime.errors import CheckpointError, DataError, RecipeError
from bertkit.runtime.files import new_folder, write_json
from bertkit.runtime.progress import Bar, counted, without_library_bars

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from bertkit.model.checkpoint.stock import Comparison

_EXAMPLES = 8


@dataclass(frozen=True)
class Extension:
    """Result of `extend_tokenizer`.

    Attributes:
        folder: the new checkpoint.
        pieces: the new pieces in the order of their ids.
        first_id: id of the first one.
        before, after: how the old and the new tokenizer split the words of the corpus.
        effect: what the new pieces change in its length.
        comparison: difference of the outputs for texts of old ids.
    """

    folder: Path
    pieces: Sequence[NewPiece]
    first_id: int
    before: Usage
    after: Usage
    effect: Effect
    comparison: Comparison

    def record(self) -> dict[str, Any]:
        """Returns the content for JSON."""
        return {
            "output_dir": str(self.folder),
            "first_id": self.first_id,
            "pieces": [piece.text for piece in self.pieces],
            "before": self.before.record(),
            "after": self.after.record(),
            "effect": asdict(self.effect),
            "difference": self.comparison.difference,
        }

    def lines(self) -> Iterator[str]:
        """Yields the lines for a terminal."""
        effect = self.effect
        yield from usage_table(self.before, self.after)
        yield f"length of the text: {effect.before:,} → {effect.after:,} pieces, {effect.change:+.1%}"
        changes = f"{effect.changed / effect.words:.2%} of the words and punctuation marks have new pieces"
        if effect.not_shorter:
            changes += f", {effect.not_shorter / effect.words:.2%} without being shorter"
        yield changes
        for _, old, new in effect.examples:
            yield f"  {' '.join(old)} → {' '.join(new)}"
        yield f"other texts: the same ids; {self.comparison}"
        last_id = self.first_id + len(self.pieces) - 1
        yield f"{counted(len(self.pieces), 'piece')} added, ids {self.first_id} to {last_id}: {self.folder}"


def extend_tokenizer(
    checkpoint: str | Path,
    corpus: str | Path | Sequence[str | Path],
    output_dir: str | Path,
    *,
    add: int = 2000,
    min_frequency: int = 5,
    text_column: str = "text",
    dataset_config: str | None = None,
    dataset_split: str = "train",
    streaming: bool = False,
    revision: str | None = None,
) -> Extension:
    """Adds words and pieces of a corpus to the vocabulary of a checkpoint, and rows for them to its weights.

    The pieces are those that save the most pieces in the corpus. Their ids follow the old ones. Their rows of the
    embedding matrix, and of the output layer over the vocabulary where the checkpoint has one, are the means of the
    rows of the old pieces that they stand for. A text in which no new piece is used has the ids, and up to rounding the
    outputs, that it had before; this is checked on the corpus.

    Args:
        checkpoint: a run directory, a folder or a Hub id, with any head.
        corpus: text files, folders, patterns and Hub ids.
        output_dir: new or empty folder; a stock checkpoint, which transformers loads without bertkit.
        add: maximum number of new pieces, at least 1.
        min_frequency: minimum number of uses of a piece in the corpus, at least 1.
        text_column: the text column of rows.
        dataset_config, dataset_split, streaming: settings of Hub data sets.
        revision: branch, tag or commit of a Hub id.

    Returns:
        The new pieces, and what they change.

    Raises:
        BertkitError: the checkpoint or the corpus cannot be read, the corpus has nothing to add, ids would move, or the
            folder is in use; nothing is written.

    Examples:
        ```python
        extension = bertkit.extend_tokenizer("my-bert", ["field.txt"], "extended", add=5)
        bertkit.load("extended").fill_mask("a [MASK] film")
        ```
    """
    if add < 1 or min_frequency < 1:
        wrong = ("add", add) if add < 1 else ("min_frequency", min_frequency)
        raise RecipeError(f"{wrong[0]}: expected at least 1, got {wrong[1]}")
    start = start_of(checkpoint, revision, output_dir)
    name, tokenizer = start.name, start.tokenizer
    sources = find_sources(
        corpus,
        text_column=text_column,
        dataset_config=dataset_config,
        dataset_split=dataset_split,
        streaming=streaming,
    )
    words, plain = count_words(TextLines(sources), tokenizer.backend_tokenizer)
    if not words:
        raise DataError("no text to take words from: the given text is empty or only white space")
    with Bar("choosing pieces", "pieces") as progress:
        growth = grow(tokenizer, words, add, min_frequency, name, progress)
    if not growth.pieces:
        raise DataError(
            f"nothing to add: what {name} has no piece for occurs less than {min_frequency} times in this text; give "
            "more text, or a lower --min-frequency"
        )
    with new_folder(Path(output_dir)) as folder:
        extended = _write_tokenizer(tokenizer, growth, folder, name)
        effect = _measure_effect(words, tokenizer, extended, growth, name)
        with without_library_bars():
            comparison = _write_model(start.model(), tokenizer, extended, growth, folder, name)
    before, after = (usage_of(plain, each) for each in (tokenizer, extended))
    return Extension(Path(output_dir), growth.pieces, growth.first_id, before, after, effect, comparison)


def _write_tokenizer(
    tokenizer: PreTrainedTokenizerFast, growth: Growth, folder: Path, name: str
) -> PreTrainedTokenizerFast:
    """Writes the new tokenizer to a folder and loads it from there."""
    save_tokenizer(tokenizer, folder)
    write_json(folder / "tokenizer.json", growth.content)
    extended = load_tokenizer(folder)
    expected = {**tokenizer.get_vocab(), **growth.ids}
    ids = extended.get_vocab()
    moved = sorted(piece for piece in {*expected, *ids} if expected.get(piece) != ids.get(piece))
    if moved:
        raise CheckpointError(
            f"{name}: {moved[0]!r} would have the id {ids.get(moved[0])} in place of {expected.get(moved[0])}; this "
            f"{type(tokenizer).__name__} cannot be extended"
        )
    if any(special_tokens(tokenizer, pairs) != special_tokens(extended, pairs) for pairs in (False, True)):
        raise CheckpointError(f"{name}: the special tokens around a text would change; it cannot be extended")
    return extended


def _measure_effect(
    words: Mapping[str, int],
    tokenizer: PreTrainedTokenizerFast,
    extended: PreTrainedTokenizerFast,
    growth: Growth,
    name: str,
) -> Effect:
    """Returns the change in the length of the corpus; CheckpointError if a word without a new piece is split in another
    way than before."""
    before, after = (splitter_of(each.backend_tokenizer) for each in (tokenizer, extended))
    added = {piece.text for piece in growth.pieces}

    def split(word: str) -> list[str]:
        pieces = after(word)
        if added.isdisjoint(pieces) and pieces != before(word):
            raise CheckpointError(f"{name}: {word!r} would be split in another way than before; it cannot be extended")
        return pieces

    return effect_on(words, before, split, tokenizer.unk_token, _EXAMPLES)


def _write_model(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    extended: PreTrainedTokenizerFast,
    growth: Growth,
    folder: Path,
    name: str,
) -> Comparison:
    """Adds the rows, writes the checkpoint, and compares the outputs for old ids with those before."""
    from bertkit.model.checkpoint.stock import TOLERANCE, compare, comparison_inputs, torch_run, write_stock

    batches, old_size = comparison_inputs(tokenizer, model), model.config.vocab_size
    run = torch_run(model)
    before = [run(batch) for batch in batches]
    ids = tokenizer.get_vocab()
    set_rows(model, [[ids[part] for part in piece.parts] for piece in growth.pieces], growth.first_id, old_size)
    write_stock(model, extended, folder, name)
    outputs = iter(before)  # of one batch after the other

    def of_old_ids(values: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [each[..., : growth.first_id] for each in values]

    return compare(
        lambda batch: of_old_ids(next(outputs)), lambda batch: of_old_ids(run(batch)), batches, TOLERANCE, name
    )
