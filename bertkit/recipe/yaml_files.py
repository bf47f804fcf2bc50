"""Reading of recipes as YAML, with the line of every key, and writing.

A recipe is plain data: null, booleans, numbers, text, lists and mappings. Files are not trusted: size, depth and the
values that aliases repeat are limited while a file is parsed, and other tags are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError
from yaml.events import AliasEvent

from bertkit.errors import RecipeError, shortened, shown

_MOST_BYTES = 1 << 20
_MOST_VALUES = 50_000  # of a file; an alias counts as all the values that it repeats
_MOST_LEVELS = 20  # of lists and mappings; recipes have about four
_MOST_DIGITS = 19  # of a whole number: 64 bits

NULL, BOOL, INT, FLOAT, STR, _LIST, _MAPPING = (
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map")
)
_WORDS = {
    NULL: "null",
    BOOL: "true or false",
    INT: "a whole number",
    FLOAT: "a number",
    STR: "text",
    _LIST: "a list",
    _MAPPING: "a mapping",
}
_SCALARS = {
    NULL: (re.compile(r"^(?:~|null|Null|NULL|)$"), "~nN\0"),
    BOOL: (re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"),
    INT: (re.compile(r"^[-+]?[0-9]+$"), "-+0123456789"),
    FLOAT: (
        re.compile(r"^(?:[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"),
        "-+.0123456789",
    ),
}


class _Loader(yaml.SafeLoader):
    """Loader of plain data with the scalars of YAML 1.2: ``no`` and ``on`` are strings and ``1e-4`` is a number.

    Raises:
        yaml.YAMLError: the text is not YAML; a tag is not that of plain data, or its text does not have its form; the
            text exceeds the limits of this module; an alias contains itself; or a key is given twice.
    """

    def __init__(self, text: str):
        super().__init__(text)
        self._level = 0
        self._total = 0  # values so far, with those that aliases repeat
        self._sizes: dict[yaml.Node, int] = {}  # values of each complete node

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        before = self._total
        if self._level == _MOST_LEVELS:
            raise ComposerError(None, None, f"more than {_MOST_LEVELS} lists and mappings within each other", mark)
        self._level += 1
        node: Any = super().compose_node(parent, index)
        self._level -= 1
        if not isinstance(event, AliasEvent):
            self._check(node)
            self._total += 1
            self._sizes[node] = self._total - before
        elif node in self._sizes:
            self._total += self._sizes[node]
        else:
            raise ComposerError(None, None, f"the alias *{event.anchor} contains itself", mark)
        if self._total > _MOST_VALUES:
            raise ComposerError(None, None, f"more than {_MOST_VALUES} values", mark)
        return node

    def _check(self, node: Any) -> None:
        """Checks the tag of a node, and that the text of a scalar has the form of its tag."""
        if node.tag not in _WORDS:
            expected = "a recipe has plain values; write it without the tag"
            raise ConstructorError(None, None, f"the tag {node.tag}; {expected}", node.start_mark)
        pattern, _ = _SCALARS.get(node.tag, (None, ""))
        if pattern is None or not isinstance(node, yaml.ScalarNode):  # construction checks the kind of node
            return
        if not pattern.fullmatch(node.value):
            raise ConstructorError(None, None, f"{shown(node.value)} is not {_WORDS[node.tag]}", node.start_mark)
        if node.tag == INT and len(node.value.lstrip("+-0")) > _MOST_DIGITS:
            digits = f"a number of {len(node.value)} digits; expected at most {_MOST_DIGITS}"
            raise ConstructorError(None, None, digits, node.start_mark)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            seen = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node)
                if key in seen:
                    raise ConstructorError(None, None, f"{key} is given twice; keep one of them", key_node.start_mark)
                seen.add(key)
        return mapping


class _Dumper(yaml.SafeDumper):
    """Dumper whose output `_Loader` reads back unchanged."""


for _class in (_Loader, _Dumper):
    _class.yaml_implicit_resolvers = {}
    for _tag, (_pattern, _first) in _SCALARS.items():
        _class.add_implicit_resolver(_tag, _pattern, [*_first, ""])


# Block style keeps text of several lines, such as BibTeX, readable.
_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(STR, text, style="|" if "\n" in text else None),
)


def _integer(loader: yaml.SafeLoader, node: Any) -> int:
    return int(loader.construct_scalar(node))


_Loader.add_constructor(INT, _integer)  # 010 is ten, not eight


def _parsed(
    text: str,
    place: str,
    places: dict[str, str] | None = None,
    with_types: Callable[[yaml.Node], yaml.Node] | None = None,
) -> Any:
    """Parses YAML.

    Args:
        text: the document.
        place: name of the text in messages.
        places: receives the places of the keys of the two upper levels, if given.
        with_types: changes the node of the document before its value is made, if given.

    Raises:
        RecipeError: the text is not the YAML of plain data, as in `_Loader`; the message has the line.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if places is not None and isinstance(node, yaml.MappingNode):
            _note_places(place, node, "", places)
        if node is not None and with_types is not None:
            node = with_types(node)
        return None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{place}, line {mark.line + 1}, column {mark.column + 1}" if mark else place
        reason = ", ".join(filter(None, (error.context, error.problem)))
        raise RecipeError(f"{where}: not valid YAML: {shortened(reason, 300)}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: an escape of no character
        raise RecipeError(f"{place}: not valid YAML: {shortened(str(error), 300)}") from None


def parse_value(text: str, with_types: Callable[[yaml.Node], yaml.Node] | None = None) -> Any:
    """Parses one value as in a recipe.

    Args:
        text: the value.
        with_types: changes the node of the value before the value is made; see `bertkit.recipe.text_values`.

    Raises:
        RecipeError: the text is not valid YAML.

    >>> parse_value("1e-4"), parse_value("no"), parse_value("[a, 2]"), parse_value("true")
    (0.0001, 'no', ['a', 2], True)
    """
    return _parsed(text, f"the value {shown(text)}", with_types=with_types)


def to_yaml(blocks: dict[str, Any]) -> str:
    """Serializes plain data as YAML, with keys in the given order."""
    return yaml.dump(blocks, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def read_recipe_text(path: Path) -> str:
    """Reads the text of a recipe file.

    Raises:
        RecipeError: the file cannot be read, is not UTF-8, or is too large for a recipe.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise RecipeError(f"{path}: more than {_MOST_BYTES >> 20} MiB; expected a recipe, of a few kB")
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot be read: {error}") from None


def read_recipe_file(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Reads a recipe and the places of its keys.

    Returns:
        The blocks, and for every block and dotted key its place as text (``sst2.yaml, line 12: train.seed``).

    Raises:
        RecipeError: the file is not readable, is not the YAML of plain data, is not a mapping, or has a duplicate key.
    """
    places: dict[str, str] = {}
    blocks = _parsed(read_recipe_text(path), str(path), places)
    if not isinstance(blocks, dict):
        raise RecipeError(f"{path}: expected the blocks of a recipe (task, model, data, train, placement)")
    return blocks, places


def _note_places(path: str, node: yaml.MappingNode, prefix: str, places: dict[str, str]) -> None:
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ConstructorError(None, None, "a list or a mapping as a key; expected text", key.start_mark)
        dotted = f"{prefix}{shortened(key.value, 200)}"
        line = key.start_mark.line + 1
        if dotted in places:
            raise RecipeError(f"{path}, line {line}: {dotted} is given twice; keep one of them")
        places[dotted] = f"{path}, line {line}: {dotted}"
        if isinstance(value, yaml.MappingNode) and not prefix:
            _note_places(path, value, f"{dotted}.", places)
