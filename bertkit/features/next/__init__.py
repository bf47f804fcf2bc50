"""Which rows to label next, and what more rows will bring; see docs/guides/next.md."""

from __future__ import annotations

PUBLIC = {"label_rows": "labelling:label_rows", "propose_rows": "propose:propose_rows"}
COMMANDS = {"next": ("Look at the results", "evaluate"), "label": ("Look at the results", "next")}
