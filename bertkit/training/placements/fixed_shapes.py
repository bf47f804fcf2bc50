"""Batches of a fixed shape, for devices that compile a step for each shape.

XLA, including TPUs, takes minutes to compile a step. Inputs are therefore padded to the maximum length, and an epoch's
last batch is filled up to the full number of rows. Neither changes results beyond rounding: padding is masked in
attention, and filler rows have no labels, so they enter no loss and no count. Dropping the last batch instead would
omit different examples in every epoch, and would leave examples out of evaluation.

Dimension letters: B rows of a batch, C choices, S tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from bertkit.errors import PlacementError
from bertkit.training.batches import filled, lengthened
from bertkit.training.trainer import BertkitTrainer

Collate = Callable[..., Mapping[str, Tensor]]


@dataclass(frozen=True)
class FixedShapes:
    """Settings that give all batches of a run the same shape.

    Attributes:
        tokenizer: tokenizer with the padding ids.
        max_seq_length: number of tokens to pad inputs to; ``None`` if they have a fixed length already.
        label_columns: the tensors of a batch that hold labels.
    """

    tokenizer: PreTrainedTokenizerBase
    max_seq_length: int | None
    label_columns: Sequence[str]

    def collator(self, collate: Collate, rows: int) -> Collate:
        """Returns ``collate`` with every batch padded to ``rows`` rows of ``max_seq_length`` tokens."""
        return partial(self._collate, collate, rows)

    def _collate(self, collate: Collate, rows: int, examples: Any) -> dict[str, Tensor]:
        return filled(self.padded(collate(examples)), rows, self.label_columns)

    def padded(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Pads the inputs of a batch, (B, S) or (B, C, S), to ``max_seq_length``."""
        if self.max_seq_length is None:
            return dict(batch)
        return lengthened(batch, self.max_seq_length, self.tokenizer, self.label_columns)


def check_one_shape(config: PreTrainedConfig) -> None:
    """Checks that the steps of a model can have a fixed shape; `Task.check_one_shape` checks the batches.

    Raises:
        PlacementError: the model has an LSTM, which reads each input up to its padding.
    """
    if getattr(config, "feature_layers", None) is not None:
        raise PlacementError(
            "model.feature_layers: the LSTM reads each input up to its padding, so steps have different shapes, but "
            "this placement needs a fixed shape; fine-tune the whole encoder, or use another placement"
        )


class FixedShapesTrainer(BertkitTrainer):
    """BertkitTrainer that pads all batches of training, and all of evaluation, to one shape.

    Args:
        shapes: pads and fills up batches.
    """

    def __init__(self, *, shapes: FixedShapes, **kwargs: Any):
        self.shapes = shapes
        super().__init__(**kwargs)

    def get_train_dataloader(self) -> Any:
        with self._batches_of(self.args.train_batch_size):
            return super().get_train_dataloader()

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        with self._batches_of(self.args.eval_batch_size):
            return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        with self._batches_of(self.args.eval_batch_size):
            return super().get_test_dataloader(test_dataset)

    @contextmanager
    def _batches_of(self, rows: int) -> Iterator[None]:
        """Context in which new dataloaders return batches of ``rows`` rows."""
        collate: Any = self.data_collator  # type: ignore[has-type]
        self.data_collator = self.shapes.collator(collate, rows)
        try:
            yield
        finally:
            self.data_collator = collate
