"""Features can be removed: without the folder of one, the rest imports, helps and runs."""

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
# Feature → options that it adds to `finetune classification`, or to `predict`.
OPTIONS = {"checks": "--check", "grids": "--grid", "sharing": "--push-to-hub", "scaling": "--output-dir"}
# Feature → what a caller can still ask a run for, and the name of it in the refusal.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "sharing": ({"push_to_hub": "ada/run"}, "push_to_hub"),
    "tracking": ({"report_to": ["tensorboard"]}, "train.report_to"),
}
# Feature → files of a run that it leaves.
LEFT = {"sharing": "README.md", "reporting": "report.html"}
# A run has listeners of some features, each of which is removed alone; the others are removed together.
HAVE_LISTENERS = [name for name in features() if (ROOT / "bertkit" / "features" / name / "listener.py").is_file()]
OTHERS = [name for name in features() if name not in HAVE_LISTENERS]

# Prints what commands print, each with its exit code, and the public names.
COMMANDS = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
import bertkit
from bertkit.cli.app import main

printed = []
for words in json.loads(sys.argv[1]):
    sys.argv, out, code = ["bertkit", *words], io.StringIO(), 0
    try:
        with redirect_stdout(out), redirect_stderr(out):
            main()
    except SystemExit as stop:
        code = stop.code or 0
    printed.append([code, out.getvalue()])
print(json.dumps([printed, bertkit.__all__]))
"""
# Imports all modules and public names, and runs a fine-tuning.
RUN = """
import importlib, json, pkgutil, sys
import bertkit
from bertkit.runtime.features import features

gone, recipe, run, asked = json.loads(sys.argv[1])
for module in pkgutil.walk_packages(bertkit.__path__, "bertkit."):
    _, room, *names = module.name.split(".")
    needs_it = room == "features" and names and (names[0] not in features() or set(names[1:2]) & set(gone))
    if not needs_it and module.name != "bertkit.__main__":
        importlib.import_module(module.name)
for name in bertkit.__all__:
    assert getattr(bertkit, name) is not None
try:
    bertkit.finetune(recipe, output_dir=run, **asked)
except bertkit.BertkitError as error:
    print("refused:", error)
    bertkit.finetune(recipe, output_dir=run)
print(bertkit.load(run).predict("a good film")[0]["label"])
"""


@pytest.fixture
def without(tmp_path):
    """Returns a function that runs a program in a copy of the repository without some features."""

    def run(gone: list[str], *command: str, **variables: str) -> str:
        root = tmp_path / "copy"
        root.mkdir()
        for name in ("bertkit", "recipes"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        for feature in gone:
            shutil.rmtree(root / "bertkit" / "features" / feature)
        environment = {**os.environ, "PYTHONPATH": str(root), **variables}
        done = subprocess.run(
            [sys.executable, *command], cwd=root, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.slow
@pytest.mark.parametrize("feature", features())
def test_commands_and_names_are_gone(without, feature):
    lost = {feature, *(name for name, each in features().items() if getattr(each, "NEEDS", None) == feature)}
    own = [name.partition(" ")[0] for name in getattr(features()[feature], "COMMANDS", {}) if " " not in name]
    asked = ["predict"] if feature == "scaling" else ["finetune", "classification"]
    words = [["--help"], [*asked, "--help-all"], *([each] for each in own)]
    (shown, of_command, *refused), names = json.loads(without([feature], "-c", COMMANDS, json.dumps(words)))
    assert shown[0] == of_command[0] == 0
    listed = re.findall(r"^  ([a-z-]+)  ", shown[1], re.M)
    for name, package in features().items():
        for command in (each for each in getattr(package, "COMMANDS", {}) if " " not in each):
            assert (command in listed) == (name not in lost)
    assert [(code, "No such command" in said) for code, said in refused] == [(2, True)] * len(own)
    assert feature not in OPTIONS or not re.search(rf"^  {OPTIONS[feature]}\b", of_command[1], re.M)
    gone = {name for each in lost for name in getattr(features()[each], "PUBLIC", {})}
    gone |= {"check_grid"} if "grids" in lost else set()  # of two features
    assert not gone & set(names)
    assert "finetune" in names


@pytest.mark.slow
@pytest.mark.parametrize("gone", [*([name] for name in HAVE_LISTENERS), OTHERS], ids="+".join)
def test_the_rest_imports_and_runs(without, tmp_path, checkpoint, hub_models, gone):
    table, run = tmp_path / "table.csv", tmp_path / "run"
    table.write_text("text,label\n" + "a good film,good\na bad film,bad\n" * 8)
    recipe = {
        "task": {"kind": "classification"},
        "model": {"name_or_path": str(checkpoint)},
        "data": {"train_file": str(table), "max_seq_length": 16, "folds": 0},
        "train": {"max_steps": 1},
        "placement": {"device": "cpu", "mixed_precision": "no"},
    }
    [feature] = gone if gone != OTHERS else [""]
    with hub_models.ModelHub() as hub:
        asked, named = REFUSED.get(feature, ({"push_to_hub": "ada/run"}, ""))
        variables = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": hub_models.TOKEN}
        given = json.dumps([gone, recipe, str(run), asked])
        printed = without(gone, "-c", RUN, given, HF_HUB_DISABLE_XET="1", **variables)
        pushed = set(hub.files("ada/run"))
    assert printed.splitlines()[-1] in ("bad", "good")
    assert (f"refused: {named}:" in printed) == (feature in REFUSED), printed
    written = {path.name for path in run.iterdir()}
    assert {"model.safetensors", "run.json", "all_results.json"} <= written
    for name, file in LEFT.items():
        assert (file in written) == (name != feature)
    assert ({"model.safetensors", "README.md"} <= pushed) == (feature not in REFUSED)
