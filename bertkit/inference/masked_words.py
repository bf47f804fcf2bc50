"""Probabilities of the pieces of masked words by a masked language model.

A piece is predicted with the further pieces of its word masked too (Kauf and Ivanova, 2023): otherwise the rest of a
cut word gives it away, and rare words seem probable. The sum over pieces is the pseudo-log-likelihood (Salazar et al.,
2020).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bertkit.inference.forward import forward_in_batches
from bertkit.runtime.progress import unreported
from bertkit.tasks.base import padded

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_TOKENS = 1024  # of a batch, whose logits are (tokens, vocabulary)


class MaskedPiece(NamedTuple):
    """A piece that is predicted.

    Attributes:
        row: number of its text.
        position: its token; this and those up to ``end`` are masked.
        end: the token after the last one of its word.
    """

    row: int
    position: int
    end: int


class PiecePrediction(NamedTuple):
    """What a model predicts in place of a piece.

    Attributes:
        log_probability: of the true piece, natural logarithm.
        best: the most probable pieces and their probabilities.
    """

    log_probability: float
    best: list[tuple[str, float]]


def predict_pieces(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    inputs: Sequence[str],
    name: str,
    texts: Sequence[Mapping[str, Sequence[int]]],
    pieces: Sequence[MaskedPiece],
    best: int = 0,
) -> list[PiecePrediction]:
    """Masks pieces, one at a time, and returns the prediction of each; CheckpointError if an output is NaN or infinite.

    Args:
        model: a masked language model.
        tokenizer: its tokenizer, with a mask token.
        inputs: names of the inputs that the model takes.
        name: name of the checkpoint, for messages.
        texts: ``input_ids``, and ``token_type_ids`` where the model takes them, of each text with its special tokens.
        pieces: the pieces, in any order.
        best: number of the most probable pieces that are returned.
    """
    import torch

    known = torch.tensor(sorted(tokenizer.get_vocab().values()), device=model.device)

    def collate(numbers: list[int]) -> Mapping[str, Tensor]:
        columns = []
        for piece in (pieces[number] for number in numbers):
            whole = {**texts[piece.row], "attention_mask": [1] * len(texts[piece.row]["input_ids"])}
            ids = list(whole["input_ids"])
            ids[piece.position : piece.end] = [tokenizer.mask_token_id] * (piece.end - piece.position)
            columns.append({name: ids if name == "input_ids" else whole[name] for name in inputs})
        return padded(columns, tokenizer, inputs)

    def keep(numbers: list[int], outputs: Any) -> Iterator[PiecePrediction]:
        logits = outputs["prediction_logits"] if "prediction_logits" in outputs else outputs["logits"]
        for number, of_row in zip(numbers, logits, strict=True):
            piece = pieces[number]
            logs = of_row[piece.position].float().log_softmax(dim=-1)
            top = logs[known].topk(min(best, len(known)))
            tokens = tokenizer.convert_ids_to_tokens(known[top.indices].tolist())
            true = int(texts[piece.row]["input_ids"][piece.position])
            yield PiecePrediction(float(logs[true]), list(zip(tokens, top.values.exp().tolist(), strict=True)))

    lengths = [len(texts[piece.row]["input_ids"]) for piece in pieces]
    size = max(1, _TOKENS // max(lengths, default=1))
    return forward_in_batches(model, lengths, collate, keep, size, name, unreported)
