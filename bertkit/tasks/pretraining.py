"""Pre-training as a task: documents in, masked pairs out (BERT §3.1).

The work is done in ``bertkit/corpus``; this file says which recipe values there are, how they lead to a corpus, and
which of its documents are held out. ``bertkit/metrics/pretraining.py`` scores.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.corpus.documents import DocumentForm
from bertkit.corpus.examples.phases import check_phases, phase_lengths
from bertkit.corpus.examples.randomness import Stream, uniform
from bertkit.corpus.sentences import find_splitter
from bertkit.corpus.settings import ExampleSettings, PairObjective, PretrainingData
from bertkit.corpus.sources import Source, find_sources
from bertkit.corpus.store.streaming import StreamedBlocks
from bertkit.corpus.store.token_store import StoreView
from bertkit.corpus.store.writer import build_token_store
from bertkit.corpus.vocabulary.tokenizer import MergeScore
from bertkit.errors import DataError, RecipeError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """The ``task`` block of a pre-training recipe.

    Attributes:
        pair_objective: ``nsp``, next sentence prediction: does B follow A, or come from another document (BERT §3.1)?
            ``sop``, sentence order prediction: are A and B in their order, or exchanged (ALBERT §3.1)? ``none``:
            masked LM alone, on full sentences of one document (RoBERTa §4.2, DOC-SENTENCES).
    """

    pair_objective: PairObjective = "nsp"


@dataclass(frozen=True, kw_only=True)
class DataSettings(ExampleSettings):
    """The ``data`` block of a pre-training recipe: where the text comes from, and how it becomes examples.

    Attributes:
        corpus: text files, folders, patterns such as ``texts/*.jsonl.gz``, and Hub ids.
        text_column: where rows (``.jsonl``, ``.parquet``, Hub sets) have their text; a row is a document.
        dataset_config, dataset_split: of Hub sets.
        streaming: read the corpus as it is trained on, in blocks, instead of tokenizing it whole beforehand: for what
            does not fit the disk.
        tokenizer: folder or Hub id of the tokenizer; or
        vocab_size: pieces of a tokenizer to train on the corpus.
        cased: with ``vocab_size``, keep upper case and accents.
        merge_score: with ``vocab_size``, which pieces are merged: the most frequent pair (``frequency``), or the one of
            the highest freq(ab) / (freq(a) · freq(b)) (``likelihood``).
        min_pair_frequency: with ``vocab_size``, how often a pair has to occur to be merged; ``None`` is 1 by frequency
            and a falling bound by likelihood.
        document_separator: parts documents within a file: ``blank-line``, or a regex for a whole line.
        sentence_per_line: the files hold one sentence a line, and a blank line parts documents.
        sentence_splitter: what splits paragraphs: ``rules``, ``none``, or a function of one's own as
            ``module:function`` or ``file.py:function``.
        validation_fraction: share of the documents held out for evaluation, in [0, 0.5]; under NSP at least two are,
            so that their random sentences come from held-out text too. 0 holds none out.
        phases: sequence length → share of the steps, in the order of training; what is longer than ``max_seq_length``
            is cut to it. Empty is one phase of ``max_seq_length``.
        max_train_samples: train on only the first so many documents.
        max_eval_samples: evaluate on only so many inputs.
    """

    corpus: list[str] = field(default_factory=list)
    text_column: str = "text"
    dataset_config: str | None = None
    dataset_split: str = "train"
    streaming: bool = False
    tokenizer: str | None = None
    vocab_size: int | None = None
    cased: bool = False
    merge_score: MergeScore = "frequency"
    min_pair_frequency: int | None = None
    document_separator: str | None = None
    sentence_per_line: bool = False
    sentence_splitter: str = "rules"
    validation_fraction: float = 0.05
    phases: dict[int, float | int] = field(default_factory=dict)
    max_train_samples: int | None = None
    max_eval_samples: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.validation_fraction <= 0.5:
            raise ValueError(f"validation_fraction: expected 0 to 0.5, got {self.validation_fraction}")
        for name in ("max_train_samples", "max_eval_samples", "min_pair_frequency"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: {value} is not at least 1")
        check_phases(self.phases)
        try:
            self.form()
            find_splitter(self.sentence_splitter)
        except RecipeError as error:
            raise ValueError(str(error)) from error
        for length, _ in self.lengths():
            self.examples(length, 0)  # checks the rest

    def form(self) -> DocumentForm:
        """How the files are to be read."""
        return DocumentForm(sentence_per_line=self.sentence_per_line, document_separator=self.document_separator)

    def sources(self) -> list[Source]:
        """The corpus, found but not read.

        Raises:
            DataError: something of it does not exist, or is of no known kind, or a value here is for another kind.
        """
        sources = find_sources(
            self.corpus,
            text_column=self.text_column,
            dataset_config=self.dataset_config,
            dataset_split=self.dataset_split,
            streaming=self.streaming,
        )
        if self.document_separator is not None and all(source.has_rows for source in sources):
            raise DataError(
                "document_separator: it parts the documents of text files, and this corpus has rows alone, each a "
                "document; leave it out"
            )
        return sources

    def lengths(self) -> list[tuple[int, float]]:
        """Length and share of the steps of every phase."""
        return phase_lengths(self.phases, self.max_seq_length)

    def examples(self, max_seq_length: int, seed: int, pair_objective: PairObjective = "nsp") -> PretrainingData:
        """What pairs and masks are drawn by, in a phase of that length."""
        shared = {field.name: getattr(self, field.name) for field in dataclasses.fields(ExampleSettings)}
        return PretrainingData(**{**shared, "max_seq_length": max_seq_length}, pair_objective=pair_objective, seed=seed)


class Pretraining:
    """The registration of pre-training: it has settings, and is no fine-tuning `Task`; `bertkit pretrain` runs it."""

    kind = "pretraining"
    settings = TaskSettings
    data_settings = DataSettings


@dataclass(frozen=True)
class PretrainingCorpus:
    """Tokenized text, parted into documents to train on and documents held out (or ``None``).

    Attributes:
        train: a part of a store of tokens, or a stream of such stores.
        validation: documents that ``train`` has not.
        facts: for ``run.json``: the ``fingerprint``, the commits of Hub sets (``revisions``), and what there is of
            documents, sentences and tokens.
    """

    train: StoreView | StreamedBlocks
    validation: StoreView | None
    facts: dict[str, Any]

    def __str__(self) -> str:
        held_out = f"{self.facts['held_out_documents']} documents held out"
        if self.validation is None:
            held_out = "none held out: there are too few documents, or data.validation_fraction is 0"
        if self.facts["streamed"]:
            return f"streamed, a block at a time; {held_out}"
        return "{documents} documents, {sentences} sentences, {tokens} tokens; ".format(**self.facts) + held_out


def load_corpus(
    data: DataSettings,
    tokenizer: PreTrainedTokenizerFast,
    seed: int,
    cache_dir: Path,
    *,
    sources: Sequence[Source] | None = None,
    pair_objective: str = "nsp",
    num_workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> PretrainingCorpus:
    """Reads, splits and tokenizes the corpus, or finds it in the cache, and holds out documents.

    A stream is only begun: its held-out documents are those of the first block, and the rest is read in training.

    Raises:
        DataError: a file is missing or unreadable, or there is no text.
    """
    sources = data.sources() if sources is None else sources
    splitter = find_splitter(data.sentence_splitter)

    def held_out(num_documents: int) -> np.ndarray:
        return held_out_documents(num_documents, data.validation_fraction, seed, pair_objective)

    revisions = {source.name: source.revision for source in sources if source.revision}
    if data.streaming:
        stream = StreamedBlocks(
            sources,
            data.form(),
            tokenizer,
            splitter,
            cache_dir=cache_dir,
            held_out=held_out,
            max_documents=data.max_train_samples,
            num_workers=num_workers,
        )
        facts = {"fingerprint": stream.fingerprint, "streamed": True, "revisions": revisions}
        return _corpus(stream, stream.held_out(), facts)
    store = build_token_store(
        sources, data.form(), tokenizer, splitter, cache_dir=cache_dir, num_workers=num_workers, progress=progress
    )
    chosen = held_out(store.num_documents)
    train = np.setdiff1d(np.arange(store.num_documents), chosen)[: data.max_train_samples]
    facts = {
        "fingerprint": store.fingerprint,
        "streamed": False,
        "revisions": revisions,
        "documents": store.num_documents,
        "train_documents": len(train),
        "sentences": store.num_sentences,
        "tokens": store.num_tokens,
    }
    return _corpus(store.subset(train), store.subset(chosen) if len(chosen) else None, facts)


def _corpus(
    train: StoreView | StreamedBlocks, validation: StoreView | None, facts: dict[str, Any]
) -> PretrainingCorpus:
    held_out = validation.num_documents if validation else 0
    return PretrainingCorpus(train, validation, {**facts, "held_out_documents": held_out})


def held_out_documents(num_documents: int, fraction: float, seed: int, pair_objective: str = "nsp") -> np.ndarray:
    """Which documents are kept for evaluation, (N,) int64 ascending: a function of the seed and their number.

    None are where too few would be left on either side of the split: NSP needs two, one of them for random sentences.

    >>> len(held_out_documents(100, 0.05, seed=42)), len(held_out_documents(9, 0.05, seed=42))
    (5, 2)
    >>> len(held_out_documents(3, 0.05, seed=42)), len(held_out_documents(3, 0.05, seed=42, pair_objective="sop"))
    (0, 1)
    """
    least = 2 if pair_objective == "nsp" else 1
    number = max(least, round(num_documents * fraction))
    if fraction == 0 or num_documents - number < least:
        return np.empty(0, np.int64)
    keys = uniform(seed, Stream.HELD_OUT, 0, np.arange(num_documents), 1)[:, 0]
    return np.sort(np.argsort(keys, kind="stable")[:number])
