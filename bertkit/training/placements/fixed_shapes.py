"""A Trainer whose batches have one shape, see `bertkit.training.batch_shapes`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bertkit.training.batch_shapes import FixedShapes
from bertkit.training.trainer import BertkitTrainer


class FixedShapesTrainer(BertkitTrainer):
    """BertkitTrainer that brings every batch to one shape, of training and of evaluation.

    Args:
        shapes: pads and fills batches.
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
        """Has dataloaders that are made meanwhile give batches of so many rows."""
        collate: Any = self.data_collator  # type: ignore[has-type]
        self.data_collator = self.shapes.collator(collate, rows)
        try:
            yield
        finally:
            self.data_collator = collate
