"""Recipes of any content: each is loaded, or refused in bounded time with one bounded message, and runs no code."""

from __future__ import annotations

import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainingArguments

from bertkit.recipe import load
from bertkit.recipe.files import find_recipe, list_recipes, parse_value, read_recipe_file, to_yaml
from bertkit.recipe.load import Recipe
from bertkit.recipe.nearest import nearest_key
from bertkit.runtime.errors import RecipeError, shown
from bertkit.tasks.registry import load_recipe, validate_recipes

# Values in YAML that are no plain data, or no value of any setting.
VALUES = [
    "!!int foo",
    "!!float x",
    "!!bool maybe",
    "!!timestamp 2001-99-99",
    "!!binary ====",
    "!!set {a, b}",
    "!!python/object/apply:os.system [exit 3]",
    "!!merge <<",
    "!!str [a]",
    "!env HOME",
    "!<tag:example.org,2000:x> 1",
    "9" * 5000,
    "-" + "9" * 20,
    "1e999",
    ".nan",
    ".inf",
    "[.nan]",
    "{a: .inf}",
    "[" * 10_000,
    "{a: " * 5_000 + "1" + "}" * 5_000,
    "[" + "1, " * 3_000 + "]",
    "{a: 1, a: 2}",
    "{[a]: 1}",
    "? [a, b]",
    "{{ x }}",
    "&a [*a]",
    "*missing",
    "&a 1",
    '"\\ud800"',
    '"\\0"',
    '"\\UFFFFFFFF"',
    '"\\xZZ"',
    "'" + "x" * 1_000_000 + "'",
    "'",
    '"',
    "|",
    "%YAML 9.9",
    "\t",
    "\x07",
    "\ufeff",
    "null",
    "[]",
    "{}",
    "1e-320",
]


def bomb(levels: int, width: int) -> str:
    """Aliases that stand for width ** levels values."""
    lines = ["a0: &a0 [" + ", ".join(["x"] * width) + "]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]" for level in range(1, levels)]
    return "\n".join(lines)


def outcome(source: Path | Recipe, overrides: dict[str, Any] | None = None) -> Recipe | str:
    """The recipe, or the message that refuses it, which is bounded like the time that it takes."""
    began = time.perf_counter()
    try:
        return load_recipe(source, overrides)
    except RecipeError as error:
        message = str(error)
        assert len(message) < 50_000
        assert max(map(len, message.splitlines())) < 5_000
        assert "Traceback" not in message
        return message
    finally:
        assert time.perf_counter() - began < 60


