"""Metrics as ``evaluate.Metric`` classes that need no network.

``evaluate.load`` fetches a script from the Hub at call time; these are part of the package. ``predictions`` and
``references`` are those of the metrics of the same names in the evaluate library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertkit.errors import RecipeError, did_you_mean

if TYPE_CHECKING:
    import evaluate

# Metric by task of GLUE (Wang et al. 2018, table 1); the tasks that are scored by accuracy alone.
_GLUE = ("sst2", "mnli", "qnli", "rte", "wnli")


def names() -> list[str]:
    """What `load` accepts.

    >>> names()
    ['glue/mnli', 'glue/qnli', 'glue/rte', 'glue/sst2', 'glue/wnli']
    """
    return sorted(f"glue/{name}" for name in _GLUE)


def load(name: str) -> evaluate.Metric:
    """The metric of that name.

    Raises:
        RecipeError: there is none of that name.
    """
    if name not in names():
        raise RecipeError(f"unknown metric {name!r}; expected one of {', '.join(names())}{did_you_mean(name, names())}")
    from bertkit.metrics.glue import Glue

    return Glue(config_name=name.removeprefix("glue/"), keep_in_memory=True)
