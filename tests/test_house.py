"""The floors of the house: a module imports its own room and lower floors, never upwards."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import bertkit

PACKAGE = Path(bertkit.__file__).parent
FLOORS = {
    "errors": 0,
    "json_text": 0,
    "model": 0,
    "files": 1,
    "registration": 1,
    "metrics": 1,
    "placement": 1,
    "reading": 1,
    "checkpoint": 2,
    "progress": 2,
    "corpus": 3,
    "recipe": 3,
    "tables": 3,
    "tasks": 4,
    "inference": 5,
    "sharing": 6,
    "training": 7,
    "checks": 8,
    "tour": 8,
    "cli": 9,
    "__main__": 10,
}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name != "__init__.py")


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


NAMED = re.compile(r"bertkit(\.[a-z_0-9]+)+(\.|:\w+)?")  # "bertkit.tasks.ner.task:NerTask", f"bertkit.metrics.{name}"


def imported(path: Path) -> set[str]:
    """The rooms of bertkit that a module imports, anywhere in it, annotations and imports by name included."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ["bertkit", *path.relative_to(PACKAGE).parts][: -node.level] if node.level else []
            names = [".".join([*above, *([node.module] if node.module else []), alias.name]) for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and NAMED.fullmatch(node.value):
            names = [node.value]
        rooms |= {name.split(".")[1].partition(":")[0] for name in names if name.startswith("bertkit.")}
    return rooms - {"__version__"}


def test_an_import_by_name_is_seen(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('load = import_module("bertkit.tasks.ner")\nnext = import_module(f"bertkit.metrics.{name}")\n')
    assert imported(path) == {"tasks", "metrics"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path):
    own = room(path)
    for other in imported(path) - {own}:
        assert FLOORS[other] < FLOORS[own], f"{own} (floor {FLOORS[own]}) imports {other} (floor {FLOORS[other]})"


def test_every_room_has_a_floor():
    assert {room(path) for path in MODULES} == set(FLOORS)


def test_the_model_travels_alone():
    """Its files are copied into checkpoints: siblings, torch, transformers and huggingface_hub only."""
    for path in (PACKAGE / "model").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.level == 1
                assert node.module, f"{path}: `from . import x` cannot be loaded from a checkpoint"
            elif isinstance(node, ast.ImportFrom):
                assert node.module.split(".")[0] != "bertkit"


def test_changelog_and_package_agree_on_the_version():
    changelog = (PACKAGE.parent / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\d+\.\d+\.\d+)", changelog, re.M).group(1) == bertkit.__version__


def test_every_public_name_can_be_had():
    for name in bertkit.__all__:
        assert getattr(bertkit, name) is not None
    assert set(bertkit.__all__) <= set(dir(bertkit))


def test_the_label_of_nothing_has_one_name():
    """-100 stands in `bertkit.model.labels_bert` alone."""
    for path in MODULES:
        numbers = [ast.unparse(node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.UnaryOp)]
        assert ("-100" in numbers) == (path == PACKAGE / "model" / "labels_bert.py"), path
