"""Recipe values given as text, as by ``--set``: the type of the field decides what the text is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from bertkit.errors import RecipeError
from bertkit.recipe.yaml_files import BOOL, FLOAT, INT, NULL, STR, parse_value

# The types that a plain scalar of YAML can have; any other scalar is text.
_TYPES: dict[str, tuple[type, ...]] = {NULL: (NoneType,), BOOL: (bool,), INT: (int, float), FLOAT: (float,)}


@dataclass(frozen=True)
class Text:
    """Value of a recipe in YAML; `typed` gives the value that it has in a certain field."""

    text: str


def typed(value: Any, hint: Any) -> Any:
    """Returns a recipe value with each `Text` in it replaced by the value that it has in a field annotated ``hint``.

    A field that can hold text takes it as it is given, unless it is quoted, or is YAML of another type that the field
    can hold. Other fields take YAML.

    Args:
        value: a value, a `Text`, or a mapping with some of them.
        hint: annotation of the field; a dataclass for a mapping of its fields.

    Raises:
        RecipeError: the text is not YAML, and the field does not take text.

    >>> [typed(Text(text), str | None) for text in ("|", "no", "1e5", "a: b", "null", "'null'")]
    ['|', 'no', '1e5', 'a: b', None, 'null']
    >>> typed(Text("1e5"), float), typed(Text("[no, 1e5]"), list[str]), typed(Text("[0, 1]"), str | list[int])
    (100000.0, ['no', '1e5'], [0, 1])
    """
    if isinstance(value, Text):
        return _parsed(value.text, hint)
    if isinstance(value, Mapping):
        return {key: typed(each, _of_key(hint, key)) for key, each in value.items()}
    return value


def members(hint: Any) -> list[Any]:
    """Returns the types of which an annotation is the union, or the annotation alone.

    >>> members(list[str] | None)
    [list[str], <class 'NoneType'>]
    """
    return list(get_args(hint)) if isinstance(hint, UnionType) or get_origin(hint) is Union else [hint]


def kinds(hint: Any) -> set[Any]:
    """Returns the classes of the values that an annotation allows; `typing.Any` for itself.

    >>> sorted(kind.__name__ for kind in kinds(list[str] | Literal["all", 1] | None))
    ['NoneType', 'int', 'list', 'str']
    """
    found: set[Any] = set()
    for member in members(hint):
        if get_origin(member) is Literal:
            found |= {type(choice) for choice in get_args(member)}
        elif isinstance(member, type) and issubclass(member, Enum):
            found.add(str)  # recipes have the values of its members
        elif dataclasses.is_dataclass(member):
            found.add(dict)
        else:
            found.add(get_origin(member) or member)
    return found


def _parsed(text: str, hint: Any) -> Any:
    takes_text = _takes_text(hint)
    if takes_text and (not text.strip() or text.lstrip().startswith("#")):  # nothing but a comment in YAML
        return text if text or NoneType not in kinds(hint) else None

    def with_types(node: yaml.Node) -> yaml.Node:
        _set_types(node, hint)
        if isinstance(node, yaml.ScalarNode):
            # A block is a text in YAML's own form; an indicator without one is no block.
            is_quoted = node.style in ("'", '"') or (node.style in ("|", ">") and node.value)
            as_given = node.tag == STR and not is_quoted
        else:
            as_given = takes_text and not kinds(hint) & ({list} if isinstance(node, yaml.SequenceNode) else {dict})
        return yaml.ScalarNode(STR, text) if as_given else node

    try:
        return parse_value(text, with_types)
    except RecipeError:
        if takes_text:
            return text
        raise


def _set_types(node: Any, hint: Any) -> None:
    """Tags the plain scalars of a node as text that are YAML of a type that the annotation does not allow."""
    allowed = kinds(hint)
    if isinstance(node, yaml.ScalarNode):
        fits = allowed & set(_TYPES.get(node.tag, (str,))) and node.value != "~"  # a separator rather than null
        if _takes_text(hint) and not fits and node.style is None:
            node.tag = STR
    elif isinstance(node, yaml.SequenceNode):
        lists = [member for member in members(hint) if get_origin(member) is list]
        for item in node.value:
            _set_types(item, get_args(lists[0])[0] if lists else Any)
    elif isinstance(node, yaml.MappingNode):
        mappings = [member for member in members(hint) if get_origin(member) is dict]
        for key, item in node.value:
            _set_types(key, get_args(mappings[0])[0] if mappings else Any)
            _set_types(item, _of_key(hint, key.value))


def _takes_text(hint: Any) -> bool:
    return str in kinds(hint)


def _of_key(hint: Any, key: Any) -> Any:
    """Returns the annotation of a value of a mapping: of a field if ``hint`` has a dataclass."""
    for member in members(hint):
        if dataclasses.is_dataclass(member):
            return get_type_hints(member).get(key, Any)
        if get_origin(member) is dict:
            return get_args(member)[1]
    return Any
