"""Requirements of the package: the core imports all of its own, and none of those of the extras."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bertkit

PACKAGE = Path(bertkit.__file__).parent
FILE = PACKAGE.parent / "pyproject.toml"
# Packages that are imported under another name.
MODULES = {"pillow": "PIL", "scikit-learn": "sklearn", "pyyaml": "yaml", "huggingface-hub": "huggingface_hub"}
MODULES |= {"charset-normalizer": "charset_normalizer", "css-inline": "css_inline"}


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


def test_extras_are_not_in_the_core(project):
    core = names(project["dependencies"])
    for extra, requirements in project["optional-dependencies"].items():
        assert not core & names(requirements), extra


def test_the_extra_all_is_every_other_one_of_users(project):
    extras = project["optional-dependencies"]
    own = {name for name, requirements in extras.items() if requirements} - {"all", "dev", "docs"}
    (requirement,) = map(Requirement, extras["all"])
    assert (requirement.name, requirement.extras) == ("bertkit", own)


def test_extras_of_earlier_versions_can_still_be_named(project):
    assert {"excel", "explain"} <= set(project["optional-dependencies"])


def test_the_core_brings_no_server_notebook_or_tracker(project):
    """With all that its requirements bring; matplotlib draws the figures that every run leaves."""
    waiting, brought = sorted(names(project["dependencies"])), set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in brought:
            brought.add(name)
            try:
                requirements = map(Requirement, metadata.requires(name) or ())
            except metadata.PackageNotFoundError:  # one for another system
                continue
            waiting += [
                each.name for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})
            ]
    assert {"transformers", "matplotlib", "huggingface-hub"} <= brought
    others = (
        "fastapi uvicorn starlette gradio flask tensorboard trackio wandb ray optuna ipython plotly onnxruntime peft"
    )
    assert not brought & set(others.split())


def copied_by_dockerfile():
    """Returns the sources of the Dockerfile's COPY lines."""
    text = (FILE.parent / "Dockerfile").read_text()
    return [word for line in re.findall(r"^COPY (.+)$", text, re.M) for word in line.split()[:-1]]


def test_what_the_image_copies_exists(project):
    ignored = (FILE.parent / ".dockerignore").read_text().split("\n")
    assert len(copied_by_dockerfile()) >= 6
    for source in copied_by_dockerfile():
        assert (FILE.parent / source).exists(), source
        assert f"!{source}" in ignored


def test_test_versions_are_those_of_the_extras(project):
    """`dev` repeats requirements of extras, so that their tests run; a difference would test other versions."""
    extras = dict(project["optional-dependencies"])
    of_tests = {each.name: each for each in map(Requirement, extras.pop("dev"))}
    for requirements in extras.values():
        for each in map(Requirement, requirements):
            if each.name in of_tests:
                assert each.specifier == of_tests[each.name].specifier, each.name


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()
