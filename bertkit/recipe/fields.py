"""Types of recipe values: pydantic checks values against the annotations of settings' fields, and describes them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING
from enum import Enum
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from bertkit.errors import did_you_mean, shown
from bertkit.options import Range, descriptions

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError


class Field(NamedTuple):
    """A key of a block.

    Attributes:
        hint: annotation of its values.
        help: description.
        default: value of a recipe without the key; `dataclasses.MISSING` if there is none.
        range: range of its numbers.
    """

    hint: Any
    help: str = ""
    default: Any = MISSING
    range: Range | None = None


class Fields(dict[str, Field]):
    """Fields of a block by key, not changed after it is made; ``required`` are those that a recipe must have."""

    required: Sequence[str] = ()

    @cached_property
    def annotation(self) -> Any:
        """Annotation of mappings with some of the keys: numbers and text are not converted into each other."""
        from pydantic import ConfigDict
        from typing_extensions import TypedDict

        typed_dict: Any = TypedDict  # the functional form, for keys that are known when it is called
        block = typed_dict("Block", {key: _described(each) for key, each in self.items()}, total=False)
        block.__pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
        if self.required:
            block.__pydantic_config__["json_schema_extra"] = {"required": list(self.required)}
        return block

    @cached_property
    def adapter(self) -> TypeAdapter[dict[str, Any]]:
        """Type of these mappings."""
        from pydantic import TypeAdapter

        return TypeAdapter(self.annotation)


@cache
def fields_of(settings: type) -> Fields:
    """Returns the fields of a settings dataclass by name."""
    hints, described = get_type_hints(settings), descriptions(settings)
    fields = Fields(
        (
            each.name,
            Field(
                hints[each.name],
                described[each.name].get("help", ""),
                each.default if each.default_factory is MISSING else each.default_factory(),
                described[each.name].get("range"),
            ),
        )
        for each in dataclasses.fields(settings)
    )
    fields.required = [key for key, each in fields.items() if each.default is MISSING]
    return fields


def members(hint: Any) -> tuple[Any, ...]:
    """Returns the types of which an annotation is the union, or the annotation alone.

    >>> members(list[str] | None)
    (list[str], <class 'NoneType'>)
    """
    return get_args(hint) if isinstance(hint, UnionType) or get_origin(hint) is Union else (hint,)


@cache
def adapter_of(hint: Any) -> TypeAdapter[Any]:
    """Returns the type of the values that an annotation allows."""
    from pydantic import ConfigDict, TypeAdapter

    if settings := nested(hint):
        return fields_of(settings).adapter
    return TypeAdapter(_checked(hint), config=ConfigDict(strict=True, allow_inf_nan=False))


def _described(field: Field) -> Any:
    import pydantic

    extra = {"default": _plain(field.default)} if _is_plain(field.default) else None
    return Annotated[
        _checked(field.hint, field.range), pydantic.Field(description=field.help or None, json_schema_extra=extra)
    ]


def _checked(hint: Any, numbers: Range | None = None) -> Any:
    """Returns an annotation for pydantic: with a range, whole numbers as 1e5, and the names of an Enum.

    Annotations of transformers that are no plain data allow any value, which transformers checks itself.
    """
    import pydantic

    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, UnionType) or origin is Union:
        # TrainingArguments annotates a name as ``SomeEnum | str``: only the names of the Enum are right.
        names = [each for each in arguments if isinstance(each, type) and issubclass(each, Enum)]
        kept = [each for each in arguments if not names or each is not str]
        return Union[tuple(_checked(each, numbers if _is_number(each) else None) for each in kept)]  # noqa: UP007
    if hint is int or hint is float:
        limits = (
            {} if numbers is None else {key: value for key, value in numbers._asdict().items() if value is not None}
        )
        whole = [pydantic.BeforeValidator(_whole)] if hint is int else []
        return Annotated[hint, pydantic.Field(**limits), *whole]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Literal[tuple(each.value for each in hint)]
    if origin in (list, dict):
        return origin[tuple(_checked(each) for each in arguments)]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint.__module__.startswith("bertkit."):
        return fields_of(hint).annotation
    plain = hint in (bool, str, list, dict, NoneType, None) or origin is Literal
    return hint if plain else Any


def _is_number(hint: Any) -> bool:
    return hint in (int, float)


def _whole(value: Any) -> Any:
    """Returns a whole float such as 1e5 as an int."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# ---- messages -------------------------------------------------------------------------------------------------------


