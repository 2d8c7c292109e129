"""Keys of the configuration files of programs, derived from the options of their commands (design note 0018)."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cress.model.errors import InputError, InputErrors
from cress.model.toml_text import TomlText, kind_of
from cress.model.units import closest

if TYPE_CHECKING:
    import typer
    from typer.core import TyperCommand, TyperOption

# Options about the file itself, or about one call.
NO_KEYS = frozenset({"config", "check", "hand_over", "help"})
_PASSWORD = re.compile(r"://[^/@:\s]*:[^/@\s]+@")


class Key:
    """A key of a file: the option of a command that it stands for.

    ``variables`` are the environment variables of the option, the one that counts first.
    """

    def __init__(self, option: TyperOption, prefix: str) -> None:
        self.option = option
        self.flag = next(each for each in option.opts if each.startswith("--"))
        self.name = self.flag.removeprefix("--")
        older = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
        self.variables = (*older, f"{prefix}_{str(option.name).upper()}")
        metavar = option.metavar or ""
        self.is_table = option.multiple and "=" in metavar
        self.is_joined = not option.multiple and "," in metavar

    @property
    def kind(self) -> str:
        """The type of its value in words."""
        option = self.option
        if option.multiple:
            return "a list of texts, or a table" if self.is_table else "a list of texts"
        if option.is_bool_flag:
            return "true or false"
        annotation = option.type_descriptor.annotation
        if annotation in (int, float):
            return "a number"
        if isinstance(annotation, type) and issubclass(annotation, Enum):
            return "one of " + ", ".join(str(each.value) for each in annotation)
        return "a text, or a list of texts" if self.is_joined else "a text"

    @property
    def is_path(self) -> bool:
        """Flag: its values are paths."""
        return self.option.type_descriptor.annotation in (Path, list[Path])

    def read(self, value: Any, folder: Path) -> Any:
        """Return a value of a file as the parser of the command takes it.

        Raises InputError; paths start at ``folder``.
        """
        option = self.option
        if option.multiple:
            if self.is_table and isinstance(value, dict):
                value = [f"{name}={_word(each, self)}" for name, each in value.items()]
            values = value if isinstance(value, list) else [value]
            return [self._text(each, folder) for each in values]
        if option.is_bool_flag:
            return value if isinstance(value, bool) else self._refuse(value)
        if self.kind == "a number":
            fits = isinstance(value, (int, float)) and not isinstance(value, bool)
            whole = option.type_descriptor.annotation is float or isinstance(value, int)
            return value if fits and whole else self._refuse(value)
        if self.is_joined and isinstance(value, list):
            return ",".join(self._text(each, folder) for each in value)
        return self._text(value, folder)

    def _text(self, value: Any, folder: Path) -> str:
        if not isinstance(value, str):
            self._refuse(value)
        if "\0" in value:
            raise InputError("has a character that no value has", hint=self.kind)
        return str(folder / Path(value).expanduser()) if self.is_path and value else str(value)

    def _refuse(self, value: Any) -> Any:
        quoted = isinstance(value, (int, float)) and not isinstance(value, bool) and "text" in self.kind
        hint = f'{self.kind}: "{value}"' if quoted else self.kind
        raise InputError(f"is {kind_of(value)}", hint=hint)


def _word(value: Any, key: Key) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InputError(f"is {kind_of(value)}", hint=f"texts or numbers below {key.name}")


def keys_of(command: TyperCommand) -> dict[str, Key]:
    """Return the keys that a command's file may have, by name."""
    prefix = command.context_settings["auto_envvar_prefix"]
    options: list[Any] = [
        each for each in command.params if each.name not in NO_KEYS and not getattr(each, "hidden", 0)
    ]
    return {key.name: key for key in (Key(each, prefix) for each in options)}


def read_keys(text: TomlText, command: TyperCommand, ctx: typer.Context) -> dict[str, Any]:
    """Return the values of a file by the names of parameters. Raises InputErrors with all mistakes."""
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


def check_value(key: Key, value: Any, ctx: typer.Context) -> None:
    """Raise InputError for a value that the parser of the command refuses."""
    from typer._click.exceptions import UsageError

    try:
        key.option.process_value(ctx, value)
    except UsageError as error:
        raise InputError(error.message, hint=key.kind) from None


def _unknown(name: str, keys: dict[str, Key], program: str) -> InputError:
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
    """Return a text whose addresses have no passwords."""
    return _PASSWORD.sub(lambda found: f"{found[0].rpartition(':')[0]}:…@", text)
