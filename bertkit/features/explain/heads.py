"""Predictions of the heads of pre-training: each word masked in turn, the likelihood of texts, the next sentence.

A piece is predicted with the further pieces of its word masked too, see `bertkit.inference.fill_mask`. The
pseudo-log-likelihood of a text (Salazar et al., 2020) is the sum over its pieces; special tokens do not count. The head
for pairs says whether the second text follows the first, or for ALBERT, and a BERT that was pre-trained with
``task.pair_objective: sop``, whether the two are in this order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from bertkit.data.corpus.sentences import split_sentences
from bertkit.data.tables import read_table
from bertkit.data.tables.labels import texts as texts_of_column
from bertkit.data.tables.objects import list_of_texts
from bertkit.features.explain.network import Network
from bertkit.features.explain.pieces import Pieces, pieces_of
from bertkit.features.explain.result import Result
from bertkit.inference.fill_mask import MaskedWord, MaskFiller, check_fills
from bertkit.metrics.intervals import proportion_interval
from bertkit.runtime.errors import CheckpointError, DataError
from bertkit.runtime.formats import amount
from bertkit.runtime.progress import counted
from bertkit.runtime.reading.text import read_text, split_lines
from bertkit.tasks.checkpoints import block_of_run

_BEST = 5  # pieces in place of a word
_OTHERS = 5  # sentences in place of the second text


@dataclass(frozen=True)
class FilledWord:
    """A word and what the model would fill in for it.

    Attributes:
        text: the word.
        log_probability: of its pieces, natural logarithm, at most 0; the sum over several.
        pieces: number of its pieces.
        best: the most probable pieces in place of its first piece, with all of the word masked, and their
            probabilities.
    """

    text: str
    log_probability: float
    pieces: int
    best: list[tuple[str, float]]

    @property
    def probability(self) -> float:
        """Probability of the word, in [0, 1]."""
        return math.exp(self.log_probability)


@dataclass(frozen=True)
class Filling:
    """Predictions for each word of a text."""

    words: list[FilledWord]

    @property
    def log_likelihood(self) -> float:
        """Pseudo-log-likelihood of the text, natural logarithm."""
        return math.fsum(word.log_probability for word in self.words)

    @property
    def perplexity(self) -> float:
        """Pseudo-perplexity per piece; 1 for a text that is predicted with certainty."""
        return math.exp(-self.log_likelihood / sum(word.pieces for word in self.words))

    def record(self) -> dict[str, Any]:
        """Returns the part as plain data."""
        words = [{**asdict(word), "probability": word.probability} for word in self.words]
        return {"perplexity": self.perplexity, "log_likelihood": self.log_likelihood, "words": words}

    def lines(self) -> list[str]:
        """Returns the part for a terminal."""
        lines = [f"fill in: pseudo-perplexity {amount(self.perplexity, digits=4)} per piece, each word masked in turn"]
        for word in self.words:
            best = ", ".join(f"{token} {probability:.2f}" for token, probability in word.best)
            lines.append(f"  {word.text} {word.probability:.3g}: {best}")
        return lines


def fillings(network: Network, texts: Sequence[Pieces]) -> list[Filling]:
    """Masks each word of several texts in turn; CheckpointError if the checkpoint predicts no masked tokens."""
    filler = _make_filler(network)
    words = [MaskedWord(number, word.start, word.end) for number, text in enumerate(texts) for word in text.words]
    encoded = [{"input_ids": text.ids.tolist(), "token_type_ids": text.segments.tolist()} for text in texts]
    predicted = iter(filler.predict_words(encoded, words, _BEST))
    filled = []
    for text in texts:
        of_words = ((word, next(predicted)) for word in text.words)
        filled.append(
            Filling([FilledWord(word.text, log, word.end - word.start, best) for word, (log, best) in of_words])
        )
    return filled


def _make_filler(network: Network) -> MaskFiller:
    """Returns the masked language model of a network; CheckpointError unless it predicts masked tokens."""
    head = None if network.task is None else type(network.model).__name__
    check_fills(network.name, network.model.config, network.tokenizer, head)
    if network.model.get_output_embeddings() is None:
        raise CheckpointError(f"{network.name}: it has no masked-LM head; give a pre-trained checkpoint")
    return MaskFiller(network.model, network.tokenizer, 1, network.name)


@dataclass(frozen=True, repr=False)
class Ranking(Result):
    """Texts by their pseudo-likelihood, the most probable piece by piece first.

    Attributes:
        checkpoint: its name.
        scores: text, pseudo-perplexity per piece, pseudo-log-likelihood.
    """

    checkpoint: str
    scores: list[tuple[str, float, float]]

    template = "ranking.html"

    @property
    def title(self) -> str:
        return f"{counted(len(self.scores), 'text')} by pseudo-perplexity"

    def record(self) -> dict[str, Any]:
        names = ("text", "perplexity", "log_likelihood")
        return {"ranking": [dict(zip(names, score, strict=True)) for score in self.scores]}

    def lines(self) -> list[str]:
        return [f"{amount(perplexity, digits=4)}  {text}" for text, perplexity, _ in self.scores]


@dataclass(frozen=True, repr=False)
class MinimalPairs(Result):
    """Pairs of an acceptable and an unacceptable text, and which one is more probable.

    Attributes:
        checkpoint: its name.
        rows: good text, bad text, and the pseudo-log-likelihood of both.
    """

    checkpoint: str
    rows: list[tuple[str, str, float, float]]

    template = "pairs.html"

    @property
    def right(self) -> int:
        """Number of pairs in which the good text is more probable."""
        return sum(good > bad for _, _, good, bad in self.rows)

    @property
    def share(self) -> float:
        """Share of pairs in which the good text is more probable, in [0, 1]."""
        return self.right / len(self.rows)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the share, 95 %."""
        return proportion_interval(self.right, len(self.rows))

    @property
    def title(self) -> str:
        return counted(len(self.rows), "minimal pair")

    def record(self) -> dict[str, Any]:
        names = ("good", "bad", "log_likelihood_of_good", "log_likelihood_of_bad")
        pairs = [dict(zip(names, row, strict=True)) for row in self.rows]
        return {"share": self.share, "interval": list(self.interval), "pairs": pairs}

    def lines(self) -> list[str]:
        low, high = self.interval
        return [
            f"the good text is more probable in {self.right} of {counted(len(self.rows), 'pair')}: {self.share:.4f} "
            f"({low:.4f} to {high:.4f}, 95 %)"
        ]


