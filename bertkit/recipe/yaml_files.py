"""Recipes as YAML: read with the line of every key, and written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from bertkit.errors import RecipeError


class _Loader(yaml.SafeLoader):
    """YAML 1.2's plain scalars: ``no`` and ``on`` are words and ``1e-4`` is a number, as people expect."""


class _Dumper(yaml.SafeDumper):
    """Writes what `_Loader` reads back."""


_SCALARS = [
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", "~nN\0"),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:int", r"[-+]?[0-9]+", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
]
for _class in (_Loader, _Dumper):
    _class.yaml_implicit_resolvers = {}
    for _tag, _pattern, _first in _SCALARS:
        _class.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), [*_first, ""])


# Text of several lines, such as BibTeX, stays readable.
_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))  # 010 is ten, not eight


def parse_value(text: str) -> Any:
    """One value as it would be read in a recipe.

    >>> parse_value("1e-4"), parse_value("no"), parse_value("[a, 2]"), parse_value("true")
    (0.0001, 'no', ['a', 2], True)
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise RecipeError(f"cannot read {text!r} as a value: {error}") from None


def to_yaml(blocks: dict[str, Any]) -> str:
    """Plain data as YAML, keys in the order given."""
    return yaml.dump(blocks, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def read_recipe_file(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Reads a recipe and where its keys stand.

    Returns:
        The blocks, and for every block and dotted key its place in words (``sst2.yaml, line 12, train.seed``).

    Raises:
        RecipeError: not readable, not YAML, not a mapping, or a key given twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
        node, blocks = yaml.compose(text, _Loader), yaml.load(text, _Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise RecipeError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(node, yaml.MappingNode):
        raise RecipeError(f"{path}: expected the blocks of a recipe (task, model, data, train, placement)")
    places: dict[str, str] = {}
    _note_places(path, node, "", places)
    return blocks, places


def _note_places(path: Path, node: yaml.MappingNode, prefix: str, places: dict[str, str]) -> None:
    for key, value in node.value:
        dotted = f"{prefix}{key.value}"
        line = key.start_mark.line + 1
        if dotted in places:
            raise RecipeError(f"{path}, line {line}: {dotted} is given twice; keep one of them")
        places[dotted] = f"{path}, line {line}: {dotted}"
        if isinstance(value, yaml.MappingNode) and not prefix:
            _note_places(path, value, f"{dotted}.", places)
