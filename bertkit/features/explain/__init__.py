"""The inside of a checkpoint: its pieces, attention, predictions and their reasons, as arrays and as one page."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """The package, which can be called as the function `bertkit.explain`.

    An import of one of its modules, as by a report, puts the package in the place of the function of the same name.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from bertkit.features.explain.explain import explain

        return explain(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
