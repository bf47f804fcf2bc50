"""Reports of runs: ``report.html`` and its figures."""

from __future__ import annotations

COMMANDS = {"report": ("Look at the results", "runs")}

PUBLIC = {"report": "report:report"}

LISTENERS = ("listener:ReportListener",)
