"""Limits of groups as text: keywords of ``Group.conf``, one line each. A missing limit does not apply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cress.model.errors import InputError
from cress.model.groups.quota_text import SCALE, UNIT
from cress.model.limits import Limits
from cress.model.resources import Dimensions
from cress.model.units import AMOUNT_LIMIT, format_duration, parse_count, parse_duration
from cress.model.vectors import format_vector, parse_vector

MAX_SIZE = "MaxJobSize"
# Words for "no limit".
NO_LIMIT = ("none", "unlimited")


@dataclass(frozen=True, slots=True)
class LimitKey:
    """One keyword: the field of ``Limits``, its description for a table, and the flag for times."""

    keyword: str
    field: str
    about: str
    is_time: bool = False


LIMIT_KEYS = (
    LimitKey("MaxRunningJobs", "running", "most jobs of the group that run at once"),
    LimitKey("MaxRunningJobsPerUser", "running_per_user", "most jobs of one user in the group that run at once"),
    LimitKey("MaxJobs", "jobs", "most jobs of the group that wait or run"),
    LimitKey("MaxJobsPerUser", "jobs_per_user", "most jobs of one user in the group that wait or run"),
    LimitKey("MaxWaitingJobs", "waiting", "most jobs of the group that wait"),
    LimitKey("MaxWaitingJobsPerUser", "waiting_per_user", "most jobs of one user in the group that wait"),
    LimitKey("MaxTasks", "tasks", "most tasks of one job"),
    LimitKey(MAX_SIZE, "size", "most that one job may use at once"),
    LimitKey("MaxTimeLimit", "time_limit", "longest time limit of a job", is_time=True),
    LimitKey("DefaultTimeLimit", "default_time_limit", "time limit of a job without one", is_time=True),
)
BY_KEYWORD = {key.keyword: key for key in LIMIT_KEYS}


def parse_limit(keyword: str, text: str, accounting: str, dimensions: Dimensions) -> dict[str, object]:
    """Return the fields of ``Limits`` that a keyword sets. Raises InputError."""
    key = BY_KEYWORD[keyword]
    if text.strip().lower() in NO_LIMIT:
        return {}
    if key.is_time:
        limit = parse_duration(text)
        if not limit:
            raise InputError("a limit of 0 leaves no time to run", hint="leave it out for no limit")
        return {key.field: limit}
    if keyword != MAX_SIZE:
        return {key.field: parse_count(text, least=1 if key.field == "tasks" else 0)}
    if "<" in text:
        amounts = zip(dimensions.names, parse_vector(text, dimensions), strict=True)
        found = tuple((name, amount) for name, amount in amounts if amount)
        if not found:
            raise InputError(f"the size {text} is empty", hint="at least one amount above 0")
        return {"amounts": found}
    scale = SCALE[accounting]
    try:
        return {key.field: parse_count(text, least=1, most=(AMOUNT_LIMIT - 1) // scale) * scale}
    except InputError as error:
        hint = f"a whole number of {UNIT[accounting]} such as 10, or a vector such as <40,160G>"
        raise InputError(error.what, hint=hint) from None


def limit_values(limits: Limits, accounting: str, dimensions: Dimensions) -> dict[str, str]:
    """Return the keywords of the given limits with their values as text, in the order of writing."""
    values: dict[str, str] = {}
    for key in LIMIT_KEYS:
        value = getattr(limits, key.field)
        if key.keyword == MAX_SIZE and limits.amounts:
            values[key.keyword] = format_vector(dimensions.vector(**dict(limits.amounts)), dimensions)
        elif value is None:
            continue
        elif key.keyword == MAX_SIZE:
            values[key.keyword] = str(value // SCALE[accounting])
        else:
            values[key.keyword] = format_duration(value) if key.is_time else str(value)
    return values


def check_limits(limits: Limits) -> None:
    """Raise InputError if limits contradict each other."""
    longest, default = limits.time_limit, limits.default_time_limit
    if longest is not None and default is not None and default > longest:
        raise InputError(
            f"{format_duration(default)} is longer than MaxTimeLimit, {format_duration(longest)}",
            hint="at most MaxTimeLimit",
            field="DefaultTimeLimit",
        )


def given_time_limit(path: Iterable[Limits]) -> int | None:
    """Return the time limit (µs) of a job without one, from the limits of its group and the groups above it, innermost
    first.

    It is the nearest default, else the smallest maximum, and never above any maximum; None: no group has either.
    """
    limits = list(path)
    defaults = [limit.default_time_limit for limit in limits if limit.default_time_limit is not None]
    allowed = [limit.time_limit for limit in limits if limit.time_limit is not None]
    return min((*defaults[:1], *allowed), default=None)
