"""Adaptation of checkpoints to a text: new words, or a new tokenizer."""

from __future__ import annotations

COMMANDS = {"tokenizer extend": ("", ""), "tokenizer swap": ("", "")}

PUBLIC = {"extend_tokenizer": "extend:extend_tokenizer", "swap_tokenizer": "swap:swap_tokenizer"}
