"""One row of the table of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

import msgspec

from cress.model.errors import InputError

CENTER, EXECUTOR, UP = "center", "executor", "up"


class ValueType(Enum):
    """The type of a value: texts and paths are texts in a file, a switch is true or false there."""

    TEXT = "text"
    PATH = "path"
    NUMBER = "number"
    SWITCH = "switch"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of a program.

    ``name`` is the key of the configuration file; the option is ``--name``, the environment variable
    ``CRESS_PROGRAM_NAME``. ``variable`` is an older variable, which has precedence over that one. ``programs`` are the
    commands with the setting, ``about`` is its help text. ``default`` has the form of a value in a file; None: empty,
    or false. ``many``: the setting is a list, and its option may be given several times. ``choices`` are the allowed
    values, if they are few; ``least`` and ``most`` bound a number. ``needed``: the program does not start without it.

    ``field`` is the field of the program's ``Settings`` struct, by default the name. ``read`` turns a value, or the
    list of values, into that of the field, or raises InputError. A setting whose ``field`` is empty is read by its
    program, together with others or with the state of the machine.
    """

    name: str
    about: str
    programs: tuple[str, ...]
    metavar: str | None = None
    value_type: ValueType = ValueType.TEXT
    default: str | int | Enum | None = None
    many: bool = False
    needed: bool = False
    choices: type[Enum] | None = None
    least: int | None = None
    most: int | None = None
    variable: str = ""
    field: str | None = None
    read: Callable[[Any], Any] | None = None

    @property
    def parameter(self) -> str:
        """The name as a Python identifier."""
        return self.name.replace("-", "_")

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return f"--{self.name}"

    def variables(self, program: str) -> tuple[str, ...]:
        """Return the environment variables of the setting, by precedence; ``up`` has older ones only."""
        older = (self.variable,) if self.variable else ()
        return older if program == UP else (*older, f"CRESS_{program}_{self.parameter}".upper())

    @property
    def target(self) -> str:
        """The field of the ``Settings`` struct; empty: the program reads the setting itself."""
        return self.parameter if self.field is None else self.field

    @property
    def is_table(self) -> bool:
        """Flag: a file may have a table instead of a list of ``NAME=VALUE`` texts."""
        return self.many and "=" in (self.metavar or "")

    @property
    def is_joined(self) -> bool:
        """Flag: the text is a list with commas; a file may have a list instead."""
        return not self.many and "," in (self.metavar or "")

    @property
    def form(self) -> str:
        """The form of the value in a file, in words."""
        if self.many:
            return "a list of texts, or a table" if self.is_table else "a list of texts"
        if self.choices is not None:
            return "one of " + ", ".join(str(choice.value) for choice in self.choices)
        if self.value_type is ValueType.NUMBER:
            return "a number"
        if self.value_type is ValueType.SWITCH:
            return "true or false"
        return "a text, or a list of texts" if self.is_joined else "a text"

    @property
    def unset(self) -> Any:
        """The value of a setting that is not given."""
        if self.many:
            return None
        if self.default is None:
            return {ValueType.SWITCH: False, ValueType.PATH: None}.get(self.value_type, "")
        return self.default

    def value(self, given: Any) -> Any:
        """Return the value of the field. Raises InputError with the option as the field."""
        if self.many:
            given = tuple(given or ())
        if self.read is None:
            return given
        try:
            return self.read(given)
        except InputError as error:
            raise error.at(field=self.flag) from None

    def arguments(self, given: Any) -> list[str]:
        """Return the command-line arguments that set this value."""
        if self.value_type is ValueType.SWITCH:
            return [self.flag] if given else []
        values = (given or ()) if self.many else (given,)
        return [part for value in values for part in (self.flag, str(getattr(value, "value", value)))]


def fields(settings: Iterable[Setting], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a ``Settings`` struct from given values by parameter.

    Settings that programs read themselves are left out. Raises InputError for the first wrong value.
    """
    return {setting.target: setting.value(given[setting.parameter]) for setting in settings if setting.target}


class Defaults:
    """The defaults of settings: attributes with the names of their parameters, in the form of fields."""

    def __init__(self, settings: Iterable[Setting]) -> None:
        self._settings = {setting.parameter: setting for setting in settings}

    def __getattr__(self, parameter: str) -> Any:
        setting = self._settings.get(parameter)
        if setting is None:
            raise AttributeError(parameter)
        return setting.value(setting.unset)
