"""Adaptation of checkpoints to a text: new words, or a new tokenizer; see docs/guides/tokenizer.md."""

from __future__ import annotations

PUBLIC = {"extend_tokenizer": "extend:extend_tokenizer", "swap_tokenizer": "swap:swap_tokenizer"}
COMMANDS = {"tokenizer extend": ("", ""), "tokenizer swap": ("", "")}
