"""Probability that the second text follows the first, by the head of pre-training; for ALBERT that of their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bertkit.data.corpus.sentences import split_sentences
from bertkit.features.explain.network import Network
from bertkit.features.explain.pieces import Pieces, pieces_of
from bertkit.runtime.errors import CheckpointError, DataError
from bertkit.runtime.reading.text import read_text, split_lines

if TYPE_CHECKING:
    from torch import Tensor

_OTHERS = 5


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
    if _pair_logits(network, pieces) is None:
        raise CheckpointError(f"{network.name}: it has no head for the next sentence; BERT's pre-training has one")
    if len(pieces.texts) < 2:
        raise DataError("give a second text to see whether it follows the first")
    first, second = pieces.texts
    objective, probability = _probability(network, pieces)
    _, swapped = _probability(network, pieces_of(network, [second, first]))
    others = []
    for sentence in _others(sentences) if sentences is not None else ():
        changed = pieces_of(network, [first, sentence])
        others.append((sentence, _probability(network, changed)[1]))
    return NextSentence(objective, probability, swapped, others)


def _others(file: str | Path) -> Sequence[str]:
    lines = split_lines(read_text(file))
    sentences = [each for line in lines for each in split_sentences(line) if each.strip()]
    if not sentences:
        raise DataError(f"{file}: no sentence; give a text file")
    step = max(1, len(sentences) // _OTHERS)
    return sentences[::step][:_OTHERS]


def _probability(network: Network, pieces: Pieces) -> tuple[Literal["next", "order"], float]:
    found = _pair_logits(network, pieces)
    assert found is not None  # checked by the caller
    objective, logits = found
    return objective, float(logits.float().softmax(dim=-1)[0])  # index 0: it follows, or the order is right


def _pair_logits(network: Network, pieces: Pieces) -> tuple[Literal["next", "order"], Tensor] | None:
    """Returns the objective of the head for pairs and its two logits; None without such a head."""
    import torch

    with torch.inference_mode():
        outputs = network.model(**pieces.batch(network))
    if "seq_relationship_logits" in outputs:
        return "next", outputs["seq_relationship_logits"][0]
    if "sop_logits" in outputs:
        return "order", outputs["sop_logits"][0]
    if type(network.model).__name__.endswith("ForNextSentencePrediction"):
        return "next", outputs["logits"][0]
    return None
