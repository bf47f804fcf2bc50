"""Writes the generated pages of the reference: commands, recipe keys and finding codes.

    python scripts/reference_pages.py [FOLDER]     default: docs/reference

The pages are not committed; `.ci/run docs` generates them before it builds the site.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import bertkit
from bertkit.features.checks.findings import rules
from bertkit.tasks.registry import TASKS

_RECIPES = """# Recipe keys

A recipe is a YAML file with the blocks `task`, `model`, `data`, `train`, `placement` and `hub`. The lists give the
keys with their types and defaults; a default is the value of a recipe that does not have the key. The recipes of
bertkit set many keys to other values, which `bertkit recipes show NAME` prints. `--set BLOCK.KEY=VALUE` changes a key
for one run.

`task`, `model`, `data` and `train` may change the numbers of a run, except for `train.report` and the keys of trackers;
`placement` and `hub` do not. The blocks `task` and `data` depend on `task.kind`.

This page is generated from the [JSON Schema of recipes](../guides/shell.md#recipes-in-editors)."""

_FINDINGS = """# Finding codes

Rules of `bertkit check` and `--check`, with the codes of their findings. [Checking a run](../guides/checks.md#codes)
gives levels, limits and sources, and the codes of what a run itself refuses, which have no rule. A rule is left out if
the run does not have what it reads: a rule for labels needs labelled splits, for example.

This page is generated from the rules."""


def main(folder: Path) -> None:
    """Writes the three pages to a folder, which is created if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    docs = ["typer", "bertkit.cli.app", "utils", "docs", "--name", "bertkit", "--title", "Commands"]
    commands = folder / "commands.md"
    subprocess.run([sys.executable, "-m", *docs, "--output", str(commands)], check=True)
    commands.write_text(with_summaries(commands.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "recipes.md").write_text(recipe_keys(bertkit.recipe_schema()), encoding="utf-8")
    (folder / "findings.md").write_text(finding_codes(), encoding="utf-8")


def with_summaries(page: str) -> str:
    """Returns the page of the commands with whole summaries in its lists, which typer cuts at 45 characters.

    >>> print(with_summaries("* `run`: Run a...\\n\\n## `bertkit run`\\n\\nRun a\\ntask.\\n\\nMore.").splitlines()[0])
    * `run`: Run a task.
    """
    summaries = dict(re.findall(r"^##+ `bertkit (.+?)`\n\n(.+?)\n\n", page, re.M | re.S))
    lines, group = [], ""
    for line in page.splitlines():
        if heading := re.match(r"##+ `bertkit (.+)`$", line):
            group = f"{heading[1]} "
        if item := re.match(r"(\* `([\w-]+)`: ).*\.\.\.$", line):
            line = item[1] + " ".join(summaries[group + item[2]].split())
        lines.append(line)
    return "\n".join(lines) + "\n"


def recipe_keys(schema: Mapping[str, Any]) -> str:
    """Returns the page of all recipe keys from the JSON Schema of recipes."""
    blocks = schema["definitions"]
    parts = [_RECIPES]
    for name in ("train", "placement", "hub"):
        parts += [f"## `{name}`", _block(name, blocks[name])]
    parts += ["## `model` of fine-tuning", _block("model", blocks["model_of_finetuning"])]
    for kind in (each for each in TASKS.kinds() if each not in TASKS.third_party()):
        parts.append(f"## Recipes of kind `{kind}`")
        if kind == "pretraining":
            parts += ["### `model` of `pretraining`", _block("model", blocks["model_of_pretraining"])]
        for name in ("task", "data"):
            parts += [f"### `{name}` of `{kind}`", _block(name, blocks[f"{name}_{kind}"])]
    return "\n\n".join(parts) + "\n"


def _block(name: str, schema: Mapping[str, Any]) -> str:
    return f"{schema['description']}\n\n" + "\n".join(_keys(name, schema))


def _keys(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yields an item for each key, and for those of values that are mappings, such as ``model.lora``."""
    for key, value in schema["properties"].items():
        facts = [value_type(value)]
        if key in schema.get("required", ()):
            facts.append("required")
        elif "default" in value:
            facts.append(f"default `{json.dumps(value['default'])}`")
        yield f"* `{name}.{key}` ({'; '.join(facts)}): {_prose(value['description'])}"
        for each in value.get("anyOf", ()):
            if "properties" in each:
                yield from _keys(f"{name}.{key}", each)


def value_type(schema: Mapping[str, Any]) -> str:
    """Returns the type of a value as text.

    >>> value_type({"type": ["integer", "null"], "minimum": 1})
    'integer ≥ 1, or null'
    >>> value_type({"enum": ["mean", None]})
    '`mean`, `null`'
    """
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{each if isinstance(each, str) else json.dumps(each)}`" for each in schema["enum"])
    names = [schema["type"]] if isinstance(schema.get("type"), str) else list(schema.get("type", ()))
    limits = _limits(schema)
    texts = []
    for name in names:
        items = schema.get("items") or schema.get("additionalProperties")
        of = f" of {value_type(items)}" if name in ("array", "object") and isinstance(items, dict) else ""
        texts.append(name + of + (f" {limits}" if limits and name in ("integer", "number") else ""))
    alternatives = [value_type(each) for each in schema.get("anyOf", ())]
    if names and alternatives:  # a number in a range, or one other value
        return f"{texts[0]} {' or '.join(alternatives)}"
    return ", or ".join(texts + alternatives) or limits or "any"


def _limits(schema: Mapping[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    return ", ".join(f"{sign} {schema[key]:,.10g}" for key, sign in signs.items() if key in schema)


def finding_codes() -> str:
    """Returns the page of the rules of `bertkit check`, by their modules."""
    parts = [_FINDINGS]
    for module, group in groupby(rules(), lambda each: inspect.getmodule(each.function)):
        subject = module.__name__.rpartition(".")[2].removesuffix("_rules").replace("_", " ").capitalize()
        items = [f"* `{each.code}`: {_summary(each.function)}" for each in group]
        parts.append(f"## {subject}\n\n" + "\n".join(items))
    return "\n\n".join(parts) + "\n"


def _summary(function: Any) -> str:
    text = inspect.getdoc(function).partition("\n\n")[0]
    return " ".join(text.split()).replace("``", "`")


def _prose(text: str) -> str:
    return re.sub(r"(?<!`)\b(TrainingArguments\.\w+)", r"`\1`", text)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "reference")
