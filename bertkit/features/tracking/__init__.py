"""Trackers of runs, with one record for a run and its resumption; see docs/guides/tracking.md."""

from __future__ import annotations

LISTENERS = ("listener:TrackingListener",)
