"""Words as items: the vector of the first piece of each word, as in fine-tuning (BERT §5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.features.choosing.frozen import FrozenTask, frozen_task
from bertkit.tasks.base import Outputs
from bertkit.tasks.ner.inputs import NO_WORD
from bertkit.tasks.ner.task import NerTask
from bertkit.tasks.splits import Columns

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


class FrozenWords(FrozenTask):
    """Tagging of words; an item is a word with a piece."""

    task: NerTask

    def vectors(self, states: Tensor, row: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
        """Returns ``word``, (L + 1, items, H)."""
        return {"word": states[:, _find_tagged(row["word_ids"])]}

    def targets(self, features: Columns) -> np.ndarray:
        rows = zip(features["labels"], features["word_ids"], strict=True)
        return np.concatenate([np.asarray(labels)[_find_tagged(words)] for labels, words in rows])

    def examples(self, features: Columns) -> np.ndarray:
        return np.repeat(features["example"], [len(_find_tagged(words)) for words in features["word_ids"]])

    def outputs(self, logits: np.ndarray, features: Columns) -> Outputs:
        longest = max(map(len, features["word_ids"]))
        outputs = np.zeros((len(features["word_ids"]), longest, self.classes))
        start = 0
        for row, words in enumerate(features["word_ids"]):
            positions = _find_tagged(words)
            outputs[row, positions] = logits[start : start + len(positions)]
            start += len(positions)
        return outputs


def _find_tagged(word_ids: Any) -> np.ndarray:
    """Returns the positions of the tokens that have a tag."""
    return np.flatnonzero(np.asarray(word_ids) != NO_WORD)


frozen_task.register(NerTask, FrozenWords)
