"""Pre-training as a task: documents in, masked sentence pairs out, two losses scored apart (BERT §3.1).

The work is done in ``bertkit/corpus``; this file says which recipe values there are, which documents are held out, and
how MLM and NSP are scored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from bertkit.corpus.documents import DocumentForm, find_text_files
from bertkit.corpus.randomness import Stream, uniform
from bertkit.corpus.sentences import split_sentences
from bertkit.corpus.settings import PretrainingData
from bertkit.corpus.store_writer import build_token_store
from bertkit.corpus.token_store import StoreView, TokenStore
from bertkit.errors import RecipeError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast

# NSP needs a second document for its random sentences, on either side of the split.
_LEAST_DOCUMENTS = 2


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """The ``task`` block of a pre-training recipe.

    Attributes:
        pair_objective: ``nsp``, next sentence prediction: does B follow A?
    """

    pair_objective: Literal["nsp"] = "nsp"


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The ``data`` block of a pre-training recipe.

    Attributes:
        corpus: text files and folders.
        tokenizer: folder or Hub id of the tokenizer; or
        vocab_size: pieces of a tokenizer to train on the corpus.
        cased: with ``vocab_size``, keep upper case and accents.
        document_separator: parts documents within a file: ``blank-line``, or a regex for a whole line.
        sentence_per_line: the files hold one sentence a line, and a blank line parts documents.
        validation_fraction: share of the documents held out for evaluation, in [0, 0.5]; at least two are, so that
            their random sentences come from held-out text too. 0 holds none out.
        max_seq_length: tokens of a pair with [CLS] and both [SEP].
        max_predictions_per_seq: at most so many masked tokens; ``None`` is ``mlm_probability`` of the length.
        mlm_probability: share of the tokens to predict (BERT §3.1: 0.15).
        short_seq_prob: share of pairs made short on purpose (released create_pretraining_data.py: 0.1).
        max_eval_samples: evaluate on only so many pairs.
    """

    corpus: list[str] = field(default_factory=list)
    tokenizer: str | None = None
    vocab_size: int | None = None
    cased: bool = False
    document_separator: str | None = None
    sentence_per_line: bool = False
    validation_fraction: float = 0.05
    max_seq_length: int = 128
    max_predictions_per_seq: int | None = None
    mlm_probability: float = 0.15
    short_seq_prob: float = 0.1
    max_eval_samples: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.validation_fraction <= 0.5:
            raise ValueError(f"validation_fraction: expected 0 to 0.5, got {self.validation_fraction}")
        if self.max_eval_samples is not None and self.max_eval_samples < 1:
            raise ValueError(f"max_eval_samples: {self.max_eval_samples} is not at least 1")
        try:
            self.form()
        except RecipeError as error:
            raise ValueError(str(error)) from error
        self.examples(0)  # checks the rest

    def form(self) -> DocumentForm:
        """How the files are to be read."""
        return DocumentForm(sentence_per_line=self.sentence_per_line, document_separator=self.document_separator)

    def examples(self, seed: int) -> PretrainingData:
        """What pairs and masks are drawn by."""
        return PretrainingData(
            max_seq_length=self.max_seq_length,
            max_predictions_per_seq=self.max_predictions_per_seq,
            mlm_probability=self.mlm_probability,
            short_seq_prob=self.short_seq_prob,
            seed=seed,
        )


@dataclass(frozen=True)
class PretrainingCorpus:
    """A tokenized corpus, parted into documents to train on and documents held out (or ``None``)."""

    store: TokenStore
    train: StoreView
    validation: StoreView | None


