"""The key ``wait_for``: what must be there before a job starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from cress.model.errors import InputError
from cress.model.jobfile import checks, deadlines
from cress.model.jobfile.reader import Reader, below
from cress.model.jobfile.values import as_text, mistakes, raise_all, shown
from cress.model.times import SECOND
from cress.model.units import format_duration
from cress.model.waits import ADDRESS, EVERY, HINT, KINDS, MOST, PATH, SOONEST, TIME, URL, WaitFor, checked_name

WAIT_KEYS = (*KINDS, "every", "timeout")
TIME_HINT = "such as 2h, 2026-12-01 18:00 or 2026-12-01 18:00 +02:00"
# Longest wait (µs): a year.
MOST_WAIT = 366 * 86_400_000_000


def wait_for(value: object) -> tuple[WaitFor, ...]:
    """Parse a thing to wait for, or a list of them."""
    entries = list(value) if isinstance(value, (list, tuple)) else [value]
    if not entries or len(entries) > MOST:
        raise InputError(f"{len(entries)} things to wait for", hint=f"1 to {MOST}")
    found: list[WaitFor] = []
    errors: list[InputError] = []
    for place, entry in enumerate(entries):
        try:
            found.append(_one(entry))
        except InputError as error:
            inside = f"[{place}]" if isinstance(value, (list, tuple)) else ""
            errors += [below(mistake, inside) if inside else mistake for mistake in mistakes(error)]
    raise_all(errors)
    return tuple(dict.fromkeys(found))


def _one(value: object) -> WaitFor:
    if isinstance(value, str):
        text = value.strip()
        kind = PATH if text.startswith("/") else URL if "://" in text else ADDRESS
        return WaitFor(kind, checked_name(kind, text))
    if not isinstance(value, Mapping):
        raise InputError(f"{shown(value)} is nothing to wait for", hint=HINT)
    reader = Reader(value, WAIT_KEYS)
    kinds = [kind for kind in KINDS if kind in reader.given]
    if len(kinds) != 1:
        what = "says not what to wait for" if not kinds else f"{' and '.join(kinds)} are two things"
        reader.errors.append(InputError(what, hint=HINT))
    names = [reader.read(kind, _reader_of(kind), "") for kind in kinds]
    every = reader.read("every", checks.duration(SOONEST, MOST_WAIT), EVERY)
    timeout = reader.read("timeout", checks.duration(SOONEST, MOST_WAIT), 0)
    if kinds == [TIME]:
        for key in [key for key in ("every", "timeout") if key in reader.given]:
            reader.wrong(key, "does not belong to a time", "leave it out: a time comes by itself")
    raise_all(reader.errors)
    return WaitFor(kinds[0], names[0], every, timeout or None)


def _reader_of(kind: str) -> Callable[[object], str]:
    """Return the parser of the names of things of this kind."""
    return time_name if kind == TIME else lambda value: checked_name(kind, as_text(value))


def time_name(value: object) -> str:
    """Return the name of a time: a length such as ``2h``, or a moment with its zone, or without one."""
    try:
        written = deadlines.deadline(value)
    except InputError as error:
        raise InputError(error.what.replace("a deadline", "a time to wait for"), hint=TIME_HINT) from None
    if written.within > MOST_WAIT:
        raise InputError(f"{shown(value)} is longer than a year", hint=TIME_HINT)
    if written.within:
        return format_duration(written.within)
    if written.clocks:
        return written.clocks
    try:
        return f"{datetime.fromtimestamp(written.moment / SECOND, UTC):%Y-%m-%d %H:%M:%S} Z"
    except ValueError:
        raise InputError(f"{shown(value)} is beyond the calendar", hint=TIME_HINT) from None
