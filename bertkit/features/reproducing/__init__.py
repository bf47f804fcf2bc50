"""The tables of the BERT paper, with other checkpoints beside its scores; see docs/guides/reproduce.md."""

from __future__ import annotations

NEEDS = "grids"
PUBLIC = {"reproduce": "reproduce:reproduce"}
COMMANDS = {"reproduce": ("Experiments", "ablations")}
