"""Recipe files: found by name, read as YAML with the line of every key, written; and the paths in them.

A recipe is plain data: null, booleans, numbers, text, lists and mappings. Files are not trusted: tags are refused, and
so are aliases of anything but single values, which could stand for any number of values.
"""

from __future__ import annotations

import glob
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError
from yaml.events import AliasEvent

from bertkit.runtime.errors import RecipeError, did_you_mean, shortened, shown
from bertkit.runtime.files import check_new_file, write_whole
from bertkit.runtime.reading.paths import is_url, workbook_and_sheet

GLUE = "finetune/glue/"
"""Folder of the recipes of GLUE, whose names are those of its tasks."""
SCHEMA_FILE = "schema.json"
"""File with the schema of all kinds of recipes, beside bertkit's own."""

_SCHEMA = re.compile(r"^(# yaml-language-server: \$schema=)((?:\.\./)+\S+)$", re.M)
# An absolute path within text; the group is its last part.
_PATH_WITHIN = re.compile(r"(?:(?<![^\s'\"`(=:,\[])|(?<=file://))/(?:[^\s/'\"`()]+/)+([^\s/'\"`(),;]*)")
_NEXT_PATH = re.compile(r"\s['\"]?/")
_MOST_BYTES = 1 << 20
_MOST_DIGITS = 19  # of a whole number: 64 bits

