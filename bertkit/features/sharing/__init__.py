"""Export, model card and upload of a checkpoint."""

from __future__ import annotations

COMMANDS = {"push": ("Share", ""), "export": ("Share", "push")}

PUBLIC = {"export": "export:export", "push": "push:push"}

OPTIONS = {"run": "command:Push"}

LISTENERS = ("listener:CardListener", "listener:PushListener")
