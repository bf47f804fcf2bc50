"""The tables of the BERT paper, with the scores of other checkpoints beside the paper's."""

from __future__ import annotations

NEEDS = "grids"

COMMANDS = {"reproduce": ("Experiments", "ablations")}

PUBLIC = {"reproduce": "reproduce:reproduce"}
