"""The ``cress`` command. Each verb is a function in a file of its own; heavy imports happen inside it."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import cress
from cress.cli.simulate import EPILOG, simulate

INTERRUPTED = 130  # 128 + SIGINT, as shells count

app = typer.Typer(
    name="cress",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich would be a third of the time that `cress --help` takes
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cress {cress.__version__}")
        raise typer.Exit


@app.callback()
def _cress(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Cluster resource manager and job scheduler."""


app.command(epilog=EPILOG)(simulate)


def main() -> None:
    """The entry point of the command."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe has gone (`| head`): nothing is left to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
