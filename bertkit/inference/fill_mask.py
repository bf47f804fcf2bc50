"""Predictions of a masked language model: for [MASK] in texts (BERT §3.1, Task #1), and for words that are masked here.

The pieces of a word are masked together (Kauf and Ivanova, 2023), those before the predicted one excepted: otherwise
the rest of a cut word gives a piece away, and rare words seem probable. The sum of their log-probabilities is the
pseudo-log-likelihood of the word (Salazar et al., 2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from bertkit.inference.forward import forward_in_batches
from bertkit.model.checkpoint.encoders import longest_input, model_inputs
from bertkit.runtime.errors import CheckpointError, RecipeError, raise_all
from bertkit.runtime.progress import unreported
from bertkit.tasks.base import padded

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

_TOKENS = 1024  # of a batch, whose logits are (tokens, vocabulary)

T = TypeVar("T")


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


class MaskedWord(NamedTuple):
    """A word that is predicted: the tokens from ``start`` up to ``end`` of the text with the number ``row``."""

    row: int
    start: int
    end: int


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


class MaskFiller:
    """A masked language model with its tokenizer, which `check_fills` accepts."""

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
        encoded = self.tokenizer(list(texts), return_offsets_mapping=True, return_token_type_ids=True, verbose=False)
        longest, faults = longest_input(self.model.config), []
        for number, (text, ids) in enumerate(zip(texts, encoded["input_ids"], strict=True), start=1):
            if self.mask_id not in ids:
                faults.append(
                    f"text {number}: no {self.tokenizer.mask_token} in {text[:60]!r}; mark the place to predict"
                )
            if len(ids) > longest:
                faults.append(f"text {number}: {len(ids)} tokens, but {self.name} takes at most {longest}; shorten it")
        raise_all(faults)
        # Models may have more rows than the vocabulary has tokens, such as a multiple of 64.
        known = torch.tensor(sorted(chosen_ids), device=self.model.device)
        rows = [{name: encoded[name][row] for name in self.inputs} for row in range(len(texts))]
        masks = [
            [position for position, token in enumerate(ids) if token == self.mask_id] for ids in encoded["input_ids"]
        ]

        def predict(row: int, scores: Tensor) -> list[list[MaskPrediction]]:
            best = scores.softmax(dim=-1)[:, known].topk(top_k)
            offsets = [(0, 0), *encoded["offset_mapping"][row]]  # not all tokenizers have a token before the text
            guesses = zip(known[best.indices].tolist(), best.values.tolist(), strict=True)
            return [
                [
                    self._prediction(texts[row], offsets[position], offsets[position + 1], *guess)
                    for guess in zip(*each, strict=True)
                ]
                for position, each in zip(masks[row], guesses, strict=True)
            ]

        return self._at(masks, rows, predict, self.batch_size)

    def predict_words(
        self, texts: Sequence[Mapping[str, Sequence[int]]], words: Sequence[MaskedWord], best: int = 0
    ) -> list[tuple[float, list[tuple[str, float]]]]:
        """Masks words, one at a time, and returns what is predicted in place of each.

        Args:
            texts: ``input_ids``, and ``token_type_ids`` where the model takes them, of each text with its special
                tokens.
            words: the words, in any order.
            best: number of the most probable pieces that are returned.

        Returns:
            For each word its log-probability, natural and the sum over its pieces, and the most probable pieces in
            place of the first one with their probabilities.

        Raises:
            CheckpointError: an output is NaN or infinite.
        """
        import torch

        known = torch.tensor(sorted(self._vocabulary.values()), device=self.model.device)
        pieces = [(word, position) for word in words for position in range(word.start, word.end)]
        rows = []
        for word, position in pieces:
            ids = list(texts[word.row]["input_ids"])
            ids[position : word.end] = [self.mask_id] * (word.end - position)
            whole = {**texts[word.row], "input_ids": ids, "attention_mask": [1] * len(ids)}
            rows.append({name: whole[name] for name in self.inputs})

        def predict(number: int, scores: Tensor) -> tuple[float, list[tuple[str, float]]]:
            word, position = pieces[number]
            logs = scores[0].log_softmax(dim=-1)
            top = logs[known].topk(min(best, len(known)))
            tokens = self.tokenizer.convert_ids_to_tokens(known[top.indices].tolist())
            true = int(texts[word.row]["input_ids"][position])
            return float(logs[true]), list(zip(tokens, top.values.exp().tolist(), strict=True))

        size = max(1, _TOKENS // max((len(row["input_ids"]) for row in rows), default=1))
        predicted = iter(self._at([[position] for _, position in pieces], rows, predict, size, unreported))
        predictions = []
        for word in words:
            of_word = [next(predicted) for _ in range(word.start, word.end)]
            predictions.append((math.fsum(log for log, _ in of_word), of_word[0][1]))
        return predictions

    def _at(
        self,
        positions: Sequence[Sequence[int]],
        rows: Sequence[Mapping[str, Sequence[int]]],
        predict: Callable[[int, Tensor], T],
        batch_size: int,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> list[T]:
        """Runs the model over rows; ``predict`` makes the result of one from the logits at its positions, (P, V)."""

        def collate(numbers: list[int]) -> Mapping[str, Tensor]:
            return padded([rows[number] for number in numbers], self.tokenizer, self.inputs)

        def keep(numbers: list[int], outputs: Any) -> Iterator[T]:
            # BERT's heads of pre-training have logits of the next sentence too.
            logits = outputs["prediction_logits"] if "prediction_logits" in outputs else outputs["logits"]
            for number, scores in zip(numbers, logits, strict=True):
                yield predict(number, scores[positions[number]].float())

        lengths = [len(row["input_ids"]) for row in rows]
        return forward_in_batches(self.model, lengths, collate, keep, batch_size, self.name, on_progress)

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
