"""Reports of runs: ``report.html`` and its figures; see docs/guides/report.md."""

from __future__ import annotations

PUBLIC = {"report": "report:report"}
COMMANDS = {"report": ("Look at the results", "runs")}
LISTENERS = ("listener:ReportListener",)
