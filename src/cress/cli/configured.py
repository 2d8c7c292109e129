"""Commands whose options can also be set in a configuration file: flag > environment > file > default."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer._click.core import ParameterSource
from typer.core import TyperCommand

from cress.cli.common import read_text
from cress.cli.config_keys import ConfigKey, check_value, keys_of, passwords_in, read_keys
from cress.cli.errors import told, told_at
from cress.model.errors import InputError
from cress.model.program_settings.setting import ValueType
from cress.model.program_settings.table import settings_of
from cress.model.toml_text import TomlText

# The folder of the files that are read by default.
FOLDER = Path("/etc/cress")
MOST_BYTES = 2**20

Config = Annotated[
    str,
    typer.Option(
        "--config",
        metavar="FILE",
        help=(
            "File with these options (docs/configuration.md). Default: /etc/cress/PROGRAM.toml, if it exists; "
            "'' = no file."
        ),
        show_default=False,
    ),
]
Check = Annotated[bool, typer.Option("--check", help="Only check the options and the file.")]


class Origin(NamedTuple):
    """The origin of a value: ``flag``, ``env``, ``file`` or ``default``, and its name or line there."""

    kind: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.place}" if self.place else self.kind


class ConfiguredCommand(TyperCommand):
    """A command that reads options from the file named by ``--config``, or from its file in /etc/cress."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        settings = {known.parameter: known for known in settings_of(str(self.name))}
        for option in cast("list[Any]", self.params):
            setting = settings.get(str(option.name))
            if setting is not None and setting.value_type is ValueType.SWITCH:
                # A flag must override the file even if the file says true, so each switch has an opposite.
                option.secondary_opts = [_opposite(setting.flag)]
            if setting is None and option.name != "config":
                option.allow_from_autoenv = False
            elif option.envvar is None:
                option.show_envvar = False  # the epilog explains the rule for its name

    def get_help_option(self, ctx: Any) -> Any:
        """Return the help option, which has no environment variable."""
        option: Any = super().get_help_option(ctx)
        if option is not None:
            option.allow_from_autoenv = False
        return option

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the file before the arguments."""
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        if not ctx.resilient_parsing and not given.get("help"):
            with told(str(self.name)):
                text = self._file(ctx, given)
                if text is not None:
                    ctx.meta[_TEXT] = text
                    ctx.default_map = read_keys(text, self, ctx)
                    _warn(str(self.name), text, ctx.default_map)
                self._check_environment(ctx, given)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error about an option names the origin of its value."""
        with told_at(lambda flag: self._place(ctx, flag)):
            return super().invoke(ctx)

    def _file(self, ctx: Any, given: dict[str, Any]) -> TomlText | None:
        option = next(param for param in self.params if param.name == "config")
        name, _ = option.consume_value(ctx, given)
        if name == "" and given.get("config") == "":
            return None
        path = Path(name) if name else FOLDER / f"{self.name}.toml"
        if not name and not path.exists():
            return None
        return TomlText(read_text(path, "a configuration", most=MOST_BYTES), str(path))

    def _check_environment(self, ctx: Any, given: dict[str, Any]) -> None:
        for key in keys_of(self).values():
            value = key.option.value_from_envvar(ctx)
            if value is not None and given.get(str(key.option.name)) is None:
                try:
                    check_value(key, value, ctx)
                except InputError as error:
                    raise error.at(field=variable_of(key)) from None

    def _place(self, ctx: Any, flag: str) -> InputError | None:
        key = keys_of(self).get(flag.removeprefix("--")) if flag.startswith("--") else None
        if key is None:
            return None
        source = ctx.get_parameter_source(key.option.name)
        if source is ParameterSource.ENVIRONMENT:
            return InputError("", field=variable_of(key))
        if source is ParameterSource.DEFAULT_MAP:
            text: TomlText = ctx.meta[_TEXT]
            return text.wrong(InputError(""), key.name)
        return None

    def origin(self, ctx: Any, key: ConfigKey) -> Origin:
        """Return the origin of the value of a key, in a context that has been parsed."""
        source = ctx.get_parameter_source(key.option.name)
        if source is ParameterSource.COMMANDLINE:
            return Origin("flag", key.setting.flag)
        if source is ParameterSource.ENVIRONMENT:
            return Origin("env", variable_of(key))
        if source is ParameterSource.DEFAULT_MAP:
            text: TomlText = ctx.meta[_TEXT]
            return Origin("file", f"{text.file}:{text.line_of(key.name)}")
        return Origin("default")


_TEXT = "cress.configuration"


def _opposite(flag: str) -> str:
    return f"--{flag[5:]}" if flag.startswith("--no-") else f"--no-{flag[2:]}"


def variable_of(key: ConfigKey) -> str:
    """Return the environment variable that sets a key."""
    import os

    return next((variable for variable in key.variables if os.environ.get(variable)), key.variables[-1])


def _warn(program: str, text: TomlText, values: dict[str, Any]) -> None:
    secret = passwords_in(values)
    if secret and Path(text.file).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        typer.echo(
            f"cress {program}: warning: {text.file}: {', '.join(secret)} has a password, and other users may "
            "read the file "
            f"(chmod 600 {text.file})",
            err=True,
        )
