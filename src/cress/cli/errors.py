"""Errors of the command: a sentence on standard error and an exit code, never a traceback.

2: the input is wrong, and a change of it helps. 3: the call was refused, or no center is reachable. 130: Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import typer

from cress.model.errors import InputError, InputErrors, NotAccepted

BAD_INPUT, NOT_ACCEPTED, INTERRUPTED = 2, 3, 130

# The origin of the value of an option, as the place of an error.
_place: ContextVar[Callable[[str], InputError | None]] = ContextVar("place", default=lambda _: None)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with a sentence about the state of the operation."""


@contextmanager
def told_at(place: Callable[[str], InputError | None]) -> Iterator[None]:
    """Make errors about options name the origin of the value.

    ``place`` returns it; None stands for the flag itself.
    """
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


@contextmanager
def told(verb: str, extra: str = "", interrupted: str = "interrupted") -> Iterator[None]:
    """Run a verb's body with its errors as messages; ``extra`` is the optional part of the package that it needs."""
    try:
        yield
    except InputError as error:
        errors = error.errors if isinstance(error, InputErrors) else [error]
        _say(verb, *(str(_placed(error)) for error in errors))
        # Input that is wrong everywhere is reported before input that another center might accept.
        bad = any(not isinstance(error, NotAccepted) for error in errors)
        raise typer.Exit(BAD_INPUT if bad else NOT_ACCEPTED) from None
    except ModuleNotFoundError as error:
        # A missing module of Cress is a defect and keeps its traceback.
        if not error.name or error.name.partition(".")[0] == "cress":
            raise
        _say(verb, f"{error.name} is not installed (pip install 'cress[{extra or 'all'}]')")
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt as error:
        _say(verb, str(error) or interrupted)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        # Errors that the verb itself does not handle, such as a full disk behind standard output.
        place = f"{error.filename}: " if error.filename else ""
        _say(verb, f"{place}{error.strerror or error}")
        raise typer.Exit(NOT_ACCEPTED) from None
    except Exception as error:
        known = _client_error(error)
        if known is None:
            raise
        code, sentences = known
        _say(verb, *sentences)
        raise typer.Exit(code) from None


def _placed(error: InputError) -> InputError:
    place = _place.get()(error.field) if error.field and not error.file else None
    if place is None:
        return error
    return InputError(error.what, hint=error.hint, file=place.file, line=place.line, field=place.field)


def _say(verb: str, *sentences: str) -> None:
    for sentence in sentences:
        typer.echo(f"cress {verb}: {sentence}", err=True)


def _client_error(error: Exception) -> tuple[int, list[str]] | None:
    """Return exit code and sentences for an error of the client; ``None`` for a defect."""
    if "cress.client" not in sys.modules:
        return None  # a verb that never called a center does not load the client to fail
    from cress.client import ClientError, NoCenter, NotFound, Refused

    if isinstance(error, Refused):
        faults = [
            str(InputError(fault.what, hint=fault.hint, file=fault.file, line=fault.line, field=fault.field))
            for fault in error.faults
        ]
        return BAD_INPUT if error.bad_input else NOT_ACCEPTED, faults or [str(error)]
    if isinstance(error, NotFound):
        return BAD_INPUT, [str(error)]
    if isinstance(error, (ClientError, NoCenter)):
        return NOT_ACCEPTED, [str(error)]
    return None
