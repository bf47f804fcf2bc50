"""Checks of a run before it starts; see docs/guides/checks.md.

`check.check` prepares the run and applies the rules of this package.
"""

from __future__ import annotations

PUBLIC = {"check": "check:check"}
PUBLIC_WITH = {"grids": {"check_grid": "grids:check_grid"}}
COMMANDS = {"check": ("Prepare", "quickstart")}
OPTIONS = {"run": "command:Check"}
