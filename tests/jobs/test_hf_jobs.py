"""The script for Jobs of the Hub: its dependencies, and when it resumes."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "jobs" / "hf_jobs.py"


@pytest.fixture
def arguments_of_command(monkeypatch):
    """Returns a function that runs the script, and returns the arguments that ``bertkit`` gets."""

    def run(*words: str) -> list[str]:
        given: list[str] = []
        monkeypatch.setattr("bertkit.cli.app.main", lambda: given.extend(sys.argv[1:]))
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return given

    return run


@pytest.mark.parametrize("two_words", [True, False])
def test_it_resumes_where_the_folder_holds_a_run(two_words, tmp_path, arguments_of_command):
    place = ["--output-dir", str(tmp_path)] if two_words else [f"--output-dir={tmp_path}"]
    command = ["finetune", "glue", *place, "--seed", "1"]
    assert arguments_of_command(*command) == command
    (tmp_path / "recipe.yaml").write_text("")
    assert arguments_of_command(*command) == [*command, "--resume"]
    assert arguments_of_command(*command, "--resume") == [*command, "--resume"]
    assert arguments_of_command("recipes", "list") == ["recipes", "list"]


def test_its_dependencies_are_declared_in_it():
    """bertkit is on no package index, so a bare name might install a package of someone else."""
    block = re.search(r"(?m)^# /// script$\n((?:^#.*$\n)+?)^# ///$", SCRIPT.read_text())
    declared = tomllib.loads("\n".join(line.removeprefix("# ") for line in block[1].splitlines()))
    assert declared == {"requires-python": ">=3.11", "dependencies": ["bertkit @ git+https://github.com/OWNER/bertkit"]}
