"""Distillation of entities and other tags of words: the tokens that carry them are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from bertkit.distillation.kinds import Distilled, distilled
from bertkit.tasks.ner.inputs import NO_WORD
from bertkit.tasks.ner.task import NerTask


class DistilledTags(Distilled):
    """Words with tags, whose first tokens have outputs that count."""

    def predicted_tokens(self, row: Mapping[str, Any]) -> Sequence[bool]:
        return [word != NO_WORD for word in row["word_ids"]]

    def count(self, rows: Tensor, tokens: Tensor | None) -> Tensor:
        assert tokens is not None
        return (tokens & rows.unsqueeze(1)).sum()


@distilled.register
def _(task: NerTask) -> Distilled:
    return DistilledTags(task)
