"""Export, model card and upload of a checkpoint; see docs/guides/sharing.md."""

from __future__ import annotations

PUBLIC = {"export": "export:export", "push": "push:push"}
COMMANDS = {"push": ("Share", ""), "export": ("Share", "push")}
OPTIONS = {"run": "command:Push"}
LISTENERS = ("listener:CardListener", "listener:PushListener")
