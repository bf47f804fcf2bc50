"""The command line through its real entry point, in this process."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from bertkit.cli.app import main


@dataclass
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def bertkit(monkeypatch, capfd):
    """Runs ``bertkit ARGS…`` and returns exit code, stdout and stderr."""

    def run(*args: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["bertkit", *map(str, args)])
        capfd.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        return Outcome(code, *capfd.readouterr())

    return run
