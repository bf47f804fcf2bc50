"""Earlier names of modules that tasks of other packages import; they stay, as other names of the same modules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from bertkit.runtime.features import FOLDER, declared

_NOW = {
    "checkpoint": "model.checkpoint",
    "distillation": "training.distillation",
    "errors": "runtime.errors",
    "inference.predicted": "inference.outcome",
    "options": "runtime.options",
    "tables": "data.tables",
}
"""Earlier name → present name, both without ``bertkit.``; a feature had its present name without ``features.``."""


def install() -> None:
    """Adds the finder of modules by their earlier names."""
    if not any(isinstance(each, _EarlierNames) for each in sys.meta_path):
        sys.meta_path.insert(0, _EarlierNames())  # first: a module below an earlier name would be found a second time


def present_name(name: str) -> str | None:
    """Returns the present name of a module; None if the name is no earlier one."""
    if not name.startswith("bertkit."):
        return None
    _, first, *rest = name.split(".")
    if (now := _NOW.get(".".join([first, *rest[:1]]))) is not None:
        return ".".join(["bertkit", now, *rest[1:]])
    now = _NOW.get(first)
    # A public function may have the name of a feature, such as `bertkit.explain`.
    if now is None and (FOLDER / first / "__init__.py").is_file():
        is_public = any(first in names for _, names in declared("PUBLIC"))
        now = None if is_public else f"features.{first}"
    return None if now is None else ".".join(["bertkit", now, *rest])


class _EarlierNames(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        now = present_name(fullname)
        return None if now is None else ModuleSpec(fullname, _SameModule(now))


class _SameModule(Loader):
    """Loads a module by its present name, in place of a second copy of it."""

    def __init__(self, name: str):
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has set that of the earlier name
