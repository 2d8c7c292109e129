"""How the command fails: one clear message on standard error, exit code 2; 130 after Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from cress.model.errors import InputError

BAD_INPUT, INTERRUPTED = 2, 130


@contextmanager
def told(verb: str, extra: str) -> Iterator[None]:
    """Run a verb's body; ``extra`` is the optional part of the package that it needs."""
    try:
        yield
    except InputError as error:
        typer.echo(f"cress {verb}: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except ModuleNotFoundError as error:
        # A module of ours that is missing is a defect and keeps its traceback.
        if not error.name or error.name.partition(".")[0] == "cress":
            raise
        typer.echo(f"cress {verb}: {error.name} is not installed (pip install 'cress[{extra}]')", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        typer.echo(f"cress {verb}: interrupted; no unfinished file was left", err=True)
        raise typer.Exit(INTERRUPTED) from None
