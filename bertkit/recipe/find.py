"""Recipes as files: where they lie, how their YAML is read (with the line of every key) and written."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from bertkit.errors import RecipeError, did_you_mean
from bertkit.files import check_new_file


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


def recipe_folder() -> Path:
    """Where bertkit's own recipes are: inside an installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "recipes", package.parent / "recipes"):
        if folder.is_dir():
            return folder
    raise RuntimeError(f"bertkit's recipes are missing: neither in {package} nor beside it")


def list_recipes() -> list[str]:
    """Names of all shipped recipes, such as ``finetune/glue/sst2``, sorted."""
    folder = recipe_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def find_recipe(name_or_file: str | Path) -> Path:
    """The file of a recipe given by name, by the end of its name (``bert-mini``), or as a file.

    Raises:
        RecipeError: no such recipe, or several names end so.
    """
    path = Path(name_or_file)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if path.is_file():
            return path
        raise RecipeError(f"recipe {name_or_file}: no such file")
    wanted, known = str(name_or_file).strip("/"), list_recipes()
    matches = [name for name in known if name == wanted] or [name for name in known if name.endswith(f"/{wanted}")]
    if len(matches) == 1:
        return recipe_folder() / f"{matches[0]}.yaml"
    if matches:
        raise RecipeError(f"recipe {wanted!r} may be any of {', '.join(matches)}; give the whole name")
    near = did_you_mean(wanted, [*known, *(name.rpartition("/")[2] for name in known)])
    raise RecipeError(f"unknown recipe {wanted!r}; `bertkit recipes list` names them all{near}")


def copy_recipe(name: str, destination: Path) -> Path:
    """Copies a recipe to a new file, comments and all; a folder gets it under its own name.

    Raises:
        OutputError: the file exists, or its folder does not.
    """
    source = find_recipe(name)
    target = destination / source.name if destination.is_dir() else destination
    check_new_file(target, str(target))
    shutil.copyfile(source, target)
    return target
