"""The commands of the programs, whose options can also be set in configuration files."""

from __future__ import annotations

from typing import Any

import typer

from cress.cli import center, executor
from cress.cli.configured import ConfiguredCommand

PROGRAMS = ("center", "executor")


def add_programs(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command(epilog=center.EPILOG, cls=ConfiguredCommand, context_settings=_settings("center"))(center.center)
    app.command(epilog=executor.EPILOG, cls=ConfiguredCommand, context_settings=_settings("executor"))(
        executor.executor
    )


def command_of(program: str) -> ConfiguredCommand:
    """Return the command of a program."""
    app = typer.Typer()
    add_programs(app)
    whole: Any = typer.main.get_command(app)
    command: ConfiguredCommand = whole.commands[program]
    return command


def _settings(program: str) -> dict[str, Any]:
    return {"auto_envvar_prefix": f"CRESS_{program.upper()}"}
