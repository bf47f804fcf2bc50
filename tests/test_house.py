"""The layers of the package: a module imports from its own package and from lower layers only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import bertkit

PACKAGE = Path(bertkit.__file__).parent
LAYERS = {
    "errors": 0,
    "json_text": 0,
    "model": 0,
    "options": 0,
    "files": 1,
    "registration": 1,
    "metrics": 1,
    "pages": 1,
    "placement": 1,
    "reading": 1,
    "progress": 2,
    "locks": 3,
    "checkpoint": 3,
    "corpus": 4,
    "recipe": 4,
    "tables": 4,
    "tasks": 5,
    "inference": 6,
    "training": 7,
    "choosing": 8,
    "distillation": 8,
    "explain": 8,
    "sharing": 8,
    "reporting": 9,
    "scaling": 9,
    "serving": 9,
    "run": 10,
    "adaptation": 11,
    "grids": 11,
    "tour": 11,
    "checks": 12,
    "reproducing": 12,
    "cli": 13,
    "__main__": 14,
}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name != "__init__.py")


def package(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


NAMED = re.compile(r"bertkit(\.[a-z_0-9]+)+(\.|:\w+)?")  # "bertkit.tasks.ner.task:NerTask", f"bertkit.metrics.{name}"


def imported(path: Path) -> set[str]:
    """Returns the packages of bertkit that a module imports anywhere, in annotations and by name too."""
    packages = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ["bertkit", *path.relative_to(PACKAGE).parts][: -node.level] if node.level else []
            names = [".".join([*above, *([node.module] if node.module else []), alias.name]) for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and NAMED.fullmatch(node.value):
            names = [node.value]
        packages |= {name.split(".")[1].partition(":")[0] for name in names if name.startswith("bertkit.")}
    return packages - {"__version__"}


def test_an_import_by_name_is_seen(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('load = import_module("bertkit.tasks.ner")\nnext = import_module(f"bertkit.metrics.{name}")\n')
    assert imported(path) == {"tasks", "metrics"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path):
    own = package(path)
    for other in imported(path) - {own}:
        assert LAYERS[other] < LAYERS[own], f"{own} (layer {LAYERS[own]}) imports {other} (layer {LAYERS[other]})"


def test_every_package_has_a_layer():
    assert {package(path) for path in MODULES} == set(LAYERS)


def test_the_model_imports_only_siblings_and_libraries():
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


def test_every_public_name_can_be_imported():
    for name in bertkit.__all__:
        assert getattr(bertkit, name) is not None
    assert sorted(bertkit.__all__) == dir(bertkit)


def test_the_ignored_label_has_one_name():
    """The literal -100 occurs in `bertkit.model.labels_bert` only."""
    for path in MODULES:
        numbers = [ast.unparse(node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.UnaryOp)]
        assert ("-100" in numbers) == (path == PACKAGE / "model" / "labels_bert.py"), path
