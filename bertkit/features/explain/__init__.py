"""The inside of a checkpoint: its pieces, attention, predictions and their reasons, as arrays and as one page."""

from __future__ import annotations

COMMANDS = {"explain": ("Look at the results", "evaluate")}

PUBLIC = {"explain": "explain:explain"}