_INT, _STR = "tag:yaml.org,2002:int", "tag:yaml.org,2002:str"
_SCALARS = {
    "tag:yaml.org,2002:null": (r"^(?:~|null|Null|NULL|)$", "~nN"),
    "tag:yaml.org,2002:bool": (r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    _INT: (r"^[-+]?[0-9]+$", "-+0123456789"),
    "tag:yaml.org,2002:float": (
        r"^(?:[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$",
        "-+.0123456789",
    ),
}


class _Loader(yaml.SafeLoader):
    """Loader of plain data with the scalars of YAML 1.2: ``no`` and ``on`` are strings and ``1e-4`` is a number.

    Raises:
        yaml.YAMLError: the text is not YAML; it has a tag, an alias of a list or a mapping, or a key twice.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        if getattr(event, "tag", None) is not None:
            expected = "a recipe has plain values; write it without the tag"
            raise ComposerError(None, None, f"the tag {event.tag}; {expected}", mark)
        if isinstance(event, AliasEvent) and not isinstance(self.anchors.get(event.anchor), yaml.ScalarNode):
            problem = f"the alias *{event.anchor} is not that of a single value; write the values"
            raise ComposerError(None, None, problem, mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            keys = [self.construct_object(key_node) for key_node, _ in node.value]
            at = next(at for at, key in enumerate(keys) if key in keys[:at])
            problem = f"{keys[at]} is given twice; keep one of them"
            raise ConstructorError(None, None, problem, node.value[at][0].start_mark)
        return mapping


class _TextLoader(_Loader):
    """Loader that leaves all values as text."""


class _Dumper(yaml.SafeDumper):
    """Dumper whose output `_Loader` reads back unchanged."""

    def ignore_aliases(self, data: Any) -> bool:
        return True  # a list that stands in two places is written twice


_TextLoader.yaml_implicit_resolvers = {}
for _class in (_Loader, _Dumper):
    _class.yaml_implicit_resolvers = {}
    for _tag, (_pattern, _first) in _SCALARS.items():
        _class.add_implicit_resolver(_tag, re.compile(_pattern), [*_first, ""])


# Block style keeps text of several lines, such as BibTeX, readable; U+0085 would be read back as a line break.
_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        _STR, text, style='"' if "\x85" in text else "|" if "\n" in text else None
    ),
)


def _integer(loader: yaml.SafeLoader, node: Any) -> int:
    """Returns a whole number in decimal, also with leading zeros."""
    if len(node.value.lstrip("+-0")) > _MOST_DIGITS:
        problem = f"a number of {len(node.value)} digits; expected at most {_MOST_DIGITS}"
        raise ConstructorError(None, None, problem, node.start_mark)
    return int(node.value)


_Loader.add_constructor(_INT, _integer)


def _parse(text: str, place: str, places: dict[str, str] | None = None, loader_class: type[_Loader] = _Loader) -> Any:
    """Parses YAML."""
    try:
        loader = loader_class(text)
        node = loader.get_single_node()
        if places is not None:
            _note_places(place, node, "", places)
        return None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{place}, line {mark.line + 1}, column {mark.column + 1}" if mark else place
        reason = ", ".join(filter(None, (error.context, error.problem)))
        raise RecipeError(f"{where}: not valid YAML: {shortened(reason, 300)}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: an escape of no character
        raise RecipeError(f"{place}: not valid YAML: {shortened(str(error), 300)}") from None
    except RecursionError:
        raise RecipeError(f"{place}: not valid YAML: too many lists and mappings within each other") from None


def parse_value(text: str) -> Any:
    """Parses one value as in a recipe; RecipeError if the text is not valid YAML.

    >>> parse_value("1e-4"), parse_value("no"), parse_value("[a, 2]"), parse_value("true")
    (0.0001, 'no', ['a', 2], True)
    """
    return _parse(text, f"the value {shown(text)}")


def parse_texts(text: str) -> Any:
    """Parses one value without types: a text, or lists and mappings of texts. Raises as `parse_value`.

    >>> parse_texts("[a, 2, {no: 1e5}]")
    ['a', '2', {'no': '1e5'}]
    """
    return _parse(text, f"the value {shown(text)}", loader_class=_TextLoader)


def check_plain(value: Any) -> None:
    """Checks that a value has finite numbers of at most 64 bits, and text that files can hold.

    Raises:
        RecipeError: it is or contains another one.
    """
    for each in _single_values(value):
        if isinstance(each, float) and not math.isfinite(each):
            raise RecipeError(f"expected finite numbers, got {each}")
        if isinstance(each, int) and not -(2**63) <= each < 2**63:
            raise RecipeError(f"expected numbers of at most 64 bits, got {shown(each)}")
        if isinstance(each, str):
            wrong = next((sign for sign in each if sign == "\0" or "\ud800" <= sign <= "\udfff"), None)
            if wrong is not None:
                raise RecipeError(f"{shown(each)} holds \\u{ord(wrong):04x}, which is no character of a text")


def _single_values(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for each in (*value.keys(), *value.values()):
            yield from _single_values(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _single_values(each)
    else:
        yield value


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
    blocks = _parse(read_recipe_text(path), str(path), places)
    if not isinstance(blocks, dict):
        raise RecipeError(f"{path}: expected the blocks of a recipe (task, model, data, train, placement, hub)")
    return blocks, places


def _note_places(path: str, node: yaml.Node | None, prefix: str, places: dict[str, str]) -> None:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        dotted = f"{prefix}{shortened(str(key.value), 200)}"
        places[dotted] = f"{path}, line {key.start_mark.line + 1}: {dotted}"
        if not prefix:
            _note_places(path, value, f"{dotted}.", places)


# ---- names ---------------------------------------------------------------------------------------------------------


def recipe_folder() -> Path:
    """Returns the folder of bertkit's own recipes: inside of an installed package, or next to it in a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "recipes", package.parent / "recipes"):
        if folder.is_dir():
            return folder
    raise RuntimeError(f"bertkit's recipes are missing: there is no folder recipes in {package} or next to it")


def list_recipes() -> list[str]:
    """Returns the names of all shipped recipes, such as ``finetune/glue/sst2``, sorted.

    Examples:
        ```python
        [name for name in bertkit.list_recipes() if name.startswith("finetune/glue/")]
        ```
    """
    folder = recipe_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def recipes_in(folder: str) -> list[str]:
    """Returns the names of the shipped recipes in a folder, such as `GLUE`, without it."""
    return [name.removeprefix(folder) for name in list_recipes() if name.startswith(folder)]


def find_recipe(name_or_file: str | Path) -> Path:
    """Returns the file of a recipe given by name, by a part of its name (``bert-mini``, ``squad/v1``), or as a path.

    A part begins and ends at a slash: ``mini`` is none of ``pretrain/bert-mini``. One at the end of a name comes first.

    Raises:
        RecipeError: the recipe does not exist, or several names have this part.

    Examples:
        ```python
        bertkit.find_recipe("bert-mini").read_text()  # the file, with its comments
        ```
    """
    path = Path(name_or_file)
    try:
        is_file = path.is_file()
    except OSError as error:  # a name that is too long, or a folder that cannot be entered
        raise RecipeError(f"recipe {shown(str(name_or_file))}: {error.strerror}") from None
    if is_file:
        return path
    if path.suffix in (".yaml", ".yml"):
        raise RecipeError(f"recipe {name_or_file}: no such file")
    wanted, known = str(name_or_file).strip("/"), list_recipes()
    matches = [name for name in known if name == wanted] or [name for name in known if name.endswith(f"/{wanted}")]
    matches = matches or [name for name in known if f"/{wanted}/" in f"/{name}"]  # a folder, such as squad
    if len(matches) == 1:
        return recipe_folder() / f"{matches[0]}.yaml"
    if matches:
        raise RecipeError(f"recipe {shown(wanted)} is ambiguous: {', '.join(matches)}; give the full name")
    near = did_you_mean(wanted, [*known, *(name.rpartition("/")[2] for name in known)])
    raise RecipeError(f"unknown recipe {shown(wanted)}; `bertkit recipes list` lists all recipes{near}")


def recipe_text(name_or_file: str | Path) -> str:
    """Returns the text of a recipe, for a new file; the line that names the schema to editors has its whole path.

    Raises:
        RecipeError: the recipe does not exist or cannot be read.
    """
    path = find_recipe(name_or_file)
    text = read_recipe_text(path)
    return _SCHEMA.sub(lambda match: f"{match[1]}{(path.parent / match[2]).resolve()}", text, count=1)


def copy_recipe(name: str, destination: str | Path) -> Path:
    """Copies a recipe with its comments to a new file, or into a folder under its own name; returns the new path.

    Raises:
        RecipeError: as `recipe_text`.
        OutputError: the file exists, or its folder does not.

    Examples:
        ```python
        path = bertkit.copy_recipe("finetune/classification", "my-recipe.yaml")
        bertkit.load_recipe(path)
        ```
    """
    source, destination = find_recipe(name), Path(destination)
    target = destination / source.name if destination.is_dir() else destination
    check_new_file(target, str(target))
    write_whole(target, recipe_text(source).encode())
    return target


# ---- paths ---------------------------------------------------------------------------------------------------------


def absolute(path: str | Path) -> str:
    """Makes an existing file or folder, or a pattern, absolute, as ``recipe.yaml`` needs; other names and URLs stay.

    >>> absolute("google-bert/bert-base-uncased"), absolute("/texts/*.txt"), absolute("https://a.org/store?c=d")
    ('google-bert/bert-base-uncased', '/texts/*.txt', 'https://a.org/store?c=d')
    >>> absolute("~no-such-user/a.csv")
    '~no-such-user/a.csv'
    """
    expanded = os.path.expanduser(path)
    workbook, sheet = workbook_and_sheet(expanded)
    if os.path.exists(workbook):
        there = Path(workbook)
        # A link to a file keeps its name: in the cache of the Hub, the file that it leads to has no suffix.
        whole = there.resolve() if there.is_dir() else there.parent.resolve() / there.name
        return f"{whole}" + (f"#{sheet}" if sheet is not None else "")
    if any(sign in str(path) for sign in "*?[") and not is_url(str(path)):
        return os.path.join(glob.escape(os.getcwd()), expanded)
    return str(path)


def run_name(place: str | Path) -> str:
    """Returns the name by which readers know a run or a checkpoint: that of its folder, or the Hub id.

    A folder within a run or a grid has the name of the run before its own: ``mails/checkpoint-90``, ``grid/best``.
    """
    if not Path(place).is_dir():
        return str(place)
    folder = Path(place).resolve()
    is_within = folder.name == "best" or folder.name.startswith("checkpoint-")
    return "/".join(folder.parts[-2:]) if is_within else folder.name


def without_paths(value: Any) -> Any:
    """Returns plain data with every absolute path reduced to its last part, so that it can be published.

    >>> without_paths({"data": {"corpus": ["/home/ada/books"], "hub": "nyu-mll/glue"}, "seed": 1})
    {'data': {'corpus': ['…/books'], 'hub': 'nyu-mll/glue'}, 'seed': 1}
    >>> without_paths("9 of 90 rows of /home/ada/a.csv, drawn; see https://example.org/a/b")
    '9 of 90 rows of …/a.csv, drawn; see https://example.org/a/b'
    >>> without_paths({"label_separator": "/", "files": ("/home/ada/a.csv",)})
    {'label_separator': '/', 'files': ['…/a.csv']}
    >>> without_paths("zip://a.csv::file:///home/ada/b.zip"), without_paths("a.csv,/home/ada/b.csv")
    ('zip://a.csv::file://…/b.zip', 'a.csv,…/b.csv')
    >>> without_paths("/home/ada/my mails/a.csv: row 3: 1/2 is no number"), without_paths("/mail/a.csv and /mail/b.csv")
    ('…/a.csv: row 3: 1/2 is no number', '…/a.csv and …/b.csv')
    """
    if isinstance(value, Mapping):
        return {key: without_paths(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_paths(item) for item in value]
    if not isinstance(value, str):
        return value
    path, *message = value.partition(": ")  # a message may begin with the file that it is about
    name = Path(path).name  # empty for "/", which separates labels
    if name and Path(path).is_absolute() and not _NEXT_PATH.search(path):
        value = "".join((f"…/{name}", *message))
    return _PATH_WITHIN.sub(r"…/\1", value)
