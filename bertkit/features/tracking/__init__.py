"""Trackers of runs: the callbacks of transformers, with one record for a run and its resumption."""

from __future__ import annotations

LISTENERS = ("listener:TrackingListener",)
