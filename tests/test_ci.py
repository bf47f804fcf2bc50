"""``.ci/run``: which other Pythons repeat the README's tests, and with which of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = "<!-- test command -->\n```bash\npython3 -m venv .venv && .venv/bin/pytest\n```\n"

FILES = [f"tests/test_{name}.py" for name in "abc"] + ["tests/room/test_d.py", "bertkit/e.py", "tests/conftest.py"]

PYTHON = """#!/bin/sh
[ {runs} = True ] || exit 127
[ "$1" = -c ] && echo 3.11
if [ "$2" = venv ]; then
  mkdir -p "$3/bin"
  printf '#!/bin/sh\\necho tests of 3{version} "$@"\\n[ {green} = True ]\\n' > "$3/bin/pytest"
  chmod +x "$3/bin/pytest"
fi
exit 0
"""


@pytest.fixture
def ci(tmp_path):
    """Runs ``.ci/run`` in a folder with a README, and programs of Python 3.11 (the usual one), 3.12 and 3.13.

    Those of ``broken`` say that they are no programs, as those of pyenv do; ``red`` is the version whose tests fail.
    """

    def run(
        part: str = "other_pythons", *arguments: str, broken: str = "", red: str = "", commits: int = 0
    ) -> subprocess.CompletedProcess[str]:
        folder, programs = tmp_path / "repository", tmp_path / "programs"
        for each in (folder / ".ci", programs, folder / "tests" / "room", folder / "bertkit"):
            each.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).touch()
        shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
        (folder / "README.md").write_text(README)
        for version in ("", ".11", ".12", ".13"):
            program = programs / f"python3{version}"
            program.write_text(
                PYTHON.format(version=version, runs=not version or version not in broken, green=version != red)
            )
            program.chmod(0o755)
        git = programs / "git"
        git.write_text(f"#!/bin/sh\necho {commits}\n")
        git.chmod(0o755)
        environment = {"PATH": f"{programs}:{os.defpath}", "HOME": str(tmp_path)}
        command = ["bash", folder / ".ci" / "run", part, *arguments]
        return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=60)

    return run


def test_other_pythons_repeat_the_tests(ci):
    outcome = ci()
    assert outcome.returncode == 0, outcome.stderr
    assert [line for line in outcome.stdout.splitlines() if line.startswith("tests")] == [
        "tests of 3.12",
        "tests of 3.13",
    ]
    assert "+ python3.12 -m venv .venv-3.12 && .venv-3.12/bin/pytest" in outcome.stdout


def test_programs_that_do_not_run_are_not_there(ci):
    outcome = ci(broken=".12")
    assert "+ Python 3.12: not on this machine" in outcome.stderr
    assert "tests of 3.13" in outcome.stdout


def test_a_red_python_fails_the_run(ci):
    assert ci(red=".13").returncode != 0


def test_each_python_has_its_turn_with_each_quarter_of_the_tests(ci):
    seen = []
    for commits in range(8):
        assert ci("python_in_turn", "install", commits=commits).returncode == 0
        outcome = ci("python_in_turn", "test", commits=commits)
        assert outcome.returncode == 0, outcome.stderr
        (line,) = (line for line in outcome.stdout.splitlines() if line.startswith("tests of"))
        seen.append(line.removeprefix("tests of ").split())
    assert [version for version, *_ in seen] == ["3.12", "3.13"] * 4
    for version in ("3.12", "3.13"):
        assert sorted(name for first, *names in seen if first == version for name in names) == sorted(FILES[:-1])


def test_a_red_python_in_its_turn_fails_the_run(ci):
    for commits in range(2):
        ci("python_in_turn", "install", commits=commits, red=".13")
    assert [ci("python_in_turn", "test", commits=commits, red=".13").returncode for commits in range(2)] == [0, 1]
