"""Probability that the second text follows the first, by the head of pre-training; for ALBERT that of their order."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from bertkit.data.corpus.sentences import split_sentences
from bertkit.features.explain.network import Network
from bertkit.features.explain.pieces import Pieces, pieces_of
from bertkit.runtime.errors import CheckpointError, DataError
from bertkit.runtime.reading.text import read_text, split_lines

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
    objective, probability = _pair_probability(network, pieces)
    if len(pieces.texts) < 2:
        raise DataError("give a second text to see whether it follows the first")
    lines = [] if sentences is None else split_lines(read_text(sentences))
    others = [each for line in lines for each in split_sentences(line) if each.strip()]
    if sentences is not None and not others:
        raise DataError(f"{sentences}: no sentence; give a text file")
    others = others[:: max(1, len(others) // _OTHERS)][:_OTHERS]
    first, second = pieces.texts
    changed = [(second, first), *((first, other) for other in others)]
    swapped, *of_others = (_pair_probability(network, pieces_of(network, pair))[1] for pair in changed)
    return NextSentence(objective, probability, swapped, list(zip(others, of_others, strict=True)))


def _pair_probability(network: Network, pieces: Pieces) -> tuple[Literal["next", "order"], float]:
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
