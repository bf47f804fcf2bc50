"""Recipe values given as text, as by ``--set``: the type of the field decides what the text is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bertkit.errors import RecipeError
from bertkit.recipe.fields import adapter_of, fields_of, members, nested
from bertkit.recipe.yaml_files import parse_texts, parse_value


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
        hint: annotation of the field.

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
        settings = nested(hint)
        hints = {key: each.hint for key, each in fields_of(settings).items()} if settings else {}
        return {key: typed(each, hints.get(key, Any)) for key, each in value.items()}
    return value


def _parsed(text: str, hint: Any) -> Any:
    takes_text = _fits(text, hint)
    try:
        value, texts = parse_value(text), parse_texts(text)
    except RecipeError:
        if takes_text:
            return text
        raise
    is_quoted = text.lstrip()[:1] in ("'", '"') or (isinstance(value, str) and text.lstrip()[:1] in "|>" and value)
    is_blank = value is None and text.strip() != "null"  # nothing, a comment, or ~ as a separator
    if Any in members(hint) or (not isinstance(value, str) and not (is_blank and text) and _fits(value, hint)):
        return value
    if isinstance(value, str) and is_quoted and takes_text:
        return value
    if isinstance(texts, list | dict) and (converted := _converted(texts, hint)) is not None:
        return converted
    return text if takes_text or (isinstance(value, str) and not is_quoted) else value


def _fits(value: Any, hint: Any) -> bool:
    try:
        adapter_of(hint).validate_python(value)
    except ValueError:
        return False
    return True


def _converted(texts: Any, hint: Any) -> Any:
    """Returns a list or mapping of texts as values of a field, such as ``['1e5']`` as a list of numbers, or None."""
    try:
        return adapter_of(hint).validate_python(texts, strict=False)
    except ValueError:
        return None
