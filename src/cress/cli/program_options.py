"""Options of a command, made from the table of settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer._click.core import ParameterSource

from cress.model.program_settings.setting import Setting, ValueType
from cress.model.program_settings.table import settings_of

_TYPES: dict[ValueType, type] = {
    ValueType.TEXT: str,
    ValueType.PATH: Path,
    ValueType.NUMBER: int,
    ValueType.SWITCH: bool,
}


def with_settings(program: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a function the settings of a program as options, before those that it declares.

    The function gets their values by parameter in its ``**given``.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        made = [_parameter(setting) for setting in settings_of(program)]
        function.__signature__ = inspect.Signature([*made, *own])  # type: ignore[attr-defined]
        function.__annotations__ = {parameter.name: parameter.annotation for parameter in (*made, *own)}
        return function

    return decorate


def _parameter(setting: Setting) -> inspect.Parameter:
    kind: Any = _TYPES[setting.value_type] if setting.choices is None else setting.choices
    if setting.many:
        kind = list[kind] | None
    elif setting.unset is None:
        kind = kind | None
    option = typer.Option(
        setting.flag,
        metavar=setting.metavar,
        help=setting.about,
        envvar=setting.variable or None,
        min=setting.least,
        max=setting.most,
    )
    return inspect.Parameter(
        setting.parameter,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[kind, option],
        default=inspect.Parameter.empty if setting.needed else setting.unset,
    )


def given_arguments(
    settings: Iterable[Setting],
    program: str,
    context: typer.Context,
    given: Mapping[str, Any],
    but: Collection[str] = (),
) -> list[str]:
    """Return the arguments that give another program the settings of this one.

    Settings with their default are left out, and so are those named in ``but``.
    """
    return [
        argument
        for setting in settings
        if program in setting.programs
        and setting.name not in but
        and context.get_parameter_source(setting.parameter) is not ParameterSource.DEFAULT
        for argument in setting.arguments(given[setting.parameter])
    ]
