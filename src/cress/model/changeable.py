"""Keys of a submitted job that may be changed, and while what: one table for machine, API, command line and documents.

The keys are those of job files (``model.jobfile.keys``).
"""

from __future__ import annotations

from enum import Enum

import msgspec

from cress.model.job import Job


class When(Enum):
    """The states of a job in which a key may be changed; the value completes "may be changed"."""

    ALIVE = "while the job waits or runs"
    WAITING = "while no task of the job runs"


class Changeable(msgspec.Struct, frozen=True):
    """A key: the field of ``Job`` that has its value, and when it may be changed.

    ``in_run``: the executors use the value too, so that the job gets a new run.
    """

    key: str
    field: str
    when: When
    in_run: bool = False


CHANGEABLE: dict[str, Changeable] = {
    row.key: row
    for row in (
        Changeable("time_limit", "time_limit", When.ALIVE, in_run=True),
        Changeable("priority", "priority", When.ALIVE),
        Changeable("deadline", "deadline", When.ALIVE, in_run=True),
        Changeable("max_running", "max_running", When.ALIVE),
        Changeable("retries", "retries", When.ALIVE),
        Changeable("backoff", "backoff", When.ALIVE),
        Changeable("group", "group", When.WAITING, in_run=True),
        Changeable("resource", "request", When.WAITING, in_run=True),
        Changeable("requirement", "requirement", When.WAITING),
        Changeable("rank", "rank", When.WAITING),
        Changeable("max_per_node", "max_per_node", When.WAITING),
        Changeable("max_per_rack", "max_per_rack", When.WAITING),
        Changeable("licences", "licences", When.WAITING),
        Changeable("tolerates", "tolerates", When.WAITING),
        Changeable("labels", "labels", When.WAITING, in_run=True),
    )
}


def keys_in(when: When) -> list[str]:
    """Return the keys that may be changed then."""
    return [row.key for row in CHANGEABLE.values() if row.when is when]


def with_values(job: Job, values: Job, keys: tuple[str, ...]) -> Job:
    """Return the job with the values that another description has for these keys."""
    rows = [CHANGEABLE[key] for key in keys]
    fields = {row.field: getattr(values, row.field) for row in rows}
    if "deadline" in fields:
        fields["within"] = values.within
    return msgspec.structs.replace(job, **fields)
