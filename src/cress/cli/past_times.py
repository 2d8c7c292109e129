"""The log and the span of time that a verb about the past names."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.past.recorded_log import RecordedLog

HINT = "'2026-11-02 14:30', 2026-11-02, 14:30 for that time of today, or 7d for 7 days ago"


def log_of(data: Path | None) -> RecordedLog:
    """Return the recorded log at a path, or that of the chosen center. Raises InputError."""
    from cress.past.recorded_log import RecordedLog

    return RecordedLog(log_place(data))


def log_place(data: Path | None) -> Path:
    """Return a given path, or the data directory of the chosen center. Raises InputError if that is elsewhere."""
    from cress.client.config import chosen_directory

    found = chosen_directory(data)
    if found is None:
        what = "the chosen center is known by its address only, and its log is in its data directory"
        raise InputError(what, hint="name that directory, or a copy of it")
    return found


def span_of(since: str, until: str, option: str = "--from") -> tuple[int, int | None]:
    """Return the span of time that ``option`` and ``--until`` name, in µs since the epoch. Raises InputError."""
    first = moment_of(since, option) if since else 0
    last = moment_of(until, "--until") if until else None
    if last is not None and last <= first:
        raise InputError(f"is not after {option}", hint="a later time", field="--until")
    return first, last


def moment_of(text: str, option: str) -> int:
    """Return the moment (µs since the epoch) in a text, in the time zone of this machine. Raises InputError."""
    from datetime import datetime, timedelta

    from cress.model.units import parse_duration

    word, now = text.strip(), datetime.now().astimezone()
    try:
        return int(now.timestamp() * 1e6) - parse_duration(word)
    except InputError:
        pass
    try:
        if word.lower() in ("now", "today", "yesterday"):
            days = timedelta(days=word.lower() == "yesterday")
            found = now if word.lower() == "now" else now.replace(hour=0, minute=0, second=0, microsecond=0) - days
        elif word.count(":") and not word.count("-"):
            found = datetime.fromisoformat(f"{now:%Y-%m-%d} {word}")
        else:
            found = datetime.fromisoformat(word)
        at = found.timestamp()
    except (ValueError, OverflowError, OSError):
        raise InputError(f"{text!r} is not a moment", hint=HINT, field=option) from None
    if at < 0 or at > time.time() + 10**9:
        raise InputError(f"{text!r} is not a moment of a log", hint=HINT, field=option)
    return int(at * 1e6)
