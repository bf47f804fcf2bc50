"""Pre-training task: from documents to masked pairs (BERT §3.1).

This module defines the recipe values, loads the corpus and selects the held-out documents. Examples are built in
``bertkit/data/corpus``; metrics are in ``bertkit/metrics/pretraining.py``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.data.corpus.documents import DocumentForm
from bertkit.data.corpus.examples.masking import unigram_loss
from bertkit.data.corpus.examples.randomness import Stream, uniform
from bertkit.data.corpus.sentences import check_splitter_name, find_splitter
from bertkit.data.corpus.settings import (
    ExampleSettings,
    PairObjective,
    Phase,
    PretrainingData,
    TokenObjective,
    check_phases,
    phase_lengths,
)
from bertkit.data.corpus.sources import Source, find_sources
from bertkit.data.corpus.store.encoding import SentenceEncoder
from bertkit.data.corpus.store.opening import names_store
from bertkit.data.corpus.store.streaming import StreamedBlocks
from bertkit.data.corpus.store.token_store import StoreView, TokenStore
from bertkit.data.corpus.store.writer import build_token_store
from bertkit.data.corpus.vocabulary.tokenizer import MergeScore, TokenizerType
from bertkit.metrics.pretraining import PAIRS
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.runtime.options import check_ranges, option, setting
from bertkit.runtime.progress import counted

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """The ``task`` block of a pre-training recipe."""

    pair_objective: PairObjective = option(
        "Objective of the pairs: `nsp`, B follows A or is from another document (BERT, section 3.1); `sop`, A "
        "and B are in order or swapped (ALBERT, section 3.1); `none`, masked LM only, on full sentences of one "
        "document.",
        default="nsp",
    )


@dataclass(frozen=True, kw_only=True)
class DataSettings(ExampleSettings):
    """The ``data`` block of a pre-training recipe: sources of the text, and construction of the examples."""

    corpus: list[str] = setting(
        "Text files, folders, patterns such as `texts/*.jsonl.gz`, and Hub ids; or one token store of `bertkit "
        "corpus build`, a folder or a URL.",
        factory=list,
    )
    text_column: str = option(
        "Text column of rows (.jsonl, .parquet, Hub data sets); a row is a document.", default="text", rare=True
    )
    dataset_config: str | None = option("Configuration of the Hub data sets.", default=None, rare=True)
    dataset_split: str = option("Split of the Hub data sets.", default="train", rare=True)
    streaming: bool = option(
        "Read and tokenize the corpus in blocks during training instead of as a whole before it, for a corpus "
        "that does not fit on disk.",
        default=False,
        rare=True,
    )
    tokenizer: str | None = option("Folder or Hub id of the tokenizer; alternative to `vocab_size`.", default=None)
    vocab_size: int | None = option(
        "Train a tokenizer with this number of pieces on the corpus; alternative to `tokenizer`.", default=None
    )
    tokenizer_type: TokenizerType = option(
        "Type of the trained vocabulary: `wordpiece`, as BERT has, or `byte_level_bpe`, as RoBERTa has.",
        default="wordpiece",
        rare=True,
    )
    cased: bool = option(
        "Keep upper case and accents in the trained vocabulary; byte-level BPE always keeps them.", default=False
    )
    merge_score: MergeScore = option(
        "Criterion by which pieces of the trained vocabulary are merged: the most frequent pair (`frequency`), "
        "or that with the highest freq(ab) / (freq(a) * freq(b)) (`likelihood`).",
        default="frequency",
        rare=True,
    )
    min_pair_frequency: int | None = option(
        "Minimum frequency of a pair of pieces to be merged; by default 1 with `frequency`, and a decreasing "
        "bound with `likelihood`.",
        default=None,
        ge=1,
        rare=True,
    )
    document_separator: str | None = option(
        "Separator of documents in a file: `blank-line`, or a regex that matches a whole line.", default=None, rare=True
    )
    sentence_per_line: bool = option(
        "The files have one sentence per line; a blank line separates documents.", default=False
    )
    sentence_splitter: str = option(
        "Splits paragraphs into sentences: `rules`, `none`, or a function as `module:function` or `file.py:function`.",
        default="rules",
        rare=True,
    )
    validation_fraction: float = setting(
        "Fraction of the documents held out for evaluation, in [0, 0.5]; with NSP at least two documents, so "
        "that random sentences also come from held-out text. 0 holds out none.",
        default=0.05,
        ge=0,
        le=0.5,
    )
    min_validation_documents: int = setting(
        "Hold out at least this number of documents, and none if fewer would be left to train on; at least 1, "
        "with NSP at least 2.",
        default=1,
        ge=1,
    )
    phases: dict[int, float | int] = setting(
        "Sequence length → fraction of the steps, in the order of training; lengths above `max_seq_length` are "
        "reduced to it. Empty is a single phase of `max_seq_length`.",
        factory=dict,
    )
    max_train_samples: int | None = option(
        "Use at most this number of documents to train on, the first ones.", default=None, ge=1, rare=True
    )
    max_eval_samples: int | None = option(
        "Use at most this number of inputs to evaluate on.", default=None, ge=1, rare=True
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        check_phases(self.phases)
        if self.sentence_per_line and self.sentence_splitter not in ("rules", "none"):
            raise ValueError("sentence_splitter: with sentence_per_line lines are sentences; remove one of the two")
        try:
            self.form()
            check_splitter_name(self.sentence_splitter)
        except RecipeError as error:
            raise ValueError(str(error)) from error
        for length, _ in self.lengths():
            self.examples(length, 0)  # checks the rest

    def run_code(self) -> None:
        """Runs the module or file of ``sentence_splitter``; loading a recipe does not run it."""
        find_splitter(self.sentence_splitter)

    def form(self) -> DocumentForm:
        """Returns the document format of the files."""
        return DocumentForm(sentence_per_line=self.sentence_per_line, document_separator=self.document_separator)

    def sources(self) -> list[Source]:
        """Locates the sources of the corpus without reading them.

        Raises:
            DataError: a source does not exist or is of an unknown kind, or a setting does not apply to its kind.
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
                "document_separator: it separates the documents of text files, but this corpus has only rows, each a "
                "document; remove it"
            )
        return sources

    def is_stored(self) -> bool:
        """Returns whether the corpus is a token store of `bertkit corpus build` instead of texts."""
        return names_store(self.corpus)

    def lengths(self) -> list[tuple[int, float]]:
        """Returns the sequence length and the fraction of the steps of every phase."""
        return phase_lengths(self.phases, self.max_seq_length)

    def examples(
        self,
        max_seq_length: int,
        seed: int,
        pair_objective: PairObjective = "nsp",
        token_objective: TokenObjective = "masked_lm",
    ) -> PretrainingData:
        """Returns the settings by which pairs and masks are sampled in a phase of this length."""
        shared = {field.name: getattr(self, field.name) for field in dataclasses.fields(ExampleSettings)}
        return PretrainingData(
            **{**shared, "max_seq_length": max_seq_length},
            pair_objective=pair_objective,
            token_objective=token_objective,
            seed=seed,
        )


