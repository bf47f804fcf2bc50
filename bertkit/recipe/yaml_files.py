"""Reading of recipes as YAML, with the line of every key, and writing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from bertkit.errors import RecipeError


class _Loader(yaml.SafeLoader):
    """Loader with the plain scalars of YAML 1.2: ``no`` and ``on`` are strings and ``1e-4`` is a number."""


class _Dumper(yaml.SafeDumper):
    """Dumper whose output `_Loader` reads back unchanged."""


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


# Block style keeps text of several lines, such as BibTeX, readable.
_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))  # 010 is ten, not eight


def parse_value(text: str) -> Any:
    """Parses one value as in a recipe.

    Raises:
        RecipeError: the text is not valid YAML.

    >>> parse_value("1e-4"), parse_value("no"), parse_value("[a, 2]"), parse_value("true")
    (0.0001, 'no', ['a', 2], True)
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise RecipeError(f"cannot read {text!r} as a value: {error}") from None


def to_yaml(blocks: dict[str, Any]) -> str:
    """Serializes plain data as YAML, with keys in the given order."""
    return yaml.dump(blocks, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def read_recipe_file(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Reads a recipe and the places of its keys.

    Returns:
        The blocks, and for every block and dotted key its place as text (``sst2.yaml, line 12: train.seed``).

    Raises:
        RecipeError: the file is not readable, is not valid YAML, is not a mapping, or has a duplicate key.
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