def faults_of(
    error: ValidationError, fields: Mapping[str, Field], values: Mapping[Any, Any], most_named: int
) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yields the path of each wrong key and what is wrong with it.

    Args:
        error: error of the type of ``fields``.
        fields: fields by key.
        values: the values.
        most_named: number of unknown keys for which a similar key is looked up, which takes time.
    """
    by_path: dict[tuple[Any, ...], list[Any]] = {}
    for each in error.errors(include_url=False):
        by_path.setdefault(_path(each["loc"], fields), []).append(each)
    for number, (path, errors) in enumerate(by_path.items()):
        known, value = _known(path, fields), values.get(path[0])
        if len(path) > 1:
            value = value.get(path[1]) if isinstance(value, Mapping) else None
        if path[-1] not in known:
            near = did_you_mean(str(path[-1]), known) if number < most_named else ""
            yield path, f"unknown key{near}"
        else:
            yield path, _message(errors, value, known[path[-1]].range)


def _path(place: tuple[Any, ...], fields: Mapping[str, Field]) -> tuple[Any, ...]:
    """Returns the keys in the place of an error: one, or two in a value that is a mapping of settings."""
    return place[: 2 if len(place) > 1 and place[0] in fields and nested(fields[place[0]].hint) else 1]


def _known(path: tuple[Any, ...], fields: Mapping[str, Field]) -> Mapping[str, Field]:
    settings = nested(fields[path[0]].hint) if len(path) > 1 else None
    return fields if settings is None else fields_of(settings)


def nested(hint: Any) -> Any:
    """Returns the settings dataclass of values that are mappings of settings; None for any other annotation."""
    return next((each for each in members(hint) if dataclasses.is_dataclass(each)), None)


def _message(errors: list[Any], value: Any, numbers: Range | None) -> str:
    """Formats the errors of a value; for a union there is one for each of its members."""
    expected, near = [], ""
    for each in errors:
        choices = re.findall(r"'([^']*)'", each.get("ctx", {}).get("expected", ""))
        if choices and isinstance(value, str):
            near = did_you_mean(value, choices)
        if numbers is not None and each["type"].startswith(("greater_than", "less_than")):
            expected.append(str(numbers))
        elif choices:
            expected.append(f"one of {', '.join(choices)}")
        else:
            words = (
                each["msg"].removeprefix("Input should be ").replace("valid ", "").replace("a integer", "an integer")
            )
            expected.append(words.replace("a dictionary", "a mapping"))
    return f"expected {' or '.join(dict.fromkeys(expected))}, got {shown(value)}{near}"


# ---- schema ---------------------------------------------------------------------------------------------------------


def schema_of(fields: Fields) -> dict[str, Any]:
    """Returns the JSON Schema of mappings with some of the keys."""
    from pydantic.json_schema import GenerateJsonSchema

    class WithoutTitles(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    schema = fields.adapter.json_schema(schema_generator=WithoutTitles)
    definitions = schema.pop("$defs", {})

    def plain(node: Any) -> Any:
        """Returns a schema with the values that are mappings of settings in their place."""
        if isinstance(node, list):
            return [plain(each) for each in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return plain(definitions[node["$ref"].rpartition("/")[2]])
        return {key: plain(each) for key, each in node.items() if not (key == "title" and isinstance(each, str))}

    return dict(plain(schema))


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def _is_plain(value: Any) -> bool:
    return isinstance(_plain(value), str | int | float | bool | list | dict | NoneType)
