"""What all metrics share, where the evaluate library would leave a trace or fail without a reason."""

from __future__ import annotations

import evaluate

from bertkit.errors import DataError


class InMemoryMetric(evaluate.Metric):
    """``evaluate.Metric``, departing from it in two things.

    Scoring nothing at all is an error that says so: ``compute`` raises ``DataError``. And a metric that is kept in
    memory makes no folder either, so that it works beside a cache that cannot be written.
    """

    def _build_data_dir(self) -> str:
        return self._data_dir_root if self.keep_in_memory else super()._build_data_dir()

    def _finalize(self) -> None:
        if self.writer is None:
            raise DataError("nothing to score: there are no predictions and no references")
        super()._finalize()
