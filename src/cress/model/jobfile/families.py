"""Values of the keys of services, databases and cron jobs.

Cron expressions and time zones are texts here; ``lifecycle.families.moments`` checks them.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from cress.model.errors import InputError
from cress.model.family import Missed, Overlap
from cress.model.jobfile.reader import Reader, below, mapping_of
from cress.model.jobfile.values import MAX_REPLICAS, as_number, as_text, as_word, mistakes, raise_all, shown
from cress.model.units import one_of, parse_count

MAX_MOMENTS = 100
MAX_EXPRESSION = 200
TIMETABLE_KEYS = ("at", "tasks")

_CRON_HINT = "minute hour day month weekday: 0 8 * * 1-5"
_TIMETABLE_HINT = 'a list of {at: "0 8 * * 1-5", tasks: 10}'
_E = TypeVar("_E", bound=Enum)


def expression(value: object) -> str:
    """Return the text of a cron expression, with one space between its fields."""
    text = " ".join(as_word(as_text(value)).split())
    if not text or len(text) > MAX_EXPRESSION or not text.isprintable():
        raise InputError(f"{shown(value)} is not a cron expression", hint=_CRON_HINT)
    return text


def zone(value: object) -> str:
    """Parse the name of a time zone."""
    text = as_word(as_text(value)).strip()
    if not text or len(text) > 100 or not text.isprintable():
        raise InputError(f"{shown(value)} is not a time zone", hint="such as Europe/Berlin, or UTC")
    return text


def timetable(value: object) -> tuple[tuple[str, int], ...]:
    """Parse moments, and the task counts from these on."""
    if not isinstance(value, (list, tuple)) or not value:
        raise InputError(f"{shown(value)} is not a timetable" if value else "is empty", hint=_TIMETABLE_HINT)
    if len(value) > MAX_MOMENTS:
        raise InputError(f"{len(value)} moments are too many", hint=f"at most {MAX_MOMENTS}")
    found: list[tuple[str, int]] = []
    errors: list[InputError] = []
    for place, entry in enumerate(value):
        try:
            found.append(_moment(entry))
        except InputError as error:
            errors += [below(mistake, f"[{place}]") for mistake in mistakes(error)]
    raise_all(errors)
    return tuple(found)


def overlap(value: object) -> Overlap:
    """Parse the rule for a run that is due before the previous one has ended."""
    hint = "forbid: this run is left out; allow: both run; replace: the last one is cancelled"
    return _word(value, Overlap, hint)


def missed(value: object) -> Missed:
    """Parse the rule for missed runs."""
    return _word(value, Missed, "skip: none of them runs; once: one run, however many were missed")


def _moment(entry: object) -> tuple[str, int]:
    reader = Reader(mapping_of(entry, _TIMETABLE_HINT), TIMETABLE_KEYS)
    for key in TIMETABLE_KEYS:
        if key not in reader.given:
            reader.errors.append(InputError("is missing", hint=_TIMETABLE_HINT, field=key))
    at = reader.read("at", expression, "")
    tasks = reader.read("tasks", lambda given: parse_count(as_number(given), most=MAX_REPLICAS), 0)
    raise_all(reader.errors)
    return at, tasks


def _word(value: object, kind: type[_E], hint: str) -> _E:
    known = [str(member.value) for member in kind]
    text = value.strip().lower() if isinstance(value, str) else value
    if text not in known:
        near = one_of(text, known) if isinstance(text, str) and text else ""
        raise InputError(
            f"{shown(value)} is not one of {', '.join(known)}", hint=near if near.startswith("did") else hint
        )
    return kind(text)
