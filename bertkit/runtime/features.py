"""The features of an installation, found by walking ``bertkit/features``, so that no other module names one.

A feature is a folder there. Its ``__init__.py`` imports nothing, and says in constants what the feature adds; see
`bertkit.features`. A folder that is missing, or that needs a missing one, adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parents[1] / "features"


@cache
def features() -> Mapping[str, ModuleType]:
    """Returns name → package of the features that are there, sorted by name."""
    names = sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))
    return {
        name: package
        for name in names
        if getattr(package := import_module(f"bertkit.features.{name}"), "NEEDS", name) in names
    }


def declared(constant: str) -> Iterator[tuple[str, Any]]:
    """Yields the names of the features that have a constant, such as ``COMMANDS``, with its value."""
    for name, package in features().items():
        if (value := getattr(package, constant, None)) is not None:
            yield name, value


def load(feature: str, place: str) -> Any:
    """Imports what a feature names in a constant: ``module:attribute``, relative to its folder."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(f"bertkit.features.{feature}.{module}"), attribute)


def module_about(package: str, other: str) -> ModuleType | None:
    """Returns the module in which one feature knows another, such as ``serving/explain.py``; None without the other.

    Args:
        package: package of the feature that asks, its ``__package__``.
        other: name of the other feature, and of the module.
    """
    return import_module(f"{package}.{other}") if other in features() else None