def rank_texts(network: Network, texts: str | Path | Sequence[str]) -> Ranking:
    """Ranks texts by their pseudo-perplexity, the smallest first.

    Args:
        network: a masked language model.
        texts: the texts, or a file with one in each line.

    Raises:
        CheckpointError: the checkpoint has no masked-LM head.
        DataError: the file cannot be read, there is no text, or one has no word or is longer than the model reads.
    """
    if isinstance(texts, (str, Path)):
        lines = enumerate(split_lines(read_text(texts)), start=1)
        named = {f"{texts}, line {number}": line for number, line in lines if line.strip()}
    else:
        named = {f"text {number}": text for number, text in enumerate(list_of_texts(texts), start=1)}
    if not named:
        raise DataError(f"{texts if isinstance(texts, (str, Path)) else 'texts'}: no text; give one or more")
    filled = fillings(network, _cut_texts(network, named))
    scores = [(text, each.perplexity, each.log_likelihood) for text, each in zip(named.values(), filled, strict=True)]
    return Ranking(network.name, sorted(scores, key=lambda score: score[1]))


def score_pairs(network: Network, file: str | Path) -> MinimalPairs:
    """Scores minimal pairs: a table with the columns ``good`` and ``bad``.

    Raises:
        CheckpointError: the checkpoint has no masked-LM head.
        DataError: the table cannot be read or lacks a column, or a text has no word or is longer than the model reads.
    """
    table = read_table(file).with_names(("good", "bad"))
    columns = good, bad = [texts_of_column(table, name) for name in ("good", "bad")]
    named = {
        f"{table.place(row)}: {name}": text
        for name, column in zip(("good", "bad"), columns, strict=True)
        for row, text in enumerate(column)
    }
    filled = [each.log_likelihood for each in fillings(network, _cut_texts(network, named))]
    return MinimalPairs(network.name, list(zip(good, bad, filled[: len(good)], filled[len(good) :], strict=True)))


