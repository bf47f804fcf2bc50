"""Commands whose options come from the fields of settings dataclasses, built on first use."""

from __future__ import annotations

import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from inspect import Parameter
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperOption

from bertkit.cli.features import Options, options_for
from bertkit.cli.groups import has_command
from bertkit.cli.printing import print_text
from bertkit.recipe.fields import members
from bertkit.recipe.settings import DistillationSettings, OptionsOfTransformers, TrainSettings
from bertkit.runtime.options import descriptions
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
Take = Callable[[Mapping[str, Any]], Any]
"""Function that returns the value of one parameter from the values of all options."""


class Settings(dict[str, Any]):
    """Recipe values given as options, by dotted key: ``{"train.learning_rate": 3e-5}``.

    A command with a parameter of this type has the options that `command` describes.
    """

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
        return self.described.get("flag") or "--" + self.key.rpartition(".")[2].replace("_", "-")

    def parameter(self) -> Parameter:
        """Returns the parameter of a function for typer."""
        option = typer.Option(
            self.flag,
            help=self.described["help"].replace("`", ""),
            metavar=self.described.get("metavar"),
            rich_help_panel=self.described.get("panel") or _PANELS[self.key.rpartition(".")[0]],
            show_default=False,
        )
        option.rare = bool(self.described.get("rare"))
        name = self.key.replace(".", "__")
        return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[self.type, option])


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
    One of type `bertkit.cli.features.Options` is replaced by the options that features add to the command.

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
        def build() -> Callable[..., None]:
            kinds = [kind] if isinstance(kind, str) else kind
            of_kind = options_of if keys is None else settings_of
            known = {key: each for one in reversed(kinds) for key, each in of_kind(one).items()}
            return with_options(
                function, [known[key] for key in (known if keys is None else keys) if key not in without]
            )

        lines = "".join(f"\n  bertkit {each}" for each in examples if has_command(each))
        function.__doc__ = f"{inspect.getdoc(function)}\n\n\b{lines}" if examples else function.__doc__

        @wraps(function, assigned=("__module__", "__name__", "__doc__"))
        def placeholder() -> None:
            raise NotImplementedError("placeholder for the function; its options are not built yet")

        placeholder.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        settings = {"max_content_width": _WIDEST}
        app.command(name, cls=_built_when_needed(build), context_settings=settings)(placeholder)
        return function

    return register


def with_options(function: Callable[..., None], settings: Sequence[Setting]) -> Callable[..., None]:
    """Returns a function for typer with the parameters that `command` describes, built immediately.

    Raises:
        ValueError: two options have the same name.
    """
    options = [setting.parameter() for setting in settings]
    parts = {
        name: _expanded(parameter, options)
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items()
    }

    def call(**given: Any) -> None:
        function(**{name: take(given) for name, (_, take) in parts.items()})

    parameters = [parameter for expanded, _ in parts.values() for parameter in expanded]
    parameters.sort(key=lambda each: _place(_described(each)))
    flags = Counter(setting.flag for setting in settings)
    flags.update("--" + each.name.strip("_").replace("_", "-") for each in parameters if each not in options)
    if twice := [flag for flag, times in flags.items() if times > 1]:
        raise ValueError(f"{', '.join(twice)}: two options of `{function.__name__}` have this name")
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.rare = {each.name for each in parameters if getattr(_described(each), "rare", False)}  # type: ignore[attr-defined]
    if call.rare:  # type: ignore[attr-defined]
        parameters.append(Parameter("help_all", Parameter.KEYWORD_ONLY, default=False, annotation=_HelpAll))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _described(parameter: Parameter) -> Any:
    """Returns what typer knows of a parameter: an option, an argument, or None."""
    return next(iter(getattr(parameter.annotation, "__metadata__", ())), None)


def _place(described: Any) -> int:
    """Returns the place of a parameter in the help, by its panel; arguments and options without a panel come first."""
    panel = getattr(described, "rich_help_panel", None)
    return _ORDER.index(panel) + 1 if panel in _ORDER else 0


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


