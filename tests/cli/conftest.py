"""The command line through its real entry point, in this process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from bertkit.cli.app import main


class Outcome(NamedTuple):
    """Exit code, stdout and stderr of a command."""

    code: int
    out: str
    err: str

    def refuses(self, *parts: object, without: Path | None = None) -> None:
        """Checks that the input was refused: exit code 2, no result, one message with these parts, no such path."""
        assert (self.code, self.out) == (2, ""), self
        assert self.err.count("bertkit: error:") == 1 or self.err.startswith("Usage: "), self.err
        assert "Traceback" not in self.err, self.err
        for part in parts:
            assert str(part) in self.err
        assert without is None or not without.exists()


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
