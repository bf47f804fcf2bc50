"""The documentation site, built once from a copy of its pages."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def generator() -> ModuleType:
    """The script that writes the generated pages of the reference."""
    spec = importlib.util.spec_from_file_location("reference_pages", ROOT / "scripts" / "reference_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built(project: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site of a project; warnings are errors."""
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory, generator: ModuleType) -> Path:
    """A copy of what the site is built from, with the generated pages."""
    pytest.importorskip("zensical", reason="the extra docs is not installed")
    pytest.importorskip("mkdocstrings_handlers.python", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    (folder / "bertkit").symlink_to(ROOT / "bertkit")
    generator.main(folder / "docs" / "reference")
    return folder


@pytest.fixture(scope="session")
def site(project: Path) -> Path:
    """The folder of the built site."""
    done = built(project)
    assert done.returncode == 0, done.stdout + done.stderr
    return project / "site"
