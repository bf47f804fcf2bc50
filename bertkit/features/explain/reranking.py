"""Attribution of the score of a query and a passage: its logit, or the score itself, which is a probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bertkit.features.explain.attribution import Subject, Target, subject_of
from bertkit.features.explain.classification import subject_of_texts
from bertkit.features.explain.network import Network
from bertkit.tasks.reranking import RerankingTask

if TYPE_CHECKING:
    from torch import Tensor


@subject_of.register
def _(task: RerankingTask, network: Network, texts: Sequence[str], label: str | None, window: int | None) -> Subject:
    def logit(outputs: Any) -> Tensor:
        return outputs["logits"][:, 0]

    def probability(outputs: Any) -> Tensor:
        return logit(outputs).float().sigmoid()

    subject = subject_of_texts(task, network, texts, label, window)
    return replace(subject, targets=[Target("relevance", logit, as_probability=probability)])
