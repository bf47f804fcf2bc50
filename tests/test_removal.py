"""Features can be removed: without the folder of one, the rest imports, helps and runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bertkit

PACKAGE = Path(bertkit.__file__).parent
# Feature → a command that needs it.
FEATURES = {
    "choosing": ["choose", "--models", "{run}", "--texts", "{folder}"],
    "adaptation": ["tokenizer", "extend", "{run}", "--corpus", "{folder}", "--output-dir", "{out}"],
    "distillation": ["distill", "--teacher", "{run}", "--student-layers", "0", "--output-dir", "{out}"],
    "explain": ["explain", "{run}", "a good film"],
    "reporting": ["report", "{run}"],
    "reproducing": ["reproduce", "table-1", "--model", "{run}", "--output-dir", "{out}"],
    "scaling": ["predict", "{run}", "--input", "{folder}", "--output-dir", "{out}"],
    "serving": ["serve", "{run}"],
    "sharing": ["push", "{run}", "ada/run"],
}
PROGRAM = """
import json, sys
from importlib.util import find_spec
import bertkit
from bertkit.cli.app import main

recipe, run, command = json.loads(sys.argv[1])
is_there = {name: find_spec(f"bertkit.{name}") is not None for name in ("explain", "serving")}
bertkit.finetune(recipe, output_dir=run)
assert bertkit.load(run).predict("a good film")[0]["label"] in ("bad", "good")
if is_there["serving"]:  # the page has a tab of explain
    from bertkit.features.serving.explain import inside_of

    assert (inside_of(bertkit.load(run), "predict", ["text"], []) is not None) == is_there["explain"]
for arguments in (["--help"], command):
    sys.argv = ["bertkit", *arguments]
    try:
        main()
    except SystemExit as end:
        print("exit code", end.code, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_rest_works_without_a_feature(tmp_path, checkpoint, feature):
    place = tmp_path / "installed"
    shutil.copytree(PACKAGE, place / "bertkit", ignore=shutil.ignore_patterns("__pycache__", feature))
    shutil.copytree(PACKAGE.parent / "recipes", place / "recipes")
    table, folder = tmp_path / "table.csv", tmp_path / "folder"
    table.write_text("text,label\n" + "a good film,good\na bad film,bad\n" * 8)
    folder.mkdir()
    shutil.copy(table, folder)
    recipe = {
        "task": {"kind": "classification"},
        "model": {"name_or_path": str(checkpoint)},
        "data": {"train_file": str(table), "max_seq_length": 16},
        "train": {"max_steps": 1},
        "placement": {"device": "cpu", "mixed_precision": "no"},
    }
    names = {"{run}": str(tmp_path / "run"), "{out}": str(tmp_path / "out"), "{folder}": str(folder)}
    command = [names.get(each, each) for each in FEATURES[feature]]
    outcome = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, json.dumps([recipe, names["{run}"], command])],
        env={**os.environ, "PYTHONPATH": str(place)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.count("exit code 0") == 1, outcome.stdout  # --help
    assert outcome.stdout.endswith("exit code 2\n"), outcome.stderr
    assert f"this installation is without bertkit.{feature}" in outcome.stderr
    written = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"model.safetensors", "run.json", "all_results.json"} <= written
    assert ("README.md" in written) == (feature != "sharing")
    assert ("report.html" in written) == (feature not in ("reporting", "sharing"))
