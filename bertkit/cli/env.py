"""``bertkit env``."""

from __future__ import annotations

import bertkit
from bertkit.cli import options
from bertkit.cli.printing import print_text
from bertkit.json_text import dumps


def env(json: options.AsJson = False) -> None:
    """Print what a bug report needs: versions, processor, devices and extras; no paths, no secrets."""
    found = bertkit.environment()
    if json:
        print_text(dumps(found))
        return
    width = max(map(len, found))
    for name, value in found.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        print_text(f"{name:<{width}}  {'-' if shown in (None, '') else shown}")
