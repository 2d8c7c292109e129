"""Jobs as lines in the user's own form, and in the user's own order."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from cress.cli.common import duration, moment
from cress.cli.tables import clean
from cress.model.errors import InputError
from cress.model.units import one_of

if TYPE_CHECKING:
    from cress.client import JobView

Value: TypeAlias = str | float
# The value of a field, by which jobs are ordered; times in seconds, missing ones last.
_LAST = float("inf")
FIELDS: Mapping[str, Callable[[JobView, float], Value]] = {
    "id": lambda job, _: job.id,
    "name": lambda job, _: clean(job.name),
    "group": lambda job, _: job.group,
    "user": lambda job, _: job.user,
    "type": lambda job, _: job.type,
    "state": lambda job, _: job.state,
    "priority": lambda job, _: job.priority,
    "tasks": lambda job, _: job.tasks.total,
    "waiting": lambda job, _: job.tasks.waiting,
    "running": lambda job, _: job.tasks.running,
    "succeeded": lambda job, _: job.tasks.succeeded,
    "failed": lambda job, _: job.tasks.failed,
    "submitted": lambda job, _: job.submitted,
    "started": lambda job, _: _LAST if job.started is None else job.started,
    "ended": lambda job, _: _LAST if job.ended is None else job.ended,
    "age": lambda job, now: now - job.submitted,
    "elapsed": lambda job, now: _LAST if job.started is None else (job.ended or now) - job.started,
    "waited": lambda job, now: (job.started or job.ended or now) - job.submitted,
    "preempted": lambda job, _: job.preempted,
    "reason": lambda job, _: clean(job.reason),
    "kind": lambda job, _: job.reason_kind or "-",
}
_MOMENTS, _DURATIONS = {"submitted", "started", "ended"}, {"age", "elapsed", "waited"}


def parts_of(form: str) -> list[tuple[str, str]]:
    """Return the texts of a form such as ``{id} {name}``, each with the field that follows it (empty: none).

    Raises InputError for an unknown field, and for a form that is not closed.
    """
    hint = "such as '{id} {name} {elapsed}'"
    try:
        parsed = list(string.Formatter().parse(form.replace("\\t", "\t")))
    except ValueError as error:
        raise InputError(f"{form!r} is not a form: {error}", hint=hint, field="--format") from None
    for _, field, spec, conversion in parsed:
        if field is not None and field not in FIELDS:
            raise InputError(f"{field!r} is not a field of a job", hint=one_of(field, FIELDS), field="--format")
        if spec or conversion:
            raise InputError(f"{form!r} has more than names in braces", hint=hint, field="--format")
    return [(text, field or "") for text, field, _, _ in parsed]


def line_of(job: JobView, parts: Sequence[tuple[str, str]], now: float) -> str:
    """Return a job in a form; ``now`` in seconds since the epoch."""
    return "".join(text + (_shown(job, field, now) if field else "") for text, field in parts)


def _shown(job: JobView, field: str, now: float) -> str:
    value = FIELDS[field](job, now)
    if value == _LAST:
        return "-"
    if field in _MOMENTS:
        return moment(float(value))
    return duration(float(value)) if field in _DURATIONS else str(value)


def in_order(jobs: Sequence[JobView], key: str, now: float) -> list[JobView]:
    """Return jobs in the order of a field, the largest first after ``-``; equal ones keep their order.

    Raises InputError for an unknown field.
    """
    field = key.removeprefix("-")
    if field not in FIELDS:
        raise InputError(f"{field!r} is not a field of a job", hint=one_of(field, FIELDS), field="--sort")
    value = FIELDS[field]
    # What a job does not have comes last in both directions.
    there = [job for job in jobs if value(job, now) != _LAST]
    there.sort(key=lambda job: value(job, now), reverse=key.startswith("-"))
    return [*there, *(job for job in jobs if value(job, now) == _LAST)]
