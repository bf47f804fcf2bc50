"""Restricts the trained token embedding to the tokens that occur in the training set.

The other rows of the table have zero gradients in all steps, so AdamW changes them by weight decay only. Their zero
gradients and moments are nevertheless written and read in every step: with a small model or a multilingual vocabulary
this takes a large part of the time and memory of a step on a CPU. Here the parameter has only the rows that occur, and
the decay of the others is applied when they are read. Weights, checkpoints and optimizer states contain the whole
table.

Dimensions: V ids, H numbers in a row, n rows that occur.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from datasets import Dataset
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle
from transformers import Trainer
from transformers.training_args import OptimizerNames

from bertkit.errors import CheckpointError

_ADAMW = (OptimizerNames.ADAMW_TORCH, OptimizerNames.ADAMW_TORCH_FUSED)
_WORTH_IT = 0.75  # maximum fraction of the rows that occur
_ROWS_READ = 10_000


class CompactEmbedding(nn.Embedding):
    """``nn.Embedding`` whose ``weight``, (n, H), has the rows of a subset of ids; created by `compact_embedding`.

    With gradients enabled it accepts only these ids and raises ``IndexError`` for others; without gradients it accepts
    all. A state dict contains `table`, a snapshot that later steps do not change until `table` is called again.

    Attributes:
        whole: (V, H), all rows at the last call of `table`.
        ids: (n,) int64, the ids of the rows of ``weight``, in ascending order.
        row_of: (V,) int64, the row of each id in ``weight``, or -1.
        padding_row: the row of ``padding_idx``, or None.
        decay: accumulated weight-decay factor of the other rows since the last call of `table`, in (0, 1].
        is_stale: whether there was a step since the last call of `table`.
        hooks: hooks on the optimizer, removed when the original embedding is restored.
    """

    whole: Tensor
    ids: Tensor
    row_of: Tensor
    padding_row: int | None
    decay: float
    is_stale: bool
    hooks: list[RemovableHandle]

    def forward(self, input_ids: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return F.embedding(input_ids, self.table())
        return F.embedding(self.row_of[input_ids], self.weight, self.padding_row)

    @torch.no_grad()
    def table(self) -> Tensor:
        """Returns all rows in their current state, (V, H)."""
        if self.is_stale:
            self.whole.mul_(self.decay)
            self.whole[self.ids] = self.weight
            self.decay, self.is_stale = 1.0, False
        return self.whole

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        destination[f"{prefix}weight"] = self.table()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        table = state_dict.get(f"{prefix}weight")
        if table is None or table.shape != self.whole.shape:
            # The shape differs from that of the weight, so torch reports the error.
            super()._load_from_state_dict(state_dict, prefix, *args)
            return
        self.whole.copy_(table)
        self.decay, self.is_stale = 1.0, False
        super()._load_from_state_dict({f"{prefix}weight": table[self.ids]}, prefix, *args)

    def follow(self, optimizer: Optimizer) -> None:
        """Registers hooks that track the steps of the optimizer of ``weight``; its state dict has moments of all
        rows."""
        group, position = next(
            (group, position)
            for group, members in enumerate(optimizer.param_groups)
            for position, member in enumerate(members["params"])
            if member is self.weight
        )
        number = position + sum(len(members["params"]) for members in optimizer.param_groups[:group])

        def after_step(optimizer: Optimizer, *_: Any) -> None:
            if self.weight.grad is not None:  # without a gradient AdamW applies no decay
                settings = optimizer.param_groups[group]
                self.decay *= 1 - float(settings["lr"]) * settings["weight_decay"]
                self.is_stale = True

        def widen(moments: Tensor) -> Tensor:
            return moments.new_zeros(self.whole.shape).index_copy_(0, self.ids, moments)

        def narrow(moments: Tensor) -> Tensor:
            if moments.count_nonzero() != moments[self.ids].count_nonzero():
                raise CheckpointError(
                    "the optimizer's state has moments of tokens that do not occur in the training set, or is not "
                    "finite; go on with placement.cpu_speed_ups=false"
                )
            return moments[self.ids]

        def changed(state_dict: dict[str, Any], change: Any, shape: torch.Size) -> dict[str, Any]:
            own = state_dict["state"].get(number)
            if own is None:
                return state_dict
            values = {
                name: change(value) if isinstance(value, Tensor) and value.shape == shape else value
                for name, value in own.items()
            }
            return {**state_dict, "state": {**state_dict["state"], number: values}}

        self.hooks += [
            optimizer.register_step_post_hook(after_step),
            optimizer.register_state_dict_post_hook(
                lambda optimizer, state_dict: changed(state_dict, widen, self.weight.shape)
            ),
            optimizer.register_load_state_dict_pre_hook(
                lambda optimizer, state_dict: changed(state_dict, narrow, self.whole.shape)
            ),
        ]


def occurring_ids(inputs: Dataset, also: list[int], size: int) -> Tensor:
    """Returns the ids in a data set's ``input_ids``, lists of any depth, and in ``also``: (n,) int64, in ascending
    order.

    Args:
        inputs: the data set.
        also: additional ids that may occur in batches, such as the padding id.
        size: V.

    Raises:
        CheckpointError: an id is not in [0, V).
    """
    occurs = np.zeros(size, dtype=bool)
    occurs[[token for token in also if token < size]] = True
    for part in inputs.select_columns("input_ids").with_format("arrow").iter(_ROWS_READ):
        ids: Any = part["input_ids"]
        while pa.types.is_nested(ids.type):
            ids = pc.list_flatten(ids)
        found = ids.to_numpy()
        if found.max(initial=0) >= size:
            raise CheckpointError(
                f"the tokenizer gives a token the id {found.max()}, but the model has embeddings for {size} ids; take "
                "both from one checkpoint"
            )
        occurs[found] = True
    return torch.from_numpy(occurs.nonzero()[0])


def compact_embedding(trainer: Trainer, also: list[int]) -> AbstractContextManager[None]:
    """Returns a context in which the model's token embedding is a `CompactEmbedding`, if this is equivalent and faster.

    It is equivalent with AdamW if the inputs of the training set are known in advance, and the embedding is trained, is
    not tied to an output layer, and is a plain ``nn.Embedding`` without ``max_norm`` and ``scale_grad_by_freq``. It is
    considered faster if at least a quarter of the rows do not occur. On exit the model has its original embedding
    again, with the trained rows.

    Args:
        trainer: trainer with model and training set, without an optimizer.
        also: ids that may occur in batches in addition to those of the training set.

    Raises:
        CheckpointError: as `occurring_ids`.
    """
    model: Any = trainer.model
    inputs, embedding = trainer.train_dataset, model.get_input_embeddings()
    is_plain = type(embedding) is nn.Embedding and embedding.max_norm is None and not embedding.scale_grad_by_freq
    if not is_plain or not embedding.weight.requires_grad or trainer.args.optim not in _ADAMW:
        return nullcontext()
    owners = [name for name, each in model.named_parameters(remove_duplicate=False) if each is embedding.weight]
    if len(owners) > 1 or not isinstance(inputs, Dataset):
        return nullcontext()
    if embedding.padding_idx is not None:
        also = [*also, embedding.padding_idx]
    ids = occurring_ids(inputs, also, embedding.num_embeddings)
    return _compact(embedding, ids) if len(ids) <= _WORTH_IT * embedding.num_embeddings else nullcontext()


@contextmanager
def _compact(embedding: Any, ids: Tensor) -> Iterator[None]:
    parameter = embedding.weight
    row_of = torch.full((embedding.num_embeddings,), -1)
    row_of[ids] = torch.arange(len(ids))
    embedding.__class__ = CompactEmbedding
    for name, buffer in {"whole": parameter.detach(), "ids": ids, "row_of": row_of}.items():
        embedding.register_buffer(name, buffer, persistent=False)
    embedding.weight = nn.Parameter(parameter.detach()[ids])
    embedding.padding_row = None if embedding.padding_idx is None else int(row_of[embedding.padding_idx])
    embedding.decay, embedding.is_stale, embedding.hooks = 1.0, False, []
    try:
        yield
    finally:
        for hook in embedding.hooks:
            hook.remove()
        # They usually share memory, but DDP may allocate new memory for a model's buffers.
        parameter.detach().copy_(embedding.table())
        embedding.weight = parameter
        for name in ("whole", "ids", "row_of", "padding_row", "decay", "is_stale", "hooks"):
            delattr(embedding, name)
        embedding.__class__ = nn.Embedding


def compact_embeddings(model: nn.Module) -> list[CompactEmbedding]:
    """Returns the compact embeddings of a model."""
    return [module for module in model.modules() if isinstance(module, CompactEmbedding)]
