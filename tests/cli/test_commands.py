"""Output of the commands, and the modules that ``--help`` does not import."""

from __future__ import annotations

import subprocess
import sys


def test_the_version_is_the_packages(bertkit):
    from importlib.metadata import version

    assert bertkit("--version").out == f"bertkit {version('bertkit')}\n"


def test_help_and_recipes_import_neither_torch_nor_transformers():
    """Checks the imports that decide the time; benchmarks/ measures the seconds."""
    program = (
        "import sys\n"
        "from bertkit.cli.app import main\n"
        "sys.argv = ['bertkit', *sys.argv[1:]]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'transformers', 'datasets', 'numpy'} & set(sys.modules)))\n"
    )
    for arguments in (["--help"], ["finetune", "--help"], ["recipes", "list"]):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"
    for arguments in (["finetune", "glue", "--help"], ["pretrain", "--help"]):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "['numpy']"  # which the modules of tasks import, for their settings


def test_recipes_are_listed_shown_copied_and_validated(bertkit, tmp_path):
    names = bertkit("recipes", "list").out.split()
    assert "finetune/glue/sst2" in names
    shown = bertkit("recipes", "show", "finetune/glue/sst2").out
    assert shown.splitlines()[1].startswith("# SST-2")
    target = tmp_path / "mine.yaml"
    assert bertkit("recipes", "copy", "finetune/glue/sst2", target).out == f"{target}\n"
    assert target.read_text() == shown
    assert bertkit("recipes", "validate", target).out == f"{target}: ok\n"
    target.write_text(shown + "\nspeed: {fast: 1}\n")
    bertkit("recipes", "validate", target).refuses("unknown block")


def test_a_bug_keeps_its_traceback():
    program = (
        "import sys, bertkit.recipe.files as files\n"
        "from bertkit.cli.app import main\n"
        "files.list_recipes = lambda: 1 / 0\n"
        "sys.argv = ['bertkit', 'recipes', 'list']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