def _expanded(parameter: Parameter, options: Sequence[Parameter]) -> tuple[list[Parameter], Take]:
    """Returns the parameters that replace a parameter, and the function that computes its value from theirs."""
    annotation = parameter.annotation
    if annotation is Settings:
        keys = {option.name: option.name.replace("__", ".") for option in options}

        def settings(given: Mapping[str, Any]) -> Settings:
            values = {keys[name]: given[name] for name in keys if given[name] is not None}
            # Recipes are plain data, so paths are converted to strings.
            return Settings({key: str(value) if isinstance(value, Path) else value for key, value in values.items()})

        return list(options), settings
    if get_origin(annotation) is Annotated and get_args(annotation)[0] is Options:
        groups = [
            _expanded(Parameter(f"{parameter.name}_{number}", Parameter.KEYWORD_ONLY, annotation=each), options)
            for number, each in enumerate(options_for(get_args(annotation)[1:]))
        ]
        of_features = [each for expanded, _ in groups for each in expanded]
        return of_features, lambda given: Options(take(given) for _, take in groups)
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        hints = get_type_hints(annotation, include_extras=True)
        fields = {
            field.name: _expanded(
                Parameter(
                    field.name,
                    Parameter.KEYWORD_ONLY,
                    default=Parameter.empty if field.default is dataclasses.MISSING else field.default,
                    annotation=hints[field.name],
                ),
                options,
            )
            for field in dataclasses.fields(annotation)
        }
        group = annotation  # keeps the narrowed type inside of the nested function

        def instance(given: Mapping[str, Any]) -> Any:
            return group(**{name: take(given) for name, (_, take) in fields.items()})

        return [each for expanded, _ in fields.values() for each in expanded], instance
    return [parameter.replace(kind=Parameter.KEYWORD_ONLY)], lambda given: given[parameter.name]


def _built_when_needed(build: Callable[[], Callable[..., None]]) -> type[TyperCommand]:
    """Returns a command class whose options and callback are those of the function that ``build`` returns.

    typer inspects the signatures of all functions at startup; importing all tasks for this would double the time of
    ``bertkit --help`` and load every third-party task for every command.
    """

    class BuiltWhenNeeded(TyperCommand):
        _rare: Collection[str] = ()

        @cached_property
        def _built(self) -> Any:
            app = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
            call = build()
            app.command(self.name)(call)
            self._rare = call.rare  # type: ignore[attr-defined]
            return typer.main.get_command(app)

        def get_params(self, ctx: Any) -> list[Any]:
            params: list[Any] = self._built.get_params(ctx)
            return params

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, _with_repeated_flags(args, self.get_params(ctx)))

        def format_help(self, ctx: Any, formatter: Any) -> None:
            """Writes the help, without the rare options unless ``--help-all`` is given."""
            hidden = [] if _WHOLE in ctx.meta else [each for each in self.get_params(ctx) if each.name in self._rare]
            for param in hidden:
                param.hidden = True
            try:
                super().format_help(ctx, formatter)
            finally:
                for param in hidden:
                    param.hidden = False

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

    return BuiltWhenNeeded


def _with_repeated_flags(words: Sequence[str], params: Sequence[Any]) -> list[str]:
    """Returns the words of a command line with the flag before each value of an option that takes several.

    So ``--label-names no yes`` is ``--label-names no --label-names yes``; not in commands with arguments, which the
    further values may be.
    """
    if any(not isinstance(each, TyperOption) for each in params):
        return list(words)
    repeatable = {flag for each in params if each.multiple for flag in each.opts}
    found: list[str] = []
    flag = ""
    for at, word in enumerate(words):
        is_further = bool(flag) and words[at - 1] != flag and not word.startswith("-")
        found += [flag, word] if is_further else [word]
        if word.startswith("-"):
            flag = word if word in repeatable else ""
    return found
