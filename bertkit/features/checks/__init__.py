"""Checks of a run before it starts: `check.check` prepares the run and applies the rules of this package."""
