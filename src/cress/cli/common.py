"""Helpers shared by the verbs: options, ids, times, retries while a center restarts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cress.cli.table_layout import Selection
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.client import Client

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Data directory of the center. Default: the center at CRESS_URL, with CRESS_TOKEN; else the directory "
        "CRESS_DATA; else ~/.local/share/cress.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")]
Columns = Annotated[
    str, typer.Option("--columns", metavar="NAME,…", help="Only these columns, in this order (names: see below).")
]
Wide = Annotated[
    bool, typer.Option("--wide", "-W", help="Show all columns in full, even if the terminal is too narrow.")
]
Workload = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Framework of the job. Its tasks may start in the framework's leases (docs/fragments.md)."
    ),
]
Licence = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=N]", help="Licence that each task takes, and how many of it. Default of N: 1. Repeatable."
    ),
]

Deadline = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Time by which all tasks should end: 6h (from now), or '2026-12-01 18:00'."),
]

# A center that restarts is back within seconds, so a verb does not wait much longer.
PATIENCE = 60.0
AGAIN = 0.5
STANDARD_INPUT = "standard input"
# Most bytes of a file that a verb reads as a whole.
MOST_BYTES = 64 * 2**20
MOST_ID = 2**53  # the range in which numbers of JSON are exact

_T = TypeVar("_T")


def selection_of(columns: str, *, wide: bool) -> Selection:
    """Return the choice of columns from the options ``--columns`` and ``--wide``."""
    return Selection(tuple(word.strip() for word in columns.split(",") if word.strip()), wide)


def connect(data: Path | None) -> Client:
    """Return a client of the center that the options and the environment name."""
    from cress import client

    return client.connect(data)


def print_json(view: Any) -> None:
    """Print a view in the format of the API, indented."""
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(view), indent=2).decode())


def job_id(text: str) -> int:
    """Return the id in a text such as ``12``."""
    from cress.model.units import parse_count

    try:
        return parse_count(text.removeprefix("job-"), least=1, most=MOST_ID)
    except InputError:
        raise InputError(
            f"{text!r} is not an id of a job", hint="a number such as 12; `cress jobs` lists them"
        ) from None


def task_id(text: str) -> tuple[int, int | None]:
    """Return job and task in ``12.3``; ``None`` for the task in ``12``."""
    from cress.model.units import parse_count

    job, dot, task = text.partition(".")
    if not dot:
        return job_id(job), None
    try:
        return job_id(job), parse_count(task, least=0, most=MOST_ID)
    except InputError:
        raise InputError(f"{text!r} is not an id of a task", hint="JOB.TASK such as 12.0; tasks count from 0") from None


def pairs(texts: list[str] | None, option: str, form: str) -> dict[str, str]:
    """Return ``KEY=VALUE`` texts as a mapping; ``form`` shows the expected form in errors."""
    found: dict[str, str] = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"{text!r} is not {form}", hint=f"such as {option} {form}", field=option)
        if key in found:
            raise InputError(f"{key} is given twice", hint="each once", field=option)
        found[key] = value
    return found


@contextmanager
def given_as(option: str) -> Iterator[None]:
    """Name the option in an error about its value."""
    try:
        yield
    except InputError as error:
        raise error.at(field=option) from None


def read_text(file: Path | str, what: str, *, most: int = MOST_BYTES) -> str:
    """Return the text of a file, or of standard input for ``-``.

    At most ``most`` bytes are read. Raise ``InputError``; ``what`` names the expected file.
    """
    name = STANDARD_INPUT if str(file) == "-" else str(file)
    try:
        if str(file) == "-":
            content = sys.stdin.buffer.read(most + 1)
        else:
            with Path(file).open("rb") as stream:
                content = stream.read(most + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=name) from None
    if len(content) > most:
        raise InputError(f"is too large for {what}", hint=f"at most {most >> 20} MB", file=name)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is not a text", hint=f"{what} in UTF-8", file=name) from None
    if "\0" in text:
        raise InputError("is not a text", hint=f"{what} in UTF-8", file=name)
    return text


def duration(seconds: float) -> str:
    """Return a duration for a table, in two units at most: ``4.2s``, ``3m07s``, ``2h15m``, ``4d03h``."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    for unit, word, part, rest in ((3600, "m", 60, "s"), (86400, "h", 3600, "m")):
        if whole < unit:
            size = 1 if rest == "s" else 60
            return f"{whole // part}{word}{whole % part // size:02d}{rest}"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def moment(at: float | None) -> str:
    """Return a time in the user's zone, ``-`` if there is none."""
    return "-" if at is None else datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def duration_of(text: str, option: str) -> int:
    """Return the microseconds in a text such as ``90d``, the value of ``option``."""
    from cress.model.units import parse_duration

    with given_as(option):
        return parse_duration(text)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 task``, ``2,000 tasks``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def patiently(ask: Callable[[], _T], verb: str) -> _T:
    """Return the answer of ``ask``, retried for a minute while the center is unreachable; print one note about it."""
    from cress.client import Unavailable, Unreachable

    since: float | None = None
    while True:
        try:
            return ask()
        except (Unreachable, Unavailable) as error:
            if since is None:
                since = time.monotonic()
                typer.echo(f"cress {verb}: {error}; asking again for a minute", err=True)
            elif time.monotonic() - since > PATIENCE:
                raise
            time.sleep(AGAIN)
