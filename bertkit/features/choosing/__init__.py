"""Choice of a checkpoint to start from, without training one; see `bertkit.features.choosing.choose`."""

from __future__ import annotations

COMMANDS = {"choose": ("Prepare", "check")}

PUBLIC = {"choose": "choose:choose"}
