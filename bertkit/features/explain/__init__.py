"""The inside of a checkpoint: its pieces, attention, predictions and their reasons; see docs/guides/explain.md."""

from __future__ import annotations

PUBLIC = {"explain": "explain:explain"}
COMMANDS = {"explain": ("Look at the results", "evaluate")}
