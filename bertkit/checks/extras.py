"""Optional packages of the checks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType

from bertkit.checks.findings import Finding, note

INSTALL = "pip install 'bertkit[checks]'"


@cache
def extra(module: str) -> ModuleType | None:
    """Imports a module of an optional package; returns ``None`` if the package is not installed."""
    try:
        return import_module(module)
    except ImportError:
        return None


def missing_extras() -> Iterator[Finding]:
    """Yields a note for each check that is left out because its package is not installed."""
    left_out = {
        "datasketch": "near duplicates are not looked for, only exact ones",
        "ftfy.badness": "texts decoded with a wrong encoding are not looked for",
    }
    for module, what in left_out.items():
        if extra(module) is None:
            package = module.partition(".")[0]
            yield note("environment", f"{what}: the package {package} is not installed", INSTALL)
