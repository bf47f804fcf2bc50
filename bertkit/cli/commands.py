"""Commands whose options come from the fields of settings dataclasses, built on first use."""

from __future__ import annotations

import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from inspect import Parameter
from operator import itemgetter
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperOption

from bertkit.cli.groups import Options, has_command, options_for
from bertkit.cli.printing import print_text
from bertkit.recipe.fields import members
from bertkit.recipe.settings import DistillationSettings, OptionsOfTransformers, TrainSettings
from bertkit.runtime.options import descriptions, flag_of
from bertkit.runtime.placement.resolve import PlacementSettings
from bertkit.tasks.registry import TASKS

Function = TypeVar("Function", bound=Callable[..., None])
OF_DATA = (
    "data.data_dir",
    *(f"data.{split}_file" for split in ("train", "validation", "test")),
    "data.dataset_name",
    "data.dataset_config",
    *(f"data.{split}_split" for split in ("train", "validation", "test")),
)
"""Keys of the sources of labelled data."""
OF_EVERY_RUN = (
    "data.max_seq_length",
    "data.max_train_samples",
    "data.max_eval_samples",
    "train.learning_rate",
    "train.num_train_epochs",
    "train.max_steps",
    "train.global_train_batch_size",
    "train.seed",
    "train.report_to",
    "train.run_name",
    "placement.num_processes",
)
_PANELS = {
    "task": "Data",
    "data": "Data",
    "train": "Training",
    "train.distill": "Distillation",
    "placement": "Training",
}
_ORDER = ("Data", "Model", "Fine-tuning", "Training", "Distillation", "Grids", "Output")
"""Sections of options in ``--help``; others stand before them."""
_WIDEST, _COLUMN = 100, 32  # columns of the help, and of its names of options
_BETWEEN = "__"  # block and key in the name of the parameter of a setting


class Settings(dict[str, Any]):
    """Recipe values given as options, by dotted key: ``{"train.learning_rate": 3e-5}``.

    A command with a parameter of this type has the options that `command` describes.
    """

    @classmethod
    def given(cls, settings: Sequence[Setting], values: Mapping[str, Any]) -> Settings:
        """Returns the values of options that were given; paths as text, since recipes are plain data."""
        return cls(
            (each.key, str(value) if isinstance(value, Path) else value)
            for each in settings
            if (value := values[each.name]) is not None
        )

    def block(self, name: str) -> dict[str, Any]:
        """Returns the values of one block of the recipe, by key without the name of the block."""
        return {key.removeprefix(f"{name}."): value for key, value in self.items() if key.startswith(f"{name}.")}


@dataclass(frozen=True)
class Setting:
    """Option that sets one recipe value.

    Attributes:
        key: dotted key of the value, such as ``data.max_seq_length``.
        type: type of the option.
        described: metadata of the field, see `bertkit.runtime.options.option`.
    """

    key: str
    type: Any
    described: Mapping[str, Any]

    @property
    def flag(self) -> str:
        """Name of the option on the command line."""
        return flag_of(self.key.rpartition(".")[2], self.described)

    @property
    def name(self) -> str:
        """Name of the parameter for typer."""
        return self.key.replace(".", _BETWEEN)

    def parameter(self) -> Parameter:
        """Returns the parameter of a function for typer."""
        option = typer.Option(
            self.flag,
            help=self.described["help"].replace("`", ""),
            metavar=self.described.get("metavar"),
            rich_help_panel=self.described.get("panel") or _PANELS[self.key.rpartition(".")[0]],
            show_default=False,
            hidden=bool(self.described.get("rare")),
        )
        return Parameter(self.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[self.type, option])


def settings_of(kind: str) -> dict[str, Setting]:
    """Returns what options can set in a run of a task, by dotted key: described settings of the task and of all runs.

    In tasks of other packages, a field of ``TaskSettings`` or ``DataSettings`` without a description has that of the
    field of this name in text classification (`bertkit.runtime.options.descriptions`).

    Args:
        kind: name of the task, as in ``task.kind``; its module is imported.
    """
    task, data = TASKS.settings(kind)
    has_classes = "label_names" in {each.name for each in dataclasses.fields(task)} and TASKS.has_loss_of_classes(kind)
    usual = {} if task.__module__.startswith("bertkit.") else settings_of("classification")
    settings: dict[str, Setting] = {}
    blocks = (("task", task), ("data", data), ("train", OptionsOfTransformers), ("train", TrainSettings))
    for block, of_block in (*blocks, ("train.distill", DistillationSettings), ("placement", PlacementSettings)):
        hints = get_type_hints(of_block)
        paths = {name for each in of_block.__mro__ for name in getattr(each, "paths", ())}
        for name, described in descriptions(of_block).items():
            key = f"{block}.{name}"
            described = described or (usual[key].described if key in usual else {})
            type_ = Path | None if name in paths else option_type(hints[name])
            if "help" in described and type_ is not None and (name != "class_weights" or has_classes):
                settings[key] = Setting(key, type_, described)
    return settings


