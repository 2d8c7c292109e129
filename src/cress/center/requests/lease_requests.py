"""Requests of leases as jobs: their own keys, and those of a job file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import tzinfo
from typing import Any

import msgspec

from cress.center.requests.validation import read_jobs
from cress.model.errors import InputError, InputErrors, NotAccepted
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.jobfile.job import JobSpec, below
from cress.model.jobfile.values import as_number
from cress.model.resources import Dimensions, ResourceVector
from cress.model.times import DAY, HOUR, SECOND
from cress.model.units import parse_count, parse_duration
from cress.model.vectors import parse_vector

# The holder of a lease without a program of its own.
HOLDER = ("sleep", "infinity")
# Most leases of one request; µs after which leases end if their holder is silent, with the bounds.
MOST_LEASES = 10_000
TERM, LEAST_TERM, MOST_TERM = 60 * SECOND, SECOND, DAY
MOST_MIN_TIME = 24 * HOUR
_OWN = ("count", "min_time", "term", "uses")
_NOT_OF_LEASES = ("type", "tasks", "max_running", "deadline", "after")


def lease_specs(
    body: Mapping[str, Any],
    dimensions: Dimensions,
    *,
    user: str,
    accounts: Collection[str] | None,
    zone: tzinfo,
) -> tuple[list[JobSpec], tuple[Job, ...]]:
    """Return the job of a request. Raises InputError, or InputErrors with all mistakes."""
    for key in _NOT_OF_LEASES:
        if key in body:
            raise InputError(
                "belongs to jobs, not to leases", hint="count: how many leases" if key == "tasks" else "", field=key
            )
    if not body.get("workload"):
        raise InputError("is missing", hint="the name of the framework whose tasks run in the leases", field="workload")
    count = _read(body, "count", lambda value: parse_count(as_number(value), least=1, most=MOST_LEASES), 1)
    min_time = _read(body, "min_time", lambda value: _duration(value, 0, MOST_MIN_TIME), 0)
    term = _read(body, "term", lambda value: _duration(value, LEAST_TERM, MOST_TERM), TERM)
    uses = _uses(body, dimensions)
    entry = {key: value for key, value in body.items() if key not in _OWN}
    if "command" not in entry:
        entry["command"] = list(HOLDER)
        entry.setdefault("name", entry["workload"])
    (spec,), (job,) = read_one(
        entry | {"tasks": count}, dimensions, user=user, accounts=accounts, zone=zone, given=body
    )
    for name, amount, held in zip(dimensions.names, uses or (), job.request, strict=bool(uses)):
        if amount > held:
            raise InputError(f"more {name} than the lease has", hint="at most what `resource` says", field="uses")
    job = msgspec.structs.replace(job, is_lease=True, min_time=min_time, term=term, uses=uses)
    run = msgspec.structs.replace(spec.run, source=msgspec.json.encode(body, order="deterministic").decode())
    return [msgspec.structs.replace(spec, job=job, run=run)], (job,)


def read_one(
    entry: Mapping[str, Any],
    dimensions: Dimensions,
    *,
    user: str,
    accounts: Collection[str] | None,
    zone: tzinfo,
    given: Mapping[str, Any],
) -> tuple[list[JobSpec], tuple[Job, ...]]:
    """Return the job of a body.

    Raises InputError, or InputErrors with all mistakes in the ``given`` keys, placed in the body.
    """
    try:
        return read_jobs([entry], dimensions=dimensions, user=user, accounts=accounts, zone=zone)
    except InputError as error:
        found = error.errors if isinstance(error, InputErrors) else [error]
        for error in found:
            error.field = error.field.removeprefix("jobs[0].")
        # A key made from other keys repeats their mistakes.
        own = [error for error in found if error.field != "name" or "name" in given]
        if not own:
            raise
        raise (own[0] if len(own) == 1 else InputErrors(own)) from None


def pinned(entry: Mapping[str, Any], lease: Job, node: str) -> dict[str, Any]:
    """Return a job that is to run in a lease on this node."""
    for key, own in (("workload", lease.workload), ("group", lease.group or DEFAULT_GROUP)):
        if entry.get(key, own) != own:
            raise NotAccepted(f"the {key} of the lease is {own}", hint=f"leave {key} out", field=key)
    if entry.get("type", "batch") != "batch":
        raise NotAccepted("only batch jobs run in a lease", hint="leave type out", field="type")
    given = entry.get("requirement", [])
    texts = given if isinstance(given, list) else [given]
    both = {"workload": lease.workload, "group": lease.group or DEFAULT_GROUP}
    return {**entry, **both, "requirement": [*texts, f"Nodes in ({node})"]}


def _uses(body: Mapping[str, Any], dimensions: Dimensions) -> ResourceVector | None:
    """Return the holder's own use at first: all (``None``) if it has a program of its own, else nothing."""
    given = body.get("uses")
    if given is None:
        given = "all" if "command" in body else "nothing"
    if given == "all":
        return None
    if given == "nothing":
        return (0,) * len(dimensions)
    try:
        return parse_vector(given if isinstance(given, Mapping) else as_number(given), dimensions)
    except InputError as error:
        raise below(error, "uses") from None


def _duration(value: object, least: int, most: int) -> int:
    found = parse_duration(as_number(value))
    if not least <= found <= most:
        raise InputError(f"{value} is out of range", hint=f"{least // SECOND}s to {most // HOUR}h")
    return found


def _read(body: Mapping[str, Any], key: str, parse: Any, default: Any) -> Any:
    if body.get(key) is None:
        return default
    try:
        return parse(body[key])
    except InputError as error:
        raise error.at(field=key) from None