class Pretraining:
    """Registry entry of pre-training: has settings but is not a fine-tuning `Task`; `bertkit pretrain` runs it."""

    kind = "pretraining"
    Settings = TaskSettings
    data_settings = DataSettings


@dataclass(frozen=True)
class PretrainingCorpus:
    """Tokenized text, split into training documents and held-out documents.

    Attributes:
        train: a subset of a token store, or a stream of token stores.
        validation: held-out documents, disjoint from ``train``; ``None`` if there are none.
        facts: entries of ``run.json``: the ``fingerprint``, whether the corpus is ``streamed``, the commits of Hub
            data sets (``revisions``), the numbers of documents, sentences and tokens, of documents to train on
            (``train_documents``) and held out (``held_out_documents``; of a stream only this one), and SHA-256
            digests of the selected documents, ``train_digest`` and ``held_out_digest``.
    """

    train: StoreView | StreamedBlocks
    validation: StoreView | None
    facts: dict[str, Any]

    def __str__(self) -> str:
        held_out = f"{counted(self.facts['held_out_documents'], 'document')} held out"
        if self.validation is None:
            held_out = "none held out: there are too few documents, or data.validation_fraction is 0"
        if self.facts["streamed"]:
            return f"streamed block by block; {held_out}"
        sizes = [counted(self.facts[f"{noun}s"], noun) for noun in ("document", "sentence", "token")]
        return f"{', '.join(sizes)}; {held_out}"