def options_of(kind: str) -> dict[str, Setting]:
    """Returns the options of the commands of a task by dotted key: its settings without those for recipes only."""
    return {key: each for key, each in settings_of(kind).items() if not each.described.get("in_recipes_only")}


def option_type(hint: Any) -> Any:
    """Returns the type of an option for a value annotated ``hint``, in a union with None for an option not given.

    Returns None for a value that an option cannot set, such as a mapping.

    >>> option_type(int)
    int | None
    >>> option_type(str | int | None)
    str | None
    >>> option_type(Literal["mean", "max"])
    typing.Optional[typing.Literal['mean', 'max']]
    >>> option_type(dict[str, str])
    """
    types = [member for member in members(hint) if member is not NoneType]
    if str in types:
        return str | None
    if len(types) > 1:
        return None
    [member] = types
    one_of_a_list = get_origin(member) is list and get_args(member)[0] in (str, int, float)
    is_plain = member in (bool, int, float, Path) or get_origin(member) is Literal
    return member | None if is_plain or one_of_a_list else None


def command(
    app: typer.Typer,
    kind: str | Sequence[str],
    keys: Sequence[str] | None = None,
    name: str | None = None,
    without: Sequence[str] = (),
    examples: Sequence[str] = (),
) -> Callable[[Function], Function]:
    """Returns a decorator that registers a function as a command with options for settings.

    The parameters of the function become those of the command, as in typer, except for three types. A parameter of type
    `Settings` is replaced by one option for each of ``keys`` and receives those that were given. A parameter whose
    type is a dataclass is replaced by the fields of the dataclass, by the same rules, and receives an instance of it.
    One of type `bertkit.cli.groups.Options` is replaced by the options that features add to the command.

    The modules of the settings are imported only when the command is run or its help is shown.

    Args:
        app: app to register the command with.
        kind: the task whose settings are options, or several tasks, of which the first one that has a key describes it.
        keys: dotted keys of the options, also of settings that otherwise are in recipes only; None for all of the task.
        name: name of the command; None for the name of the function.
        without: dotted keys that are no options of this command.
        examples: command lines without the word ``bertkit``, which the help shows first.
    """

    def register(function: Function) -> Function:
        def settings() -> list[Setting]:
            of_kind = options_of if keys is None else settings_of
            kinds = [kind] if isinstance(kind, str) else kind
            known = {key: each for one in reversed(kinds) for key, each in of_kind(one).items()}
            return [known[key] for key in (known if keys is None else keys) if key not in without]

        class OfFunction(SettingsCommand):
            def build(self) -> Callable[..., None]:
                return with_options(function, settings())

        @wraps(function, assigned=("__module__", "__name__"))
        def placeholder() -> None:
            raise NotImplementedError("placeholder for the function; its options are not built yet")

        placeholder.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        lines = "".join(f"\n  bertkit {each}" for each in examples if has_command(each))
        text = f"{inspect.getdoc(function)}\n\n\b{lines}" if examples else inspect.getdoc(function)
        app.command(name, cls=OfFunction, help=text, context_settings={"max_content_width": _WIDEST})(placeholder)
        return function

    return register


