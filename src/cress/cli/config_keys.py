"""Keys of the configuration files of programs, from the table of settings (design notes 0018 and 0037)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cress.model.errors import InputError, InputErrors
from cress.model.program_settings.setting import Setting, ValueType
from cress.model.program_settings.table import settings_of
from cress.model.toml_text import TomlText, kind_of
from cress.model.units import closest

if TYPE_CHECKING:
    import typer
    from typer.core import TyperCommand, TyperOption

_PASSWORD = re.compile(r"://[^/@:\s]*:[^/@\s]+@")


class ConfigKey:
    """A key of a file: a setting, and the corresponding option of the command.

    ``variables`` are the environment variables of the setting, the one with priority first.
    """

    def __init__(self, setting: Setting, option: TyperOption, program: str) -> None:
        self.setting = setting
        self.option = option
        self.name = setting.name
        self.variables = setting.variables(program)

    def read(self, value: Any, folder: Path) -> Any:
        """Return a value of a file in the form for the parser of the command.

        Relative paths start at ``folder``. Raise InputError.
        """
        setting = self.setting
        if setting.many:
            if setting.is_table and isinstance(value, dict):
                value = [f"{name}={_word(element, self)}" for name, element in value.items()]
            values = value if isinstance(value, list) else [value]
            return [self._text(element, folder) for element in values]
        if setting.value_type is ValueType.SWITCH:
            return value if isinstance(value, bool) else self._refuse(value)
        if setting.value_type is ValueType.NUMBER:
            return value if isinstance(value, int) and not isinstance(value, bool) else self._refuse(value)
        if setting.is_joined and isinstance(value, list):
            return ",".join(self._text(element, folder) for element in value)
        return self._text(value, folder)

    def _text(self, value: Any, folder: Path) -> str:
        if not isinstance(value, str):
            self._refuse(value)
        if "\0" in value:
            raise InputError("contains an invalid character", hint=self.setting.form)
        return (
            str(folder / Path(value).expanduser())
            if self.setting.value_type is ValueType.PATH and value
            else str(value)
        )

    def _refuse(self, value: Any) -> Any:
        quoted = isinstance(value, (int, float)) and not isinstance(value, bool) and "text" in self.setting.form
        hint = f'{self.setting.form}: "{value}"' if quoted else self.setting.form
        raise InputError(f"is {kind_of(value)}", hint=hint)


def _word(value: Any, key: ConfigKey) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InputError(f"is {kind_of(value)}", hint=f"texts or numbers below {key.name}")


def keys_of(command: TyperCommand) -> dict[str, ConfigKey]:
    """Return the keys that the file of a program may have, by name."""
    program, options = str(command.name), {param.name: param for param in command.params}
    keys = (
        ConfigKey(setting, cast("TyperOption", options[setting.parameter]), program) for setting in settings_of(program)
    )
    return {key.name: key for key in keys}


def read_keys(text: TomlText, command: TyperCommand, ctx: typer.Context) -> dict[str, Any]:
    """Return the values of a file by the names of parameters. Raise InputErrors with all mistakes."""
    keys = keys_of(command)
    folder = Path(text.file).absolute().parent
    found: dict[str, Any] = {}
    errors: list[InputError] = []
    for name, value in text.values.items():
        key = keys.get(name)
        try:
            if key is None:
                raise _unknown(name, keys, str(command.name))
            found[str(key.option.name)] = taken = key.read(value, folder)
            check_value(key, taken, ctx)
        except InputError as error:
            errors.append(text.wrong(error, name))
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return found


def check_value(key: ConfigKey, value: Any, ctx: typer.Context) -> None:
    """Raise InputError for a value that the parser of the command refuses."""
    from typer._click.exceptions import UsageError

    from cress.cli.usage_errors import of_value

    try:
        key.option.process_value(ctx, value)
    except UsageError as error:
        wrong = of_value(error.message)
        raise InputError(wrong.what, hint=wrong.hint or key.setting.form) from None


def _unknown(name: str, keys: dict[str, ConfigKey], program: str) -> InputError:
    near = name.replace("_", "-").lower()
    if near in keys:
        return InputError("is not a key", hint=f"keys are written as the flags are: {near}")
    guess = closest(name, keys)
    hint = f"did you mean {guess}? " if guess else ""
    return InputError("is not a key", hint=f"{hint}Those of `cress {program} --help`, without their dashes in front")


def passwords_in(values: dict[str, Any]) -> list[str]:
    """Return the names of the values that are addresses with a password."""
    return [name for name, value in values.items() if isinstance(value, str) and _PASSWORD.search(value)]


def without_passwords(text: str) -> str:
    """Return a text with the passwords removed from its addresses."""
    return _PASSWORD.sub(lambda found: f"{found[0].rpartition(':')[0]}:…@", text)