def load_corpus(
    data: DataSettings,
    tokenizer: PreTrainedTokenizerFast,
    seed: int,
    cache_dir: Path,
    *,
    sources: Sequence[Source] | None = None,
    store: TokenStore | None = None,
    pair_objective: str,
    num_workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> PretrainingCorpus:
    """Reads, splits and tokenizes the corpus, or loads it from the cache, and holds out documents.

    With streaming only the first block is read here, from which the held-out documents are taken. A ``store`` is used
    instead of the texts; its tokens have to be those of ``tokenizer``.

    Raises:
        DataError: a file is missing or unreadable, or the corpus has no text; or the tokens of ``store`` are those of
            another tokenizer.
    """
    held_out = partial(
        held_out_documents,
        fraction=data.validation_fraction,
        seed=seed,
        pair_objective=pair_objective,
        least=data.min_validation_documents,
    )
    revisions: dict[str, str] = {}
    if store is None:
        sources = data.sources() if sources is None else sources
        revisions = {source.name: source.revision for source in sources if source.revision}
        texts = (sources, data.form(), tokenizer, find_splitter(data.sentence_splitter))
        place: dict[str, Any] = {"cache_dir": cache_dir, "num_workers": num_workers}
        if data.streaming:
            stream = StreamedBlocks(*texts, **place, held_out=held_out, max_documents=data.max_train_samples)
            facts = {"fingerprint": stream.fingerprint, "streamed": True, "revisions": revisions}
            return _corpus(stream, stream.held_out(), facts)
        store = build_token_store(*texts, **place, progress=progress)
    elif store.metadata["tokenizer"] != SentenceEncoder(tokenizer, None).tokenizer_digest:
        raise DataError(
            f"{data.corpus[0]}: the tokens of this store are of another tokenizer; build the store with the tokenizer "
            "of the run"
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
    facts = {**facts, "held_out_documents": validation.num_documents if validation else 0}
    for name, documents in (("train_digest", train), ("held_out_digest", validation)):
        # The fingerprint of a stream covers the choice of its documents.
        numbers = documents.documents if isinstance(documents, StoreView) else np.empty(0, np.int64)
        facts[name] = hashlib.sha256(facts["fingerprint"].encode() + numbers.tobytes()).hexdigest()
    return PretrainingCorpus(train, validation, facts)


def curve_facts(
    corpus: PretrainingCorpus,
    vocab_size: int,
    phases: Sequence[Phase],
    pair_objective: PairObjective,
    token_objective: TokenObjective,
) -> dict[str, Any]:
    """Returns what the report of a run draws besides its curves.

    Returns:
        ``baselines``: metric → name → value of a model without training: all tokens equally likely, their frequencies
        alone (not for streams, nor without held-out documents), and chance for pairs. ``phases``: ``first_step`` and
        ``max_seq_length`` of each phase.
    """
    of_tokens = {"uniform": math.log(vocab_size)}
    if isinstance(corpus.train, StoreView) and corpus.validation is not None:
        counts = (view.token_counts(vocab_size) for view in (corpus.train, corpus.validation))
        of_tokens["unigram"] = unigram_loss(*counts)
    baselines = {
        f"{token_objective}_loss": of_tokens,
        "perplexity": {name: math.exp(loss) for name, loss in of_tokens.items()},
    }
    for name in PAIRS[pair_objective]:
        baselines[name] = {"chance": math.log(2) if name.endswith("_loss") else 0.5}
    steps = [{"first_step": phase.first_step, "max_seq_length": phase.max_seq_length} for phase in phases]
    return {"baselines": baselines, "phases": steps}


def held_out_documents(
    num_documents: int, fraction: float, seed: int, pair_objective: str = "nsp", least: int = 1
) -> np.ndarray:
    """Selects the documents for evaluation, (N,) int64 in ascending order, as a function of the seed and their number.

    The result is empty if either side of the split would have fewer than ``least`` documents; NSP needs two, one of
    them for random sentences.

    >>> len(held_out_documents(100, 0.05, seed=42)), len(held_out_documents(9, 0.05, seed=42))
    (5, 2)
    >>> len(held_out_documents(3, 0.05, seed=42)), len(held_out_documents(3, 0.05, seed=42, pair_objective="sop"))
    (0, 1)
    >>> len(held_out_documents(3, 0.05, seed=42, pair_objective="none", least=2))
    0
    """
    least = max(least, 2 if pair_objective == "nsp" else 1)
    number = max(least, round(num_documents * fraction))
    if fraction == 0 or num_documents - number < least:
        return np.empty(0, np.int64)
    keys = uniform(seed, Stream.HELD_OUT, 0, np.arange(num_documents), 1)[:, 0]
    return np.sort(np.argsort(keys, kind="stable")[:number])
