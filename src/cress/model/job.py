"""Jobs: what a user submits, to exactly one group."""

from __future__ import annotations

from enum import Enum

import msgspec

from cress.model.resources import ResourceVector


class JobType(Enum):
    """What kind of work a job is; only batch jobs are scheduled without further rules so far."""

    BATCH = "batch"
    CRON = "cron"
    DAG = "dag"
    SERVICE = "service"
    DATABASE = "database"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job as the core sees it.

    ``id`` is unique for ever and increases with submission; ``request`` is what one task needs; a ``gang``
    (IssueAsWhole) starts all its tasks at once or none; a higher ``priority`` goes first; ``time_limit`` is
    in microseconds, ``None`` means no known end. ``minimum`` tasks of a service are never preempted.
    """

    id: int
    group: str
    request: ResourceVector
    name: str = ""
    user: str = ""
    tasks: int = 1
    gang: bool = False
    priority: int = 0
    time_limit: int | None = None
    type: JobType = JobType.BATCH
    minimum: int = 0
