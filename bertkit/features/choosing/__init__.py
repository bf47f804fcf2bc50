"""Choice of a checkpoint to start from, without training one; see docs/guides/choose.md."""

from __future__ import annotations

PUBLIC = {"choose": "choose:choose"}
COMMANDS = {"choose": ("Prepare", "check")}
