"""Sources of text → a `TokenStore` on disk, built once for each combination of text, tokenizer and rules."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.data.corpus.sentences import RULES_VERSION, split_sentences
from bertkit.data.corpus.store.encoding import EncodedBatch, SentenceEncoder, Splitter, batch_paragraphs, encode_batches
from bertkit.data.corpus.store.parts import write_manifest, write_parts
from bertkit.data.corpus.store.token_store import FORMAT, TokenStore, intact_store
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.runtime.files import new_folder, remove_unfinished
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import Reached

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from bertkit.data.corpus.documents import DocumentForm, Paragraph
    from bertkit.data.corpus.sources import Source

_SMALL_CORPUS = 4 << 20  # bytes; a smaller corpus is done about as soon as worker processes have started


def build_token_store(
    sources: Sequence[Source],
    form: DocumentForm,
    tokenizer: PreTrainedTokenizerFast,
    splitter: Splitter = split_sentences,
    *,
    cache_dir: str | Path,
    num_workers: int = 1,
    progress: Reached | None = None,
) -> TokenStore:
    """Returns the token store of ``sources``; builds it unless ``cache_dir`` already has it.

    The key of a store is the fingerprints of the sources in their order (of a file its path, size and time), the
    tokenizer, ``form`` and the splitter; ``num_workers`` does not matter. A store is written to a temporary folder and
    renamed when complete, so a killed build never leaves a partial store; its temporary folder is removed by the next
    build. A damaged store is built again. Memory does not grow with the corpus; the build needs the disk space of the
    store and of one more part.

    Special tokens are neither added nor recognized: "[MASK]" in a file is tokenized as plain text.

    Args:
        sources: from `find_sources`.
        form: rules that split their text into documents.
        tokenizer: a fast tokenizer; its truncation and padding settings are neither used nor changed.
        splitter: paragraph → sentences; not used with ``form.sentence_per_line``.
        cache_dir: folder of the stores; created if missing.
        num_workers: number of processes that split and tokenize; 1 for the current process only, which also processes
            every corpus below 4 MiB.
        progress: called as ``progress(done_bytes, total_bytes)`` during tokenization; in the last call both are equal.
            Not called if the store exists or the size of a source is unknown.

    Raises:
        DataError: as raised by the sources; or none of them has text.
        OutputError: the store cannot be written.
        PlacementError: as `encode_batches`.
        RecipeError: as `splitter_id`.
    """
    encode = SentenceEncoder(tokenizer, None if form.sentence_per_line else splitter)
    origin = store_origin(sources, form, encode, splitter)
    key = origin_key(origin)
    place = Path(cache_dir) / key
    if place.exists() and (store := intact_store(place)) is not None:
        return store
    remove_unfinished(Path(cache_dir))
    reading = Reading(sources, form, progress)
    if reading.total is not None and reading.total < _SMALL_CORPUS:
        num_workers = 1
    origin["names"] = [source.name for source in sources]
    with new_folder(place, is_there=lambda: _is_store(place)) as draft:
        encoded = encode_batches(batch_paragraphs(reading, reading.position), encode, num_workers)
        write_store(encoded, encode.token_type, draft, origin, reading.report)
        if place.exists() and not _is_store(place):
            shutil.rmtree(place, ignore_errors=True)
    return TokenStore.open(place)


def write_token_store(
    paragraphs: Iterable[Paragraph],
    form: DocumentForm,
    tokenizer: PreTrainedTokenizerFast,
    splitter: Splitter = split_sentences,
    *,
    folder: str | Path,
    num_workers: int = 1,
) -> TokenStore:
    """Writes the token store of ``paragraphs`` to the new ``folder``, which is removed on failure.

    See `build_token_store` for the content of a store and the other arguments.

    Raises:
        DataError: the paragraphs are empty.
        FileExistsError: ``folder`` exists.
        OutputError: the store cannot be written.
        PlacementError: as `encode_batches`.
        Exception: any exception of ``paragraphs``.
    """
    encode = SentenceEncoder(tokenizer, None if form.sentence_per_line else splitter)
    origin = {"format": FORMAT, "form": asdict(form), "tokenizer": encode.tokenizer_digest}
    if Path(folder).exists():
        raise FileExistsError(f"{folder}: already exists")
    with new_folder(Path(folder)) as draft:
        write_store(encode_batches(batch_paragraphs(paragraphs), encode, num_workers), encode.token_type, draft, origin)
    return TokenStore.open(folder)


class Reading:
    """Iterable over the paragraphs of all sources that tracks the position in bytes."""

    def __init__(self, sources: Sequence[Source], form: DocumentForm, progress: Reached | None):
        self._sources = sources
        self._form = form
        self._progress = progress
        self._ends = list(itertools.accumulate(source.size or 0 for source in sources))
        self._number = 0
        self.total = None if any(source.size is None for source in sources) else self._ends[-1]

    def __iter__(self) -> Iterator[Paragraph]:
        for number, source in enumerate(self._sources):
            self._number = number
            yield from source.paragraphs(self._form)

    def position(self) -> int:
        """Returns how many bytes of the sources have been read, in all; a source of unknown size counts as empty."""
        source, end = self._sources[self._number], self._ends[self._number]
        size = source.size or 0
        return end - size + min(source.position, size)

    def report(self, position: int | None) -> None:
        """Reports that the text up to byte ``position`` is written; None for all of it."""
        if self._progress and self.total is not None and position != self.total:
            self._progress(self.total if position is None else position, self.total)


def write_store(
    encoded: Generator[EncodedBatch],
    token_type: type[np.generic],
    folder: Path,
    origin: dict[str, Any],
    report: Callable[[int | None], None] = lambda position: None,
) -> None:
    """Writes the files of a store from the batches of the whole corpus, in order, and closes the generator.

    Args:
        encoded: the batches.
        token_type: dtype of the ids.
        folder: an empty folder.
        origin: metadata, such as those of `store_origin`.
        report: called with the position of every batch written, and with None at the end.

    Raises:
        DataError: there is no token.
        Exception: any exception of ``encoded``.
    """
    write_manifest(folder, origin, write_parts(encoded, token_type, folder, report=report))
    report(None)


def store_origin(
    sources: Sequence[Source],
    form: DocumentForm,
    encode: SentenceEncoder,
    splitter: Splitter,
) -> dict[str, Any]:
    """Returns what determines the tokens of a store: text, form, splitter and tokenizer.

    Raises:
        DataError: a source cannot be read.
        RecipeError: as `splitter_id`.
    """
    return {
        "format": FORMAT,
        "sources": [source.fingerprint() for source in sources],
        "form": asdict(form),
        "splitter": "" if form.sentence_per_line else splitter_id(splitter),
        "tokenizer": encode.tokenizer_digest,
    }


def origin_key(origin: Mapping[str, Any]) -> str:
    """Returns 32 hexadecimal digits that identify an origin."""
    return hashlib.sha256(dumps(origin, sort_keys=True).encode()).hexdigest()[:32]


def _is_store(folder: Path) -> bool:
    try:
        TokenStore.open(folder)
    except DataError:
        return False
    return True


def splitter_id(splitter: Splitter) -> str:
    """Returns an identifier of a splitter and its results: its name, and a version.

    The version is `RULES_VERSION` for bertkit's rules; for other splitters their attribute ``version``, or without one
    a digest of their source code.

    Raises:
        RecipeError: the splitter has no version, and its source code is not available.
    """
    name = f"{getattr(splitter, '__module__', '')}.{getattr(splitter, '__qualname__', type(splitter).__qualname__)}"
    version = RULES_VERSION if splitter is split_sentences else getattr(splitter, "version", None)
    if version is None:
        try:
            version = hashlib.sha256(inspect.getsource(splitter).encode()).hexdigest()
        except (OSError, TypeError) as error:
            raise RecipeError(
                f"data.sentence_splitter: the source code of {name} is not available; give it an attribute version, "
                "which says when its results change"
            ) from error
    return f"{name}:{version}"