def _cut_texts(network: Network, texts: Mapping[str, str]) -> list[Pieces]:
    """Cuts texts, each under its name in messages, into pieces; DataError if the model does not read one to its end."""
    _make_filler(network)  # before anything is cut
    every = []
    for name, text in texts.items():
        pieces = pieces_of(network, [text], name=name)
        if pieces.left_out:
            raise DataError(
                f"{name}: {counted(pieces.left_out, 'token')} more than the {network.longest} that {network.name} "
                "reads; shorten it"
            )
        every.append(pieces)
    return every


# ---- pairs of texts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NextSentence:
    """Probability that the second text follows the first.

    Attributes:
        objective: ``next``: the second text follows, instead of one from elsewhere; ``order``: the two are in this
            order.
        probability: in [0, 1].
        swapped: the same with the two texts exchanged.
        others: other sentences in place of the second text, and their probabilities.
    """

    objective: Literal["next", "order"]
    probability: float
    swapped: float
    others: list[tuple[str, float]]

    @property
    def claim(self) -> str:
        """Statement that the probability is of."""
        return "the second text follows the first" if self.objective == "next" else "the texts are in this order"

    def record(self) -> dict[str, Any]:
        """Returns the part as plain data."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Returns the part for a terminal."""
        lines = [f"next sentence: {self.claim} {self.probability:.3f}; exchanged {self.swapped:.3f}"]
        return lines + [f"  {probability:.3f} {text}" for text, probability in self.others]


def next_sentence_of(network: Network, pieces: Pieces, sentences: str | Path | None = None) -> NextSentence:
    """Computes how probable it is that the second text follows the first.

    Args:
        network: a checkpoint with a head for pairs.
        pieces: two texts.
        sentences: a text file, five of whose sentences, evenly spaced, take the place of the second text.

    Raises:
        CheckpointError: the checkpoint has no such head.
        DataError: there is no second text; or the file cannot be read, or has no sentence.
    """
    if network.task is not None:
        raise CheckpointError(
            f"{network.name}: it was fine-tuned ({network.task.name}) and has no head for the next sentence; give a "
            "pre-trained checkpoint"
        )
    objective, probability = _score_pair(network, pieces)  # of one text too: a missing head is named first
    if block_of_run(network.name, "task").get("pair_objective") == "sop":  # which BERT learns with the same head
        objective = "order"
    if len(pieces.texts) < 2:
        raise DataError("give a second text to see whether it follows the first")
    lines = [] if sentences is None else split_lines(read_text(sentences))
    others = [each for line in lines for each in split_sentences(line) if each.strip()]
    if sentences is not None and not others:
        raise DataError(f"{sentences}: no sentence; give a text file")
    count = min(len(others), _OTHERS)
    others = [others[len(others) * number // count] for number in range(count)]
    first, second = pieces.texts
    changed = [(second, first), *((first, other) for other in others)]
    swapped, *of_others = (_score_pair(network, pieces_of(network, pair))[1] for pair in changed)
    return NextSentence(objective, probability, swapped, list(zip(others, of_others, strict=True)))


def _score_pair(network: Network, pieces: Pieces) -> tuple[Literal["next", "order"], float]:
    """Returns the objective of the head for pairs, and the probability that it holds; CheckpointError without one."""
    import torch

    with torch.inference_mode():
        outputs = network.model(**pieces.batch(network))
    objective: Literal["next", "order"] = "next"
    if "seq_relationship_logits" in outputs:
        logits = outputs["seq_relationship_logits"]
    elif "sop_logits" in outputs:
        objective, logits = "order", outputs["sop_logits"]
    elif type(network.model).__name__.endswith("ForNextSentencePrediction"):
        logits = outputs["logits"]
    else:
        raise CheckpointError(f"{network.name}: it has no head for the next sentence; BERT's pre-training has one")
    return objective, float(logits[0].float().softmax(dim=-1)[0])  # index 0: it follows, or the order is right
