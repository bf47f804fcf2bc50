"""Hostile environments: every command ends with a right answer or one message, never with a traceback."""

from __future__ import annotations

import ast
import os
import random
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bertkit

STARTS = [sys.executable, "-m", "bertkit"]
# The command and whether it prints results; each ends with 0 where nothing is wrong.
COMMANDS = {
    "version": (["--version"], True),
    "help": (["finetune", "--help"], True),
    "list": (["recipes", "list"], True),
    "show": (["recipes", "show", "finetune/glue/sst2"], True),
    "copy": (["recipes", "copy", "finetune/glue/sst2", "new.yaml"], True),
    "refused": (["recipes", "show", "finetune/glue/sst3"], False),
    "usage": (["recipes", "copy"], False),
}
STDOUT = {"": None, ">&-": 2, ">/dev/full": 2, "| head -c 1 >/dev/null": 141, "| true": 141}
STDERR = ["", "2>&-", "2>/dev/full"]
STDIN = ["", "<&-", "</dev/null"]
LOCALES: list[dict[str, str]] = [
    {},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "C"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "ascii"},
]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the redirections of a POSIX shell")


def run(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Runs a line of a shell in a folder."""
    path = str(Path(bertkit.__file__).parents[1])
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        timeout=120,
    )


def cases(number: int) -> list[tuple[str, str, str, str, int]]:
    """Draws combinations of a command, its streams and a locale; every single value occurs."""
    rng = random.Random(16)
    axes = [list(COMMANDS), list(STDOUT), STDERR, STDIN, list(range(len(LOCALES)))]
    drawn = [tuple(axis[n % len(axis)] for axis in axes) for n in range(max(map(len, axes)))]
    drawn += [tuple(rng.choice(axis) for axis in axes) for _ in range(number - len(drawn))]
    return drawn


@pytest.mark.parametrize("case", cases(12), ids=lambda case: " ".join(map(str, case)) or "plain")
def test_any_streams_and_any_locale(case, tmp_path):
    name, stdout, stderr, stdin, locale = case
    arguments, prints = COMMANDS[name]
    command = shlex.join([*STARTS, *arguments])
    first, _, rest = stdout.partition("|")
    pipe = f" | {rest}" if rest else ""
    script = f"{{ {command} {stdin} {stderr} {first}; echo $? >code; }}{pipe}"
    done = run(script, tmp_path, **LOCALES[locale])
    code = int((tmp_path / "code").read_text())
    assert b"Traceback" not in done.stderr, done.stderr
    assert b"Exception ignored" not in done.stderr, done.stderr
    right = {2} if not prints else {0} if STDOUT[stdout] is None else {STDOUT[stdout]}
    if stdout.startswith("|"):  # the output may fit the pipe before its reader leaves
        right |= {0} if prints else set()
    assert code in right, done.stderr
    if code == 2 and not stderr:
        assert done.stderr.count(b"rror") == 1, done.stderr  # one message: bertkit's, or typer's box
    if code == 0 and not stdout and name == "copy":
        assert done.stdout == b"new.yaml\n"


def test_the_output_is_the_same_in_every_locale(tmp_path):
    """The recipe has characters beyond ASCII."""
    shutil.copy(bertkit.find_recipe("finetune/glue/sst2"), tmp_path / "café.yaml")
    with (tmp_path / "café.yaml").open("a") as file:
        file.write("# größer — 比\n")
    command = shlex.join([*STARTS, "recipes", "show", "café.yaml"])
    done = [run(command, tmp_path, **locale) for locale in LOCALES[:3]]
    assert [each.returncode for each in done] == [0, 0, 0], done
    assert "größer — 比".encode() in done[0].stdout
    assert {each.stdout for each in done} == {done[0].stdout}


def test_characters_that_an_encoding_lacks_are_escaped(tmp_path):
    (tmp_path / "x.yaml").write_text("# 比\n", encoding="utf-8")
    done = run(shlex.join([*STARTS, "recipes", "show", "x.yaml"]), tmp_path, PYTHONIOENCODING="latin-1")
    assert done.stdout == b"# \\u6bd4\n"


def test_a_deleted_working_directory(tmp_path):
    command = shlex.join([*STARTS, "recipes", "copy", "sst2", "x.yaml"])
    done = run(f"mkdir gone; cd gone; rmdir ../gone; {command}; echo $?", tmp_path)
    assert done.stdout == b"2\n"
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["recipes", "show", b"caf\xe9.yaml"], ["predict", "x", b"\xff\xfe"]])
def test_an_argument_that_is_not_utf8_is_named(arguments, tmp_path):
    done = run(shlex.join([*STARTS, *map(os.fsdecode, arguments)]), tmp_path)
    assert done.returncode == 2
    number = len(arguments)
    assert done.stderr.startswith(f"bertkit: error: argument {number}, {arguments[-1]!r}: not UTF-8".encode())


def test_file_names_that_are_not_utf8_are_read(forks, tmp_path):
    """They are found in a folder whose own name is."""
    os.makedirs(os.path.join(os.fsencode(tmp_path), b"texts"))
    for name in (b"caf\xe9.txt", b"\xff.txt", b"a\x1b[31m.txt"):
        with open(os.path.join(os.fsencode(tmp_path), b"texts", name), "w") as file:
            file.write("A good film. A bad film. The plot is good.\n" * 20)
    command = f"{forks.folder}/bertkit tokenizer train --corpus texts --vocab-size 44 --output-dir new"
    done = run(command, tmp_path, **forks.environment)
    assert (done.stdout, b"Traceback" in done.stderr) == (b"44 pieces: new\n", False), done.stderr


def test_a_closed_stdin_is_no_input(tmp_path):
    program = "from pathlib import Path; from bertkit.inference.inputs import read_inputs; list(read_inputs(Path('-')))"
    done = run(f"{shlex.join([sys.executable, '-c', program])} <&-", tmp_path)
    assert done.stderr.endswith(b"bertkit.runtime.errors.DataError: --input -: standard input is closed\n")


def test_all_output_is_escaped():
    """A command prints with the functions of one module, which escapes control characters."""
    package = Path(bertkit.__file__).parent
    printing = {package / "cli" / "printing.py"}
    for path in set(package.rglob("*.py")) - printing:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                targets = [keyword.value for keyword in node.keywords if keyword.arg == "file"]
                assert [ast.unparse(target) for target in targets] == ["sys.stderr"], f"{path}: use print_text"
            if isinstance(node, ast.Attribute):
                assert ast.unparse(node) != "sys.stdout.write", f"{path}: use bertkit.cli.printing"


@pytest.mark.slow
def test_imports_print_nothing_to_stdout(tmp_path):
    """transformers prints a line to stdout if Weights & Biases is offline."""
    line = shlex.join([sys.executable, "-c", "import bertkit; bertkit.finetune"])
    done = run(line, tmp_path, WANDB_MODE="offline")
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    assert b"offline" in done.stderr