def load_corpus(
    data: DataSettings,
    tokenizer: PreTrainedTokenizerFast,
    seed: int,
    cache_dir: Path,
    splitter: Callable[[str], list[str]] = split_sentences,
    progress: Callable[[int, int], None] | None = None,
) -> PretrainingCorpus:
    """Reads, splits and tokenizes the corpus, or finds it in the cache, and holds out documents.

    Raises:
        DataError: a file is missing or unreadable, there is no text, or too few documents for NSP.
    """
    files = find_text_files(data.corpus)
    store = build_token_store(files, data.form(), tokenizer, splitter, cache_dir=cache_dir, progress=progress)
    held_out = held_out_documents(store.num_documents, data.validation_fraction, seed)
    if not len(held_out):
        return PretrainingCorpus(store, store.whole(), None)
    kept = np.setdiff1d(np.arange(store.num_documents), held_out)
    return PretrainingCorpus(store, store.subset(kept), store.subset(held_out))


def held_out_documents(num_documents: int, fraction: float, seed: int) -> np.ndarray:
    """Which documents are kept for evaluation, (N,) int64 ascending: a function of the seed and their number.

    None are where too few would be left on either side of the split.

    >>> len(held_out_documents(100, 0.05, seed=42)), len(held_out_documents(9, 0.05, seed=42))
    (5, 2)
    >>> len(held_out_documents(3, 0.05, seed=42)), len(held_out_documents(100, 0.0, seed=42))
    (0, 0)
    """
    number = max(_LEAST_DOCUMENTS, round(num_documents * fraction))
    if fraction == 0 or num_documents - number < _LEAST_DOCUMENTS:
        return np.empty(0, np.int64)
    keys = uniform(seed, Stream.HELD_OUT, 0, np.arange(num_documents), 1)[:, 0]
    return np.sort(np.argsort(keys, kind="stable")[:number])


# ---- score -----------------------------------------------------------------------------------------------------------


def reduce_logits(logits: tuple[torch.Tensor, ...], labels: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """What evaluation keeps of a batch: five numbers a pair, so that memory does not grow with the vocabulary.

    Args:
        logits: the model's outputs, the last two being MLM logits (B, P, V) and NSP logits (B, 2).
        labels: MLM labels (B, P) with -100 on empty slots, and next sentence labels (B,).

    Returns:
        (B, 5) float32: sum of MLM losses in nats, correct and all masked tokens, NSP loss in nats, NSP correct.
    """
    import torch
    from torch.nn.functional import cross_entropy

    mlm_logits, nsp_logits = logits[-2].float(), logits[-1].float()
    mlm_labels, nsp_labels = labels
    mlm_losses = cross_entropy(mlm_logits.transpose(1, 2), mlm_labels, reduction="none", ignore_index=-100)
    masked = mlm_labels != -100
    columns = [
        mlm_losses.sum(dim=1),
        ((mlm_logits.argmax(dim=-1) == mlm_labels) & masked).sum(dim=1),
        masked.sum(dim=1),
        cross_entropy(nsp_logits, nsp_labels, reduction="none"),
        nsp_logits.argmax(dim=-1) == nsp_labels,
    ]
    return torch.stack([column.float() for column in columns], dim=1)


def score(reduced: np.ndarray) -> dict[str, float]:
    """MLM and NSP apart, over all pairs.

    Args:
        reduced: (N, 5), rows of `reduce_logits`.

    Returns:
        Losses in nats, ``loss`` being the sum of the two; accuracies in [0, 1]; ``perplexity`` = exp of the MLM loss.

    >>> scores = score(np.array([[2.0, 1, 2, 0.2, 1], [1.0, 0, 1, 0.6, 0]]))
    >>> [round(float(value), 3) for value in scores.values()]
    [1.4, 1.0, 2.718, 0.333, 0.4, 0.5]
    """
    mlm_loss, mlm_correct, masked, nsp_loss, nsp_correct = reduced.astype(np.float64).sum(axis=0)
    return {
        "loss": mlm_loss / masked + nsp_loss / len(reduced),  # not a mean of batch means, as the Trainer would have it
        "masked_lm_loss": mlm_loss / masked,
        "perplexity": math.exp(min(mlm_loss / masked, 700)),
        "masked_lm_accuracy": mlm_correct / masked,
        "next_sentence_loss": nsp_loss / len(reduced),
        "next_sentence_accuracy": nsp_correct / len(reduced),
    }
