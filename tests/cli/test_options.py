"""Options of every command beside the fields that they set, the functions that commands call, and their help."""

from __future__ import annotations

import ast
import inspect
import math
import os
import pty
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.main import get_command

import bertkit
from bertkit.cli.app import app
from bertkit.cli.commands import Settings
from bertkit.cli.commands import command as register
from bertkit.cli.training import overrides
from bertkit.recipe.fields import Text
from bertkit.recipe.settings import DistillationSettings, TrainSettings
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.placement.resolve import PlacementSettings
from bertkit.tasks.registry import TASKS


def walk(command, path=()):
    """Every command that is no group, by what users type."""
    for name, each in getattr(command, "commands", {}).items():
        yield from walk(each, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


COMMANDS = dict(walk(typer.main.get_command(app)))
KINDS = {
    ("ablations",): "pretraining",
    ("pretrain",): "pretraining",
    ("tokenizer", "train"): "pretraining",
    ("corpus", "build"): "pretraining",
    ("reproduce",): "classification",
    ("choose",): "classification ner",
    ("tokenizer", "extend"): "pretraining",
    ("finetune", "glue"): "glue",
    ("finetune", "classification"): "classification",
    ("finetune", "multiple-choice"): "multiple_choice",
    ("finetune", "squad"): "question_answering",
    ("finetune", "ner"): "ner",
    ("finetune", "reranking"): "reranking",
    ("finetune", "similarity"): "similarity",
    ("distill",): "glue classification multiple_choice ner pretraining question_answering",
    ("evaluate",): "classification ner",
    ("export",): "classification",
}


def params(command):
    return command.get_params(command.context_class(command))


def settings_of(command):
    """Recipe key → option."""
    return {param.name.replace("__", "."): param for param in params(command) if "__" in param.name}


@pytest.fixture(scope="module")
def hints():
    """The annotations of all recipe values of a task, or of several."""
    from transformers import TrainingArguments

    def of(kinds):
        return {key: hint for kind in kinds.split() for key, hint in of_one(kind).items()}

    def of_one(kind):
        task, data = TASKS.settings(kind)
        blocks = {"task": task, "data": data, "placement": PlacementSettings, "train": TrainingArguments}
        blocks["train.distill"] = DistillationSettings
        found = {block: get_type_hints(settings) for block, settings in blocks.items()}
        found["train"] |= get_type_hints(TrainSettings)
        return {f"{block}.{name}": hint for block, fields in found.items() for name, hint in fields.items()}

    return of


def choices(hint):
    """The texts that a Literal admits, alone or beside None; none for any other annotation."""
    literals = [each for each in (hint, *get_args(hint)) if get_origin(each) is Literal]
    return [choice for literal in literals for choice in get_args(literal)]


def test_all_commands_with_settings_are_tested():
    assert {path for path, command in COMMANDS.items() if settings_of(command)} == set(KINDS)


@pytest.mark.parametrize("path", KINDS, ids=" ".join)
def test_every_option_has_the_type_of_its_field(hints, path):
    from huggingface_hub.dataclasses import type_validator

    command, known = COMMANDS[path], hints(KINDS[path])
    for key, param in settings_of(command).items():
        assert key in known, f"{key}: no such recipe value"
        [flag] = param.opts
        texts = choices(known[key]) or ["3"]  # an int, a float or a text
        for text in texts:
            given = [flag] if param.is_flag else [flag, text]
            with command.make_context("bertkit", given, resilient_parsing=True) as context:
                value = context.params[param.name]
            value = list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
            assert value not in (None, []), f"{flag} {text} gives nothing"
            type_validator(key, value, known[key])


@pytest.mark.parametrize("path", KINDS, ids=" ".join)
def test_an_option_with_choices_takes_no_other(bertkit, hints, path):
    known = hints(KINDS[path])
    for key, param in settings_of(COMMANDS[path]).items():
        if named := choices(known[key]):
            outcome = bertkit(*path, param.opts[0], "nonsense")
            assert outcome.code == 2
            assert all(choice in outcome.err for choice in named)


# ---- what overrides what --------------------------------------------------------------------------------------------


def test_single_options_win_over_a_placement(tmp_path):
    (tmp_path / "mine.yaml").write_text("placement: {num_processes: 2, mixed_precision: bf16}\n")
    given = overrides({"placement.num_processes": 1}, ["placement.device=cpu"], str(tmp_path / "mine.yaml"))
    assert given == {"placement.num_processes": 1, "placement.mixed_precision": "bf16", "placement.device": Text("cpu")}


def test_an_option_and_set_must_agree():
    assert overrides({"train.max_steps": 3}, ["train.max_steps=3"], None) == {"train.max_steps": 3}
    with pytest.raises(RecipeError, match=r"train\.max_steps is given twice"):
        overrides({}, ["train.max_steps=3", "train.max_steps=4"], None)


# ---- commands and the public functions ------------------------------------------------------------------------------


def test_two_options_with_one_name_are_refused_however_their_parameters_are_called():
    def twice(settings: Settings, other: Annotated[int, typer.Option("--seed")] = 0) -> None:
        """Both are --seed."""

    def once(settings: Settings, seed: Annotated[int, typer.Option("--other")] = 0) -> None:
        """One is --seed."""

    app = typer.Typer()
    for function in (twice, once):
        register(app, "classification", ("train.seed",))(function)
    commands = dict(walk(get_command(app)))
    with pytest.raises(ValueError, match=r"^--seed: two options of `twice` have this name$"):
        params(commands["twice",])
    assert {"--seed", "--other"} <= {option for param in params(commands["once",]) for option in param.opts}


def public_names(function, seen=frozenset()):
    """The ``bertkit.NAME`` in a function, and in those of ``bertkit.cli`` that it calls."""
    names = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "bertkit":
            names.add(node.attr)
        called = function.__globals__.get(node.id) if isinstance(node, ast.Name) else None
        if inspect.isfunction(called) and called not in seen and called.__module__.startswith("bertkit.cli"):
            names |= public_names(called, seen | {function})
    return names


@pytest.mark.parametrize("path", sorted(COMMANDS.keys() - {("check",)}), ids=" ".join)  # check runs one of the others
def test_every_command_calls_a_public_function(path):
    names = public_names(inspect.unwrap(COMMANDS[path].callback))
    assert names
    assert names <= set(bertkit.__all__)


# `check` takes the options of another command, and a schema is JSON.
@pytest.mark.parametrize("path", sorted(COMMANDS.keys() - {("check",), ("recipes", "schema")}), ids=" ".join)
def test_every_command_prints_json(path):
    assert any("--json" in param.opts for param in params(COMMANDS[path]))


# ---- help on a terminal ---------------------------------------------------------------------------------------------


def on_a_terminal(*arguments, columns):
    """Returns the output of a command on a terminal of ``columns`` columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "dumb"}
    command = [sys.executable, "-m", "bertkit", *arguments]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment):
        os.close(theirs)
        out = b""
        try:
            while block := os.read(ours, 4096):
                out += block
        except OSError:  # Linux says the end of a terminal so
            pass
    os.close(ours)
    return out.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [80, 140])
def test_help_on_a_terminal_names_every_option(columns):
    shown = on_a_terminal("finetune", "classification", "--help-all", columns=columns)
    assert "\nTraining:\n" in shown
    assert shown.isascii()
    assert max(len(line) for line in shown.splitlines() if not line.startswith("    bertkit ")) <= columns
    for param in params(COMMANDS["finetune", "classification"]):
        assert f" {param.opts[0]} " in shown
    assert "single_label" in shown


def test_help_through_a_pipe_is_that_of_a_terminal(bertkit, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    piped = bertkit("finetune", "similarity", "--help").out.splitlines()
    shown = on_a_terminal("finetune", "similarity", "--help", columns=100).splitlines()
    assert shown[1:] == piped[1:]  # the first line has the name of the program


@pytest.mark.parametrize(
    "words", [words for words, _ in walk(get_command(app)) if words[0] in ("finetune", "pretrain", "predict")]
)
def test_short_help_has_examples_and_fewer_options(bertkit, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "100")
    short, whole = (bertkit(*words, flag).out for flag in ("--help", "--help-all"))
    assert short.count("    bertkit ") == 3
    options = {line.split()[0] for line in whole.splitlines() if line.startswith("  --")}
    assert {line.split()[0] for line in short.splitlines() if line.startswith("  --")} < options


@pytest.mark.parametrize("path", sorted({path[:size] for path, _ in walk(get_command(app)) for size in range(3)}))
def test_every_command_has_help_of_at_most_a_page(bertkit, monkeypatch, path):
    monkeypatch.setenv("COLUMNS", "100")
    lines = bertkit(*path, "--help").out.splitlines()
    assert lines[0].startswith(" ".join(["Usage: bertkit", *path]))
    assert len(lines[2].split()) >= 3  # what it does
    assert sum(max(1, math.ceil(len(line) / 100)) for line in lines) <= 60  # a terminal breaks long examples


@pytest.mark.parametrize("group", [(), *sorted({path[:-1] for path, _ in walk(get_command(app)) if path[1:]})])
def test_what_a_command_does_is_said_without_a_cut(bertkit, monkeypatch, group):
    monkeypatch.setenv("COLUMNS", "80")
    assert "..." not in bertkit(*group, "--help").out.partition("COMMAND [ARGS]...")[2]


def test_commands_stand_in_the_order_of_use(bertkit):
    lines = bertkit("--help").out.splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith(("   ", "  --"))]
    places = [names.index(name) for name in ("quickstart", "check", "finetune", "report", "predict", "push", "env")]
    assert places == sorted(places)
    assert "Others:" not in lines
