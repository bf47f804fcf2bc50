"""Checks of a run before it starts: `check.check` prepares the run and applies the rules of this package."""

from __future__ import annotations

COMMANDS = {"check": ("Prepare", "quickstart")}

PUBLIC = {"check": "check:check"}

PUBLIC_WITH = {"grids": {"check_grid": "grids:check_grid"}}

OPTIONS = {"run": "command:Check"}
