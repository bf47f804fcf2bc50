"""Features can be removed: without the folder of one, its tests and its page, the rest imports, helps and runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bertkit
from bertkit.runtime.features import features

ROOT = Path(bertkit.__file__).parents[1]
COPIED = ("bertkit", "docs", "recipes", "tests", "CHANGELOG.md", "pyproject.toml")
PAGE = re.compile(r"docs/guides/\w+\.md")
# Feature → options that it adds to `finetune classification`, or to `predict`.
OPTIONS = {"checks": "--check", "grids": "--grid", "sharing": "--push-to-hub", "scaling": "--output-dir"}
# Feature → what a caller can still ask a run for, and the name of it in the refusal.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "sharing": ({"push_to_hub": "ada/run"}, "push_to_hub"),
    "tracking": ({"report_to": ["tensorboard"]}, "train.report_to"),
}
# Feature → files of a run that it leaves.
LEFT = {"sharing": "README.md", "reporting": "report.html"}

IMPORTS = """
import importlib, json, pkgutil, sys
import bertkit
from bertkit.runtime.features import features

gone = sys.argv[1]
for module in pkgutil.walk_packages(bertkit.__path__, "bertkit."):
    _, room, *names = module.name.split(".")
    needs_it = room == "features" and names and (names[0] not in features() or names[1:2] == [gone])
    if not needs_it and module.name != "bertkit.__main__":
        importlib.import_module(module.name)
for name in bertkit.__all__:
    assert getattr(bertkit, name) is not None
print(json.dumps(bertkit.__all__))
"""
RUN = """
import json, sys
import bertkit

recipe, run, asked = json.loads(sys.argv[1])
try:
    bertkit.finetune(recipe, output_dir=run, **asked)
except bertkit.BertkitError as error:
    print("refused:", error)
    bertkit.finetune(recipe, output_dir=run)
print(bertkit.load(run).predict("a good film")[0]["label"])
"""


@pytest.fixture
def without(tmp_path):
    """Returns a function that makes a copy of the repository without a feature, and runs a command there."""

    def run(feature: str, *command: str, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        root = tmp_path / "copy"
        if not root.exists():
            root.mkdir()
            for name in COPIED:
                source, leave = ROOT / name, shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, root / name, ignore=leave) if source.is_dir() else shutil.copy(source, root)
            for page in PAGE.findall((ROOT / "bertkit" / "features" / feature / "__init__.py").read_text()):
                (root / page).unlink()
            for folder in ("bertkit", "tests"):
                shutil.rmtree(root / folder / "features" / feature)
        environment = {**os.environ, "PYTHONPATH": str(root), **(variables or {})}
        return subprocess.run(
            [sys.executable, *command], cwd=root, env=environment, capture_output=True, text=True, timeout=600
        )

    return run


def commands_of(feature: str) -> list[str]:
    return [name.partition(" ")[0] for name in getattr(features()[feature], "COMMANDS", {}) if " " not in name]


@pytest.mark.slow
@pytest.mark.parametrize("feature", features())
def test_rest_works_without_a_feature(without, tmp_path, checkpoint, hub_models, feature):
    lost = {feature, *(name for name, each in features().items() if getattr(each, "NEEDS", None) == feature)}

    done = without(feature, "-m", "bertkit", "--help")
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"^  ([a-z-]+)  ", done.stdout, re.M)
    for name, package in features().items():
        for command in (each for each in getattr(package, "COMMANDS", {}) if " " not in each):
            assert (command in shown) == (name not in lost)
    for command in commands_of(feature):
        done = without(feature, "-m", "bertkit", command)
        assert (done.returncode, "No such command" in done.stderr) == (2, True), done.stderr
    if feature in OPTIONS:
        words = ["predict"] if feature == "scaling" else ["finetune", "classification"]
        done = without(feature, "-m", "bertkit", *words, "--help-all")
        assert done.returncode == 0, done.stderr
        assert not re.search(rf"^  {OPTIONS[feature]}\b", done.stdout, re.M)

    done = without(feature, "-c", IMPORTS, feature)
    assert done.returncode == 0, done.stderr
    names = json.loads(done.stdout)
    gone = {name for each in lost for name in getattr(features()[each], "PUBLIC", {})}
    gone |= {"check_grid"} if "grids" in lost else set()  # of two features
    assert not gone & set(names)
    assert "finetune" in names

    table, run = tmp_path / "table.csv", tmp_path / "run"
    table.write_text("text,label\n" + "a good film,good\na bad film,bad\n" * 8)
    recipe = {
        "task": {"kind": "classification"},
        "model": {"name_or_path": str(checkpoint)},
        "data": {"train_file": str(table), "max_seq_length": 16},
        "train": {"max_steps": 1},
        "placement": {"device": "cpu", "mixed_precision": "no"},
    }
    with hub_models.ModelHub() as hub:
        asked, named = REFUSED.get(feature, ({"push_to_hub": "ada/run"}, ""))
        variables = {
            "HF_ENDPOINT": hub.endpoint,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_TOKEN": hub_models.TOKEN,
        }
        done = without(feature, "-c", RUN, json.dumps([recipe, str(run), asked]), variables=variables)
        pushed = set(hub.files("ada/run"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] in ("bad", "good")
    assert (f"refused: {named}:" in done.stdout) == (feature in REFUSED), done.stdout
    written = {path.name for path in run.iterdir()}
    assert {"model.safetensors", "run.json", "all_results.json"} <= written
    for name, file in LEFT.items():
        assert (file in written) == (name != feature)
    assert ({"model.safetensors", "README.md"} <= pushed) == (feature not in REFUSED)


@pytest.mark.slow
@pytest.mark.parametrize("feature", features())
def test_the_house_stands_without_a_feature(without, feature):
    """The tests of imports pass in the copy, apart from that of the public names, which are imported above."""
    options = ["-m", "", "-n", "0", "-p", "no:cacheprovider", "-k", "not public_name"]
    done = without(feature, "-m", "pytest", *options, "tests/test_house.py")
    assert done.returncode == 0, done.stdout
