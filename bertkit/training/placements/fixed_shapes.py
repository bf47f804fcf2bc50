"""Trainer with batches of a fixed shape, see `bertkit.training.batch_shapes`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bertkit.training.batch_shapes import FixedShapes
from bertkit.training.trainer import BertkitTrainer


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