def with_options(function: Callable[..., None], settings: Sequence[Setting]) -> Callable[..., None]:
    """Returns a function for typer with the parameters that `command` describes, built immediately."""
    options, call_with = _expand(function, settings)
    described = {name: next(iter(getattr(each.annotation, "__metadata__", ())), None) for name, each in options.items()}

    def place(parameter: Parameter) -> int:
        panel = getattr(described[parameter.name], "rich_help_panel", None)
        return _ORDER.index(panel) + 1 if panel in _ORDER else 0  # arguments and options without a panel come first

    parameters = sorted(options.values(), key=place)
    if any(getattr(each, "hidden", False) for each in described.values()):
        parameters.append(Parameter("help_all", Parameter.KEYWORD_ONLY, default=False, annotation=_HelpAll))

    def call(**given: Any) -> None:
        call_with(given)

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _expand(
    function: Callable[..., Any], settings: Sequence[Setting]
) -> tuple[dict[str, Parameter], Callable[[Mapping[str, Any]], Any]]:
    """Returns the options of a function, or of a dataclass, by name, and the function that calls it with their values.

    The parameters and fields that `command` names are replaced by their options, at any depth.
    """
    options: dict[str, Parameter] = {}
    values: dict[str, Callable[[Mapping[str, Any]], Any]] = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints[name]
        if hint is Settings:
            options |= {each.name: each.parameter() for each in settings}
            values[name] = partial(Settings.given, settings)
        elif get_origin(hint) is Annotated and get_args(hint)[0] is Options:
            groups = [_expand(each, settings) for each in options_for(get_args(hint)[1:])]
            for of_group, _ in groups:
                options |= of_group
            values[name] = partial(Options.given, [make for _, make in groups])
        elif dataclasses.is_dataclass(hint):
            of_fields, values[name] = _expand(hint, settings)  # type: ignore[arg-type]
            options |= of_fields
        else:
            options[name] = parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hint)
            values[name] = itemgetter(name)
    return options, lambda given: function(**{name: value(given) for name, value in values.items()})


def _print_whole_help(context: typer.Context, is_wanted: bool) -> None:
    if is_wanted:
        context.meta[_WHOLE] = True
        print_text(context.get_help())
        raise typer.Exit


_WHOLE = "bertkit.cli.commands.whole_help"
_HelpAll = Annotated[
    bool,
    typer.Option("--help-all", callback=_print_whole_help, is_eager=True, help="Show the other options too, and exit."),
]


class SettingsCommand(TyperCommand):
    """Command whose options are those of the function that `build` returns when they are needed.

    typer inspects the signatures of all functions at startup; importing all tasks for this would double the time of
    ``bertkit --help`` and load every third-party task for every command.
    """

    def build(self) -> Callable[..., None]:
        """Returns the function that typer makes the options of."""
        raise NotImplementedError

    @cached_property
    def _built(self) -> Any:
        app = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
        app.command(self.name)(self.build())
        built: Any = typer.main.get_command(app)
        flags = Counter(flag for param in built.params for flag in (*param.opts, *param.secondary_opts))
        if twice := [flag for flag, times in flags.items() if times > 1]:
            raise ValueError(f"{', '.join(twice)}: two options of `{self.name}` have this name")
        # Rare options are left out of the help only: the shell completes no hidden ones.
        self._rare = [param for param in built.params if getattr(param, "hidden", False)]
        self._hide_rare(False)
        return built

    def _hide_rare(self, hidden: bool) -> None:
        for param in self._rare:
            param.hidden = hidden

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = self._built.get_params(ctx)
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the words, with the flag before each value of an option that takes several.

        So ``--label-names no yes`` is ``--label-names no --label-names yes``; not in commands with arguments, which the
        further values may be.
        """
        params = self.get_params(ctx)
        if any(not isinstance(each, TyperOption) for each in params):
            return super().parse_args(ctx, args)
        repeatable = {flag for each in params if each.multiple for flag in each.opts}
        words: list[str] = []
        flag = ""
        for at, word in enumerate(args):
            is_further = bool(flag) and args[at - 1] != flag and not word.startswith("-")
            words += [flag, word] if is_further else [word]
            if word.startswith("-"):
                flag = word if word in repeatable else ""
        return super().parse_args(ctx, words)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the help, without the rare options unless ``--help-all`` is given."""
        self.get_params(ctx)
        self._hide_rare(_WHOLE not in ctx.meta)
        try:
            super().format_help(ctx, formatter)
        finally:
            self._hide_rare(False)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the options in the sections of their panels."""
        panels: dict[str, list[Any]] = {}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                usual = "Options" if isinstance(param, TyperOption) else "Arguments"
                panels.setdefault(getattr(param, "rich_help_panel", None) or usual, []).append(record)
        for name, records in panels.items():
            with formatter.section(name):
                formatter.write_dl(records, col_max=_COLUMN)

    def invoke(self, ctx: Any) -> Any:
        return self._built.invoke(ctx)