def is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(is_plain, [*value, *value.values()]))
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:30].encode("unicode_escape").decode())
def test_hostile_values_are_refused_or_plain(tmp_path, value):
    path = tmp_path / "mine.yaml"
    for key in ("learning_rate", "report_to", "lr_scheduler_kwargs"):
        path.write_text(
            f"task:\n  kind: classification\ntrain:\n  {key}: {value}\n", encoding="utf-8", errors="replace"
        )
        found = outcome(path)
        assert is_plain(found.to_dict()) if isinstance(found, Recipe) else str(path) in found


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("!!int foo", "line 2, column 9: not valid YAML: the tag tag:yaml.org,2002:int; a recipe has plain values"),
        ("!!timestamp 2001-99-99", "not valid YAML: the tag tag:yaml.org,2002:timestamp; a recipe has plain values"),
        ("9" * 5000, "not valid YAML: a number of 5000 digits; expected at most 19"),
        ("&a [*a]", "not valid YAML: the alias *a is not that of a single value; write the values"),
        ("[[{a: 1, a: 2}]]", "not valid YAML: a is given twice; keep one of them"),
        (".nan", "train.seed: expected finite numbers, got nan"),
        (str(2**63), "train.seed: expected numbers of at most 64 bits, got 9223372036854775808"),
        ('"\\ud800"', "holds \\ud800, which is no character of a text"),
    ],
)
def test_the_refusal_names_the_line_and_the_reason(tmp_path, value, reason):
    path = tmp_path / "mine.yaml"
    path.write_text(f"train:\n  seed: {value}\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert str(caught.value).count(f"{path}, line 2") == 1
    assert reason in str(caught.value)


@pytest.mark.parametrize("levels", [4, 9, 30])
def test_aliases_that_multiply_are_not_expanded(tmp_path, levels):
    path = tmp_path / "mine.yaml"
    path.write_text(bomb(levels, 30))
    assert "is not that of a single value" in outcome(path)


def test_aliases_of_a_few_values_are_accepted(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("task: {kind: classification}\ntrain:\n  adam_epsilon: &small 1.0e-6\n  learning_rate: *small\n")
    assert load_recipe(path).train["learning_rate"] == 1e-6


def test_large_and_binary_files_are_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"# " + b"x" * (5 << 20))
    assert outcome(path) == f"{path}: more than 1 MiB; expected a recipe, of a few kB"
    path.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in outcome(path)
    path.unlink()
    path.mkdir()
    assert "no such file" in outcome(path)
    with pytest.raises(RecipeError, match="too long"):
        find_recipe("x" * 5000)


def test_similar_keys_are_looked_up_for_shown_faults(tmp_path, monkeypatch):
    path, looked_up = tmp_path / "mine.yaml", []
    monkeypatch.setattr(load, "nearest_key", lambda *given: looked_up.append(given) or nearest_key(*given))
    path.write_text("train:\n" + "".join(f"  learning_rat{number}: 1\n" for number in range(900)))
    message = outcome(path)
    assert 0 < len(looked_up) <= 20
    assert "did you mean 'train.learning_rate'" in message
    assert "more" in message.splitlines()[-1]


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, -1, 2**70, 10**5000, "\ud800", "a\0b", [math.nan]],
    ids=shown,
)
def test_no_setting_accepts_a_hostile_value_from_python(value):
    blocks: dict[str, set[str]] = {"train": {field.name for field in dataclasses.fields(TrainingArguments)}}
    for name in ("sst2", "bert-mini", "finetune/ner"):
        recipe = load_recipe(name)
        for block, values in recipe.to_dict().items():
            for key in blocks.get(block, set()) | values.keys():
                found = outcome(recipe, {f"{block}.{key}": value})
                assert isinstance(found, str) or value == -1 == found.to_dict()[block][key]
        blocks["train"] = set()


def test_what_is_written_as_yaml_is_read_back():
    for name in list_recipes():
        blocks, _ = read_recipe_file(find_recipe(name))
        assert parse_value(to_yaml(blocks)) == blocks
    for text in ("1e5", "a\x85b", "a\u2028b\nc", "\ufeff", " a\n b"):
        assert parse_value(to_yaml({text: [text]})) == {text: [text]}
    shared = ["a"]
    assert parse_value(to_yaml({"b": shared, "c": shared})) == {"b": ["a"], "c": ["a"]}


MARKS = "from pathlib import Path\nPath({!r}).write_text('ran')\ndef split(text): return [text]\n"


@pytest.fixture
def with_code(tmp_path):
    """A recipe whose sentence splitter is in a file that leaves a mark when it is run."""
    mark, code, recipe = tmp_path / "mark", tmp_path / "code.py", tmp_path / "mine.yaml"
    code.write_text(MARKS.format(str(mark)))
    text = find_recipe("bert-mini").read_text()
    recipe.write_text(text.replace("\ndata:\n", f"\ndata:\n  sentence_splitter: {code}:split\n"))
    return recipe, code, mark


def test_checking_a_recipe_runs_no_code_of_it(with_code):
    recipe, _, mark = with_code
    validate_recipes([recipe])
    load_recipe(recipe)
    assert not mark.exists()
    validate_recipes([recipe], run_code=True)
    assert mark.exists()


@pytest.mark.parametrize("code", ["def split(:", "raise SystemExit(0)", "import no_such_module", "split = 3"])
def test_failing_code_is_refused_when_run(with_code, code):
    recipe, file, _ = with_code
    file.write_text(code)
    validate_recipes([recipe])
    with pytest.raises(RecipeError, match=f"recipe {recipe}: data.sentence_splitter: '{file}:split'"):
        validate_recipes([recipe], run_code=True)


def test_a_splitter_without_a_file_is_refused(with_code):
    recipe, file, _ = with_code
    file.unlink()
    with pytest.raises(RecipeError, match=r"data\.sentence_splitter: .* cannot be read: No such file"):
        validate_recipes([recipe])
