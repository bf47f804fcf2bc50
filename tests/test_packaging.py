"""Requirements of the package: the core imports all of its own, and none of those of the extras."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import bertkit

PACKAGE = Path(bertkit.__file__).parent
FILE = PACKAGE.parent / "pyproject.toml"
# Packages that are imported under another name.
MODULES = {"scikit-learn": "sklearn", "pyyaml": "yaml", "huggingface-hub": "huggingface_hub"}


@pytest.fixture(scope="module")
def project():
    if not FILE.is_file():
        pytest.skip("the package is installed without its project")
    return tomllib.loads(FILE.read_text())["project"]


def names(requirements):
    return {Requirement(each).name for each in requirements}


def test_every_requirement_of_the_core_is_imported(project):
    imported = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.partition(".")[0])
    assert {name for name in names(project["dependencies"]) if MODULES.get(name, name) not in imported} == set()


def test_what_an_extra_installs_is_not_in_the_core(project):
    core = names(project["dependencies"])
    for extra, requirements in project["optional-dependencies"].items():
        assert not core & names(requirements), extra


def test_the_versions_of_the_tests_are_those_of_the_extras(project):
    """`dev` repeats requirements of extras, so that their tests run; a difference would test other versions."""
    extras = dict(project["optional-dependencies"])
    of_tests = {each.name: each for each in map(Requirement, extras.pop("dev"))}
    for requirements in extras.values():
        for each in map(Requirement, requirements):
            if each.name in of_tests:
                assert each.specifier == of_tests[each.name].specifier, each.name


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()
