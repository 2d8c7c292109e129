"""Times of automatic rounds: the option ``rebalance`` is a word, an interval or a cron expression."""

from __future__ import annotations

from cress.lifecycle.families import moments
from cress.model.errors import InputError
from cress.model.options import EVERY_LEAST, OFF, REBALANCE_WORDS
from cress.model.units import parse_duration


def check(schedule: str) -> None:
    """Raise InputError unless this is a valid schedule."""
    if schedule == OFF:
        return
    expression = _expression(schedule)
    if expression:
        try:
            moments.check(expression)
        except InputError as error:
            raise error.at(field="rebalance") from None
    elif parse_duration(schedule) < EVERY_LEAST:
        raise InputError(f"every {schedule} is too often", hint="1min or more", field="rebalance")


def next_round(schedule: str, zone: str, since: int) -> int | None:
    """Return the time of the first round after ``since`` (wall clock, µs); ``None``: never."""
    if schedule == OFF:
        return None
    expression = _expression(schedule)
    return moments.next_after(expression, zone, since) if expression else since + parse_duration(schedule)


def _expression(schedule: str) -> str:
    """Return the cron expression of a schedule; empty for an interval."""
    return f"@{schedule}" if schedule in REBALANCE_WORDS else schedule if " " in schedule else ""
