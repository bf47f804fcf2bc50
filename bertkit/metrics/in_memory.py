"""Base class of all metrics: no files in memory mode, and a clear error for empty inputs."""

from __future__ import annotations

import evaluate

from bertkit.errors import DataError


class InMemoryMetric(evaluate.Metric):
    """``evaluate.Metric`` with two differences.

    ``compute`` without any examples raises ``DataError``. A metric that is kept in memory creates no folder, so that it
    works with a read-only cache.
    """

    def _build_data_dir(self) -> str:
        return self._data_dir_root if self.keep_in_memory else super()._build_data_dir()

    def _finalize(self) -> None:
        if self.writer is None:
            raise DataError("nothing to score: there are no predictions and no references")
        super()._finalize()
