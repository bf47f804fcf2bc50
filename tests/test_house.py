"""The rooms of the package: which may import which, and that no files import each other in a circle."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bertkit
from bertkit.cli.groups import PANELS
from bertkit.runtime.features import declared

PACKAGE = Path(bertkit.__file__).parent
ROOMS = ["runtime", "model", "metrics", "data", "recipe", "tasks", "inference", "training", "cli", "features"]
"""Bottom up: a room imports from itself and from the rooms before it."""

NAMED = re.compile(r"bertkit(\.[a-z_0-9]+)+(\.|:\w+)?")  # "bertkit.tasks.ner.task:NerTask", f"bertkit.metrics.{name}"
WALKS = "bertkit.runtime.features"
"""The one module that names the folder of features; it finds them by walking it."""


def module_of(path: Path) -> str:
    parts = ("bertkit", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = [module for module in FILES if module not in ("bertkit", "bertkit.__main__")]
FEATURES = sorted({module.split(".")[2] for module in MODULES if module.startswith("bertkit.features.")})


def names_in(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """Yields the dotted names that a module imports anywhere, in annotations and by name too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")
            above = parts[: len(parts) - node.level + is_package] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and NAMED.fullmatch(node.value):
            yield node.value.partition(":")[0].rstrip(".")


@cache
def imported(module: str) -> frozenset[str]:
    """Returns the modules of bertkit that a module imports; ``bertkit`` itself for names of the package."""
    path = FILES[module]
    names = names_in(ast.parse(path.read_text(encoding="utf-8")), module, path.name == "__init__.py")
    found = set()
    for name in names:
        while name not in FILES and "." in name:
            name = name.rpartition(".")[0]
        if name in FILES:
            found.add(name)
    return frozenset(found - {module})


def test_an_import_by_name_is_seen():
    program = 'load = import_module("bertkit.tasks.ner")\nnext = import_module(f"bertkit.metrics.{name}")\n'
    program += "def late():\n    from ..data import tables\n"
    names = set(names_in(ast.parse(program), "bertkit.cli.app", False))
    assert names == {"bertkit.tasks.ner", "bertkit.metrics", "bertkit.data.tables"}


def test_the_rooms_are_the_folders():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert folders == set(ROOMS)
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


def place(module: str) -> int:
    return ROOMS.index(module.split(".")[1])


def test_imports_go_down():
    pairs = [(module, other) for module in MODULES for other in sorted(imported(module) - {"bertkit"})]
    assert [pair for pair in pairs if place(pair[1]) > place(pair[0])] == [(WALKS, "bertkit.features")]


def test_only_commands_use_the_package_as_callers_do():
    is_command = re.compile(r"bertkit\.cli\..+|bertkit\.features\.\w+\.command")
    others = [each for each in MODULES if not is_command.fullmatch(each)]
    assert [each for each in others if "bertkit" in imported(each)] == []
    assert [each for each in others if any(name.startswith("bertkit.cli.") for name in imported(each))] == []


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_knows_another_one_in_the_module_of_its_name(feature):
    """Or it needs the whole of the other one, and says so in `NEEDS`."""
    needs = getattr(__import__(f"bertkit.features.{feature}", fromlist=["NEEDS"]), "NEEDS", None)
    others = set()
    for module in MODULES:
        if not module.startswith(f"bertkit.features.{feature}."):
            continue
        used = {name.split(".")[2] for name in imported(module) if name.startswith("bertkit.features.")} - {feature}
        assert used <= {module.split(".")[3], needs}, module
        others |= used
    assert len(others) <= 1


def test_tests_of_the_core_import_no_feature():
    """One that looks at a feature asks for it by `pytest.importorskip`, so that it is left out without the feature."""
    tests = Path(__file__).parent
    of_core = [path for path in tests.rglob("*.py") if path.relative_to(tests).parts[0] != "features"]
    for path in of_core:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        assert [name for name in names if name.startswith("bertkit.features.")] == [], path


def test_no_files_import_each_other():
    graph = {module: imported(module) for module in FILES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_model_imports_only_siblings_and_libraries():
    """Its files are copied into checkpoints: siblings, torch, transformers and huggingface_hub only."""
    libraries = {"torch", "transformers", "huggingface_hub", *sys.stdlib_module_names}
    for path in (PACKAGE / "model").glob("*_bert.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.level == 1
                assert node.module, f"{path}: `from . import x` cannot be loaded from a checkpoint"
                assert node.module.endswith("_bert")
            elif isinstance(node, ast.ImportFrom):
                assert node.module.partition(".")[0] in libraries, path
            elif isinstance(node, ast.Import):
                assert {alias.name.partition(".")[0] for alias in node.names} <= libraries, path


def test_changelog_and_package_agree_on_the_version():
    changelog = (PACKAGE.parent / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\d+\.\d+\.\d+)", changelog, re.M).group(1) == bertkit.__version__


def test_no_two_features_add_the_same_name():
    for constant, own in (
        ("PUBLIC", bertkit._PUBLIC),
        ("COMMANDS", [name for each in PANELS.values() for name in each]),
    ):
        names = [*own, *(name for _, names in declared(constant) for name in names)]
        assert len(names) == len(set(names))


def test_the_ignored_label_has_one_name():
    """The literal -100 occurs in `bertkit.model.labels_bert` only."""
    for path in FILES.values():
        numbers = [ast.unparse(node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.UnaryOp)]
        assert ("-100" in numbers) == (path == PACKAGE / "model" / "labels_bert.py"), path
