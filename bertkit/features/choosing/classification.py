"""Texts and pairs as items: [CLS], the mean over the tokens, and for pairs how the means of both texts differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.features.choosing.frozen import FrozenTask, frozen_task
from bertkit.inference.facts import most_frequent
from bertkit.runtime.errors import RecipeError
from bertkit.tasks.base import Outputs
from bertkit.tasks.classification.text_classification import TextClassification
from bertkit.tasks.splits import Columns

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


class FrozenTexts(FrozenTask):
    """Classification or regression of texts or pairs; an item is an example."""

    task: TextClassification

    def __init__(self, task: TextClassification):
        super().__init__(task)
        if task.data.long_text == "chunk":
            raise RecipeError("data.long_text: choose reads the first part of long texts only; remove chunk")

    def vectors(self, states: Tensor, row: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
        """Returns ``cls`` and ``mean``, (L + 1, 1, H); for pairs also ``pair``, (L + 1, 1, 2 * H).

        ``pair`` joins |u − v| and u · v (Conneau et al. 2017, "Supervised Learning of Universal Sentence
        Representations from Natural Language Inference Data"), where u and v are the means over the tokens of the
        first text and over the rest from its separator. Both are read together. Without a separator in the row, each
        is half of it.
        """
        vectors = {"cls": states[:, :1], "mean": states.mean(dim=1, keepdim=True)}
        if len(self.task.settings.text_columns) == 2:
            ids, separator = row["input_ids"], tokenizer.sep_token_id
            end = ids.index(separator) if separator in ids[1:-1] else len(ids) // 2
            u, v = (part.mean(dim=1, keepdim=True) for part in (states[:, 1 : max(end, 2)], states[:, end:]))
            import torch

            vectors["pair"] = torch.cat([(u - v).abs(), u * v], dim=-1)
        return vectors

    def targets(self, features: Columns) -> np.ndarray:
        return np.asarray(features["labels"])

    def examples(self, features: Columns) -> np.ndarray:
        return np.arange(len(features["input_ids"]))

    def most_frequent(self, references: Sequence[Any]) -> tuple[str, Any] | None:
        if self.task.problem_type != "single_label_classification":
            return None
        value = most_frequent(np.asarray(references).tolist())
        return self.task.to_labels([value])[0], value

    def outputs(self, logits: np.ndarray, features: Columns) -> Outputs:
        return logits


frozen_task.register(TextClassification, FrozenTexts)
