"""Predictions of a masked language model for [MASK] (BERT §3.1, Task #1), and probabilities of the pieces of words.

A piece of a word is predicted with the further pieces of its word masked too (Kauf and Ivanova, 2023): otherwise the
rest of a cut word gives it away, and rare words seem probable. The sum over pieces is the pseudo-log-likelihood
(Salazar et al., 2020).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from bertkit.inference.forward import forward_in_batches
from bertkit.model.checkpoint.encoders import longest_input, model_inputs
from bertkit.runtime.errors import CheckpointError, RecipeError, raise_all
from bertkit.runtime.progress import unreported
from bertkit.tasks.base import padded

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

_TOKENS = 1024  # of a batch of masked pieces, whose logits are (tokens, vocabulary)


@dataclass(frozen=True)
class MaskPrediction:
    """One prediction for one mask.

    Attributes:
        token: the piece of the vocabulary.
        probability: the token's probability at that position, in [0, 1].
        text: the text with the token in place of this mask; other masks stay.
    """

    token: str
    probability: float
    text: str


def check_fills(name: str, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, head: str | None) -> None:
    """Raises CheckpointError unless a checkpoint may predict masked tokens; ``head`` is that of a fine-tuned one."""
    if head is not None:
        raise CheckpointError(
            f"{name}: it was fine-tuned ({head}) and has no masked-LM head; give a pre-trained checkpoint"
        )
    if tokenizer.mask_token_id is None:
        raise CheckpointError(f"{name}: its tokenizer has no mask token")
    if getattr(config, "attention", None) == "left_to_right":
        raise CheckpointError(
            f"{name}: its attention is left to right, so it predicts the next token and fills no masks; it can embed "
            "texts, or be fine-tuned"
        )


class MaskedPiece(NamedTuple):
    """A piece of a word that is predicted.

    Attributes:
        row: number of its text.
        position: its token; this and those up to ``end`` are masked.
        end: the token after the last one of its word.
    """

    row: int
    position: int
    end: int


class MaskFiller:
    """A masked language model with its tokenizer; `bertkit.load` builds it."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch_size: int, name: str):
        self.model = model
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.name = name
        self.inputs = model_inputs(model.config)
        self.mask_id = tokenizer.mask_token_id
        self._special_ids = frozenset(tokenizer.all_special_ids)
        self._vocabulary: dict[str, int] = tokenizer.get_vocab()

    def fill(
        self, texts: Sequence[str], top_k: int, targets: Sequence[str] | None = None
    ) -> list[list[list[MaskPrediction]]]:
        """See `bertkit.inference.loaded.LoadedCheckpoint.fill_mask`.

        Args:
            targets: pieces of the vocabulary; only these are returned. ``None`` is the whole vocabulary.
        """
        import torch

        vocabulary = self._vocabulary
        chosen_ids = set(vocabulary.values())
        if targets is not None:
            if unknown := [target for target in targets if target not in vocabulary]:
                raise RecipeError(f"targets: {unknown[0]!r} is not in the vocabulary of {self.name}")
            chosen_ids = {vocabulary[target] for target in targets}
            top_k = min(top_k, len(chosen_ids))
        if not 1 <= top_k <= len(chosen_ids):
            raise RecipeError(f"top_k {top_k}: expected 1 to {len(chosen_ids)}, the size of the vocabulary")
        if not texts:
            return []
        encoded = self.tokenizer(list(texts), return_offsets_mapping=True, return_token_type_ids=True)
        self._check(texts, encoded["input_ids"])
        ids = encoded["input_ids"]
        # Models may have more rows than the vocabulary has tokens, such as a multiple of 64.
        known = torch.tensor(sorted(chosen_ids), device=self.model.device)

        def collate(numbers: list[int]) -> Mapping[str, Tensor]:
            rows = [{name: encoded[name][row] for name in self.inputs} for row in numbers]
            return padded(rows, self.tokenizer, self.inputs)

        def keep(numbers: list[int], outputs: Any) -> Iterator[list[list[MaskPrediction]]]:
            for row, scores in zip(numbers, outputs.logits, strict=True):
                masks = [position for position, token in enumerate(ids[row]) if token == self.mask_id]
                best = scores[masks].float().softmax(dim=-1)[:, known].topk(top_k)
                offsets = encoded["offset_mapping"][row]
                guesses = zip(known[best.indices].tolist(), best.values.tolist(), strict=True)
                yield [
                    [
                        self._prediction(texts[row], offsets[position - 1], offsets[position], *guess)
                        for guess in zip(*each, strict=True)
                    ]
                    for position, each in zip(masks, guesses, strict=True)
                ]

        return forward_in_batches(self.model, list(map(len, ids)), collate, keep, self.batch_size, self.name)

    def predict_pieces(
        self, texts: Sequence[Mapping[str, Sequence[int]]], pieces: Sequence[MaskedPiece], best: int = 0
    ) -> list[tuple[float, list[tuple[str, float]]]]:
        """Masks pieces of words, one at a time, and predicts each.

        Args:
            texts: ``input_ids``, and ``token_type_ids`` where the model takes them, of each text with its special
                tokens.
            pieces: the pieces, in any order.
            best: number of the most probable pieces that are returned.

        Returns:
            For each piece its log-probability, natural logarithm, and the most probable pieces with their
            probabilities.

        Raises:
            CheckpointError: an output is NaN or infinite.
        """
        import torch

        known = torch.tensor(sorted(self._vocabulary.values()), device=self.model.device)

        def collate(numbers: list[int]) -> Mapping[str, Tensor]:
            columns = []
            for piece in (pieces[number] for number in numbers):
                whole = {**texts[piece.row], "attention_mask": [1] * len(texts[piece.row]["input_ids"])}
                ids = list(whole["input_ids"])
                ids[piece.position : piece.end] = [self.mask_id] * (piece.end - piece.position)
                columns.append({name: ids if name == "input_ids" else whole[name] for name in self.inputs})
            return padded(columns, self.tokenizer, self.inputs)

        def keep(numbers: list[int], outputs: Any) -> Iterator[tuple[float, list[tuple[str, float]]]]:
            logits = outputs["prediction_logits"] if "prediction_logits" in outputs else outputs["logits"]
            for number, of_row in zip(numbers, logits, strict=True):
                piece = pieces[number]
                logs = of_row[piece.position].float().log_softmax(dim=-1)
                top = logs[known].topk(min(best, len(known)))
                tokens = self.tokenizer.convert_ids_to_tokens(known[top.indices].tolist())
                true = int(texts[piece.row]["input_ids"][piece.position])
                yield float(logs[true]), list(zip(tokens, top.values.exp().tolist(), strict=True))

        lengths = [len(texts[piece.row]["input_ids"]) for piece in pieces]
        size = max(1, _TOKENS // max(lengths, default=1))
        return forward_in_batches(self.model, lengths, collate, keep, size, self.name, unreported)

    def _check(self, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        """Refuses texts without a mask and texts longer than the model's input."""
        longest = longest_input(self.model.config)
        faults = []
        for number, (text, of_text) in enumerate(zip(texts, ids, strict=True), start=1):
            if self.mask_id not in of_text:
                faults.append(
                    f"text {number}: no {self.tokenizer.mask_token} in {text[:60]!r}; mark the place to predict"
                )
            if len(of_text) > longest:
                faults.append(
                    f"text {number}: {len(of_text)} tokens, but {self.name} takes at most {longest}; shorten it"
                )
        raise_all(faults)

    def _prediction(
        self, text: str, before: tuple[int, int], mask: tuple[int, int], token_id: int, probability: float
    ) -> MaskPrediction:
        """Returns a prediction; ``before`` and ``mask`` are the characters of the token before the mask and of its own.

        The blank before the mask is part of the predicted piece, except in WordPiece, and no token before the mask has
        it. So a piece that begins a word has one blank before it, that of the text if there is one, and a piece that
        continues a word has none.
        """
        piece = self.tokenizer.convert_ids_to_tokens(token_id)
        # After another token, since decoders remove the blank of the first piece.
        following = self.tokenizer.decode([self.mask_id, token_id], clean_up_tokenization_spaces=False)
        decoded = following.removeprefix(self.tokenizer.mask_token)
        word = decoded.lstrip()
        # Tokens such as <mask> extend over the blank before them.
        start = mask[1] - len(text[mask[0] : mask[1]].lstrip())
        kept = text[: max(before[1], len(text[:start].rstrip()))]
        blank = ""
        if len(word) < len(decoded) or token_id in self._special_ids:
            blank = text[len(kept) : start] or (" " if piece != word and kept == kept.rstrip() != "" else "")
        return MaskPrediction(piece, probability, kept + blank + word + text[mask[1] :])
