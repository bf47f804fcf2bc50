"""Speed-ups of training on CPUs; the interface of this package for the rest of bertkit.

They do not change results beyond rounding, except that dropout samples different units from the same distribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from bertkit.placement.processor import fast_products
from bertkit.placement.resolve import Placement
from bertkit.training.batches import Collate
from bertkit.training.cpu.dropout import ATTENTION, FastDropout, fast_dropout
from bertkit.training.cpu.lengths import bucket_lengths, group_by_length
from bertkit.training.cpu.malloc import keep_freed_memory


@dataclass(frozen=True, kw_only=True)
class CpuSpeedUps:
    """Speed-ups of a run; methods of speed-ups that are off return their arguments unchanged.

    Attributes:
        is_on: the run is on a CPU, and ``placement.cpu_speed_ups`` is not false.
        changes_lengths: batches may differ in length.
        compiles: the model is compiled by ``train.torch_compile``.
    """

    is_on: bool = False
    changes_lengths: bool = False
    compiles: bool = False

    def collator(
        self, collate: Collate, tokenizer: PreTrainedTokenizerBase, max_seq_length: int, label_columns: Sequence[str]
    ) -> Collate:
        """Returns the collator to fine-tune with.

        Args:
            collate: makes a batch of examples, padded to the longest of them.
            tokenizer: tokenizer with the padding ids.
            max_seq_length: maximum tokens of an input of the run.
            label_columns: names of the tensors of a batch that hold labels.
        """
        if not (self.is_on and self.changes_lengths):
            return collate
        return bucket_lengths(collate, tokenizer, max_seq_length, label_columns)

    def micro_batches(self, batches: list[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
        """Regroups the micro-batches of one pre-training step; their number and sizes stay the same.

        Args:
            batches: all micro-batches of this process in the step, padded on the right.
        """
        # torch.compile would compile the model for each length.
        is_on = self.is_on and self.changes_lengths and not self.compiles
        return group_by_length(batches) if is_on else batches

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Context that applies the speed-ups to a model and to this process during training.

        The process keeps freed memory until it ends.
        """
        if self.is_on:
            keep_freed_memory()
        if not self.is_on or self.compiles:  # Inductor fails on their autograd functions
            yield
            return
        with fast_dropout(model), fast_products(model.modules()):
            yield


def cpu_speed_ups(placement: Placement, *, compiles: bool = False) -> CpuSpeedUps:
    """Returns the speed-ups of a run in a placement.

    Args:
        placement: source of the device, ``cpu_speed_ups`` and ``fixed_shapes``.
        compiles: ``train.torch_compile`` is on.
    """
    return CpuSpeedUps(
        is_on=placement.device == "cpu" and placement.settings.cpu_speed_ups,
        changes_lengths=not placement.fixed_shapes,
        compiles=compiles,
    )


def attention_kernel(model: PreTrainedModel) -> tuple[str, int | None]:
    """Returns transformers' name of the attention kernel, and the bytes per element of dropout masks.

    The bytes are None for torch's dropout.
    """
    kernel = str(model.config._attn_implementation)
    is_fast = kernel == ATTENTION or any(isinstance(module, FastDropout) for module in model.modules())
    return "sdpa" if kernel == ATTENTION else kernel, 1 if is_fast else None
