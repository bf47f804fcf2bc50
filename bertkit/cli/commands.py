"""Creates commands whose options come from the settings dataclasses, built on first use."""

from __future__ import annotations

import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from bertkit.cli.settings import Setting, Settings, chosen, of_a_task, option_types

Function = TypeVar("Function", bound=Callable[..., None])
Take = Callable[[Mapping[str, Any]], Any]
"""Function that returns the value of one parameter from the values of all options."""


def command(
    app: typer.Typer,
    kind: str | Sequence[str],
    settings: Sequence[str | Setting] | None = None,
    name: str | None = None,
) -> Callable[[Function], Function]:
    """Returns a decorator that registers a function as a command with options for settings.

    The parameters of the function become those of the command, as in typer, except for two types. A parameter of type
    `Settings` is replaced by one option for each of ``settings`` and receives those that were given. A parameter whose
    type is a dataclass is replaced by the fields of the dataclass, by the same rules, and receives an instance of it.

    The modules of the settings are imported only when the command is run or its help is shown.

    Args:
        app: app to register the command with.
        kind: the task whose ``TaskSettings`` and ``DataSettings`` have the fields, or several tasks.
        settings: settings of the command, or keys of shared settings; None for all settings of the one task.
        name: name of the command; None for the name of the function.
    """

    def register(function: Function) -> Function:
        def build() -> Callable[..., None]:
            return with_options(function, kind, of_a_task(str(kind)) if settings is None else chosen(settings))

        @wraps(function, assigned=("__module__", "__name__", "__doc__"))
        def placeholder() -> None:
            raise NotImplementedError("placeholder for the function; its options are not built yet")

        placeholder.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        app.command(name, cls=_built_when_needed(build))(placeholder)
        return function

    return register


def with_options(
    function: Callable[..., None], kind: str | Sequence[str], settings: Sequence[Setting]
) -> Callable[..., None]:
    """Returns a function for typer with the parameters that `command` describes, built immediately.

    Raises:
        ValueError: a setting is not a field of the settings of the task, or has a type that an option cannot set; or
            two options have the same name.
    """
    kinds = [kind] if isinstance(kind, str) else kind
    types = {key: type_ for each in kinds for key, type_ in option_types(each).items()}
    for setting in settings:
        if setting.key not in types:
            raise ValueError(
                f"{setting.key}: the settings of task {' or '.join(kinds)} have no field of this name that an option "
                "can set"
            )
    options = [_option(setting, types[setting.key]) for setting in settings]
    parts = {
        name: _expanded(parameter, options)
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items()
    }

    def call(**given: Any) -> None:
        function(**{name: take(given) for name, (_, take) in parts.items()})

    parameters = [parameter for expanded, _ in parts.values() for parameter in expanded]
    flags = Counter(setting.option for setting in settings)
    flags.update("--" + each.name.strip("_").replace("_", "-") for each in parameters if each not in options)
    if twice := [flag for flag, times in flags.items() if times > 1]:
        raise ValueError(f"{', '.join(twice)}: two options of `{function.__name__}` have this name")
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _option(setting: Setting, type_: Any) -> Parameter:
    option = typer.Option(
        setting.option,
        help=setting.help,
        metavar=setting.metavar,
        rich_help_panel=setting.panel,
        show_default=False,
    )
    return Parameter(setting.parameter, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[type_, option])


def _expanded(parameter: Parameter, options: Sequence[Parameter]) -> tuple[list[Parameter], Take]:
    """Returns the parameters that replace a parameter, and the function that computes its value from theirs."""
    annotation = parameter.annotation
    if annotation is Settings:
        keys = {option.name: option.name.replace("__", ".", 1) for option in options}

        def settings(given: Mapping[str, Any]) -> Settings:
            values = {keys[name]: given[name] for name in keys if given[name] is not None}
            # Recipes are plain data, so paths are converted to strings.
            return Settings({key: str(value) if isinstance(value, Path) else value for key, value in values.items()})

        return list(options), settings
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
        made = annotation  # keeps the narrowed type inside of the nested function

        def instance(given: Mapping[str, Any]) -> Any:
            return made(**{name: take(given) for name, (_, take) in fields.items()})

        return [each for expanded, _ in fields.values() for each in expanded], instance
    return [parameter.replace(kind=Parameter.KEYWORD_ONLY)], lambda given: given[parameter.name]


def _built_when_needed(build: Callable[[], Callable[..., None]]) -> type[TyperCommand]:
    """Returns a command class whose options and callback are those of the function that ``build`` returns.

    typer inspects the signatures of all functions at startup; importing all tasks for this would double the time of
    ``bertkit --help`` and load every third-party task for every command.
    """

    class BuiltWhenNeeded(TyperCommand):
        @cached_property
        def _built(self) -> Any:
            app = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
            app.command(self.name)(build())
            return typer.main.get_command(app)

        def get_params(self, ctx: Any) -> list[Any]:
            params: list[Any] = self._built.get_params(ctx)
            return params

        def invoke(self, ctx: Any) -> Any:
            return self._built.invoke(ctx)

    return BuiltWhenNeeded
