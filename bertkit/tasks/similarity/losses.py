"""Vectors of texts from an encoder, and the losses of sentence-transformers on them.

The losses are modules of sentence-transformers, which call a model on the texts of each column. In place of a
``SentenceTransformer`` they get `_Columns`: it hands them vectors that bertkit's Trainer has computed, or computes them
in pieces where a loss keeps gradients (GradCache, Gao et al. 2021). So a run has the batches, checkpoints and speed-ups
of all others.

Dimension letters: B examples, C texts of an example, S tokens, H numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers.utils import ModelOutput

from bertkit.runtime.errors import importing

if TYPE_CHECKING:
    from bertkit.tasks.similarity.settings import TaskSettings

CLASSIFIER = "similarity_classifier"
"""Name of the layer of a model that classifies pairs of vectors in training; inference does not use it."""

_VECTOR = "sentence_embedding"  # key of sentence-transformers


def check_extra() -> None:
    """Raises RecipeError unless sentence-transformers is installed."""
    with importing("the training of similarity", "sentence-transformers"):
        import sentence_transformers  # noqa: F401


class SentenceForward:
    """The forward pass of an encoder on B examples of C texts, in place of that of the model.

    It returns ``embeddings`` (B, C, H); in runs whose model has a `CLASSIFIER` also ``logits`` (B, K) of K classes, as
    sentence-transformers' ``SoftmaxLoss`` computes them; and in training with ``mini_batch_size`` only the ``loss``,
    whose backward pass computes the vectors again in pieces.
    """

    def __init__(self, model: Any, task: TaskSettings):
        self._model, self._forward, self._task = model, model.forward, task

    def __call__(self, *args: Any, **columns: Any) -> Any:
        input_ids = columns.get("input_ids")
        if input_ids is None or input_ids.ndim != 3:  # as an encoder, such as for attention and layers
            return self._forward(*args, **columns)
        if self._task.mini_batch_size and self._model.training and torch.is_grad_enabled():
            return ModelOutput(loss=self._cached_loss(columns))
        flat = {name: values.flatten(0, 1) for name, values in columns.items()}
        vectors = self.vectors(**flat).view(*input_ids.shape[:2], -1)
        classifier: nn.Linear | None = getattr(self._model, CLASSIFIER, None)
        if classifier is None or torch.is_inference_mode_enabled():  # not in training and its evaluations
            return ModelOutput(embeddings=vectors)
        from sentence_transformers.sentence_transformer import losses

        columns_of_loss: Any = _Columns(vectors.shape[-1])
        loss = losses.SoftmaxLoss(columns_of_loss, vectors.shape[-1], classifier.out_features)
        loss.classifier = classifier
        _, logits = loss([{_VECTOR: each} for each in vectors.unbind(dim=1)], None)
        return ModelOutput(embeddings=vectors, logits=logits)

    def vectors(self, attention_mask: Tensor, **inputs: Tensor) -> Tensor:
        """Returns the pooled vectors of texts, (N, H).

        Args:
            attention_mask, inputs: as those of the model, (N, S).
        """
        states = self._forward(attention_mask=attention_mask, **inputs).last_hidden_state
        if self._task.pooling == "cls":
            return states[:, 0]
        mask = attention_mask[..., None]
        if self._task.pooling == "max":
            return states.masked_fill(mask == 0, torch.finfo(states.dtype).min).amax(dim=1)
        weights = mask.to(states.dtype)
        return (states * weights).sum(dim=1) / weights.sum(dim=1)

    def _cached_loss(self, columns: Mapping[str, Tensor]) -> Tensor:
        """Returns the mean loss of a batch, 0-d, whose backward pass computes the gradients in pieces."""
        device = columns["input_ids"].device.type
        is_autocast, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)

        def vectors(**inputs: Tensor) -> Tensor:
            # The backward pass is outside of the Trainer's autocast. A cache would keep weights without gradients.
            with torch.autocast(device, dtype, enabled=is_autocast, cache_enabled=False):
                return self.vectors(**inputs)

        number = columns["input_ids"].shape[1]
        features = [{name: values[:, column] for name, values in columns.items()} for column in range(number)]
        loss = contrastive_loss(self._task, vectors, self._model.config.hidden_size)
        result: Tensor = loss(features, None)
        return result


class _Columns(nn.Sequential):
    """A ``SentenceTransformer`` for losses: features of a column → their vectors, (B, H).

    Args:
        size: H.
        vectors: computes vectors from the inputs of a model; ``None`` where the features are vectors.
    """

    def __init__(self, size: int, vectors: Callable[..., Tensor] | None = None):
        super().__init__(nn.Identity())  # some losses look at the first module
        self._size, self._vectors = size, vectors

    def forward(self, features: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if self._vectors is None:
            return dict(features)
        return {_VECTOR: self._vectors(**features)}

    def get_embedding_dimension(self) -> int:
        return self._size

    @property
    def device(self) -> torch.device:
        """Where a loss makes layers of its own: nowhere, and without random numbers; those of the model replace
        them."""
        return torch.device("meta")


def contrastive_loss(task: TaskSettings, vectors: Callable[..., Tensor] | None, size: int) -> nn.Module:
    """Returns the loss of pairs and triplets: the positive among all texts of the batch (multiple negatives).

    Args:
        task: settings; with ``mini_batch_size`` the loss computes vectors in pieces if it gets ``vectors``.
        vectors: as for `_Columns`.
        size: H.
    """
    from sentence_transformers.sentence_transformer import losses

    model: Any = _Columns(size, vectors)
    if vectors is None:
        loss = losses.MultipleNegativesRankingLoss(model, scale=task.scale)
    else:
        loss = losses.CachedMultipleNegativesRankingLoss(
            model, scale=task.scale, mini_batch_size=int(task.mini_batch_size or 1)
        )
    return _nested(loss, model, task)


def _nested(loss: nn.Module, model: Any, task: TaskSettings) -> nn.Module:
    """Returns the sum of a loss over whole vectors and their beginnings, if the task has ``matryoshka_dims``."""
    if not task.matryoshka_dims:
        return loss
    from sentence_transformers.sentence_transformer import losses

    return losses.MatryoshkaLoss(model, loss, [*{model.get_embedding_dimension(), *task.matryoshka_dims}])


def loss_of_vectors(task: TaskSettings, embeddings: Tensor, labels: Tensor) -> Tensor:
    """Computes the mean loss of a batch, 0-d: CoSENT for scored pairs, multiple negatives for pairs and triplets.

    Args:
        task: settings with their ``form``.
        embeddings: (B, C, H).
        labels: (B,) scores.
    """
    size = embeddings.shape[-1]
    features = [{_VECTOR: each} for each in embeddings.unbind(dim=1)]
    if task.form == "scored_pairs":
        from sentence_transformers.sentence_transformer import losses

        model: Any = _Columns(size)
        loss = _nested(losses.CoSENTLoss(model, scale=task.scale), model, task)
    else:
        loss = contrastive_loss(task, None, size)
    result: Tensor = loss(features, labels)
    return result


def add_classifier(model: Any, classes: int) -> None:
    """Adds the layer that classifies pairs of vectors u and v by u, v and |u − v|, as SBERT (2019) does in training."""
    layer = nn.Linear(3 * model.config.hidden_size, classes)
    setattr(model, CLASSIFIER, layer.to(model.device))
