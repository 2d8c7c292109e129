"""Rows of unfinished families: services, databases, cron jobs, dags (design note 0006)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cress.lifecycle.tables.tracked import Row
from cress.model.family import Cron, Database, Service
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Condition, Job
from cress.model.records import JobState
from cress.model.step_values import Values

# Most versions of a service or database that are listed, and can come back.
MOST_VERSIONS = 20
# Most runs of a cron job whose moments are known after their end, so that they can be resumed.
MOST_MOMENTS = 100


class Version(msgspec.Struct, frozen=True, array_like=True):
    """One version of a service or database: the id of its run, and the scheduler's part."""

    template: int
    job: Job


class Published(msgspec.Struct, frozen=True, array_like=True):
    """A version in the list of versions: its number, the id of its run, its time (wall clock, µs), and its user."""

    number: int
    template: int
    at: int
    by: str = ""


class ReplicaState(Row, tag="Kept", kw_only=True):
    """The state of a service or database beside its members; the dicts are by index.

    ``good`` is the last version that was ready as a whole; ``failed`` is the template of the last one that was rolled
    back, ``failed_version`` its number, and ``failed_member`` the job that was the evidence against it. ``updating``:
    the newest version was not ready as a whole yet. ``out`` are the indices that an update took out while they had an
    attempt, ``parked`` those that it took while they waited for a node, both until they are ready; ``gained`` are the
    parked ones that are ready now. ``surging`` is the number of tasks beyond the count while an update goes on;
    ``promoted``: an update with canaries may replace all tasks. ``failures`` are counted in a row, ``proven`` is the
    template of the last version that was ready there; ``ends`` describes the last failure of a task. ``moment`` (wall
    clock, µs) is the next one of the timetable; 0: none.

    For a service with ``job_failure: false``: ``lost`` are the tasks that were lost with a node and are not replaced.
    For one that starts as a whole: ``alone`` are the tasks without a member that ran, and start again by themselves.
    For a database: ``ran`` is the template of the last life, ``nodes`` the node where it ran, ``moved`` why it may go
    elsewhere.
    """

    good: Version | None = None
    updating: bool = True
    failed: int = 0
    failed_version: int = 0
    failed_member: int = 0
    out: tuple[int, ...] = ()
    parked: tuple[int, ...] = ()
    gained: tuple[int, ...] = ()
    surging: int = 0
    promoted: bool = False
    failures: dict[int, int] = msgspec.field(default_factory=dict)
    ends: dict[int, str] = msgspec.field(default_factory=dict)
    proven: dict[int, int] = msgspec.field(default_factory=dict)
    moment: int = 0
    ran: dict[int, int] = msgspec.field(default_factory=dict)
    nodes: dict[int, str] = msgspec.field(default_factory=dict)
    moved: dict[int, str] = msgspec.field(default_factory=dict)
    lost: dict[int, str] = msgspec.field(default_factory=dict)
    alone: tuple[int, ...] = ()


class CronState(Row, tag="Clockwork", kw_only=True):
    """The state of a cron job. Its moments are wall clock, in µs; 0: none.

    All moments until ``seen`` are over. ``last`` is the moment of the last run that was made, as job ``last_job``;
    ``owed`` is the last one that was missed during a hold. Counts: ``runs`` that were made; moments ``skipped`` because
    a run was not over, or because of limits of its group (``refused``: the reason of the last one); and ``missed``
    moments. ``moments`` are those of the last runs that are dags, by index: the moment before, and its own.
    """

    seen: int = 0
    next: int = 0
    last: int = 0
    last_job: int = 0
    owed: int = 0
    runs: int = 0
    skipped: int = 0
    missed: int = 0
    refused: str = ""
    moments: dict[int, tuple[int, int]] = msgspec.field(default_factory=dict)


class DagState(Row, tag="Progress", kw_only=True):
    """The state of a dag: the end states of its steps, by index, the steps that were not needed, and the values that
    steps have handed on, by index.
    """

    ended: dict[int, JobState] = msgspec.field(default_factory=dict)
    needless: tuple[int, ...] = ()
    values: dict[int, Values] = msgspec.field(default_factory=dict)


State: TypeAlias = ReplicaState | CronState | DagState


class Family(Row, kw_only=True):
    """A job with a plan, and its unfinished members: the ids of their jobs by index.

    ``job`` is the wanted job, with its id; ``template`` the id of its run, ``version`` the number of its changes, from
    1. Times are wall clock in µs; ``started`` is 0 until some member has run. The counts are of ended members.
    ``unmet`` are the jobs that must end before it begins, with the conditions. ``versions`` are the last ones of a
    service or database, the newest one last. A dag may itself be a member: the run ``index`` of a cron job, made for
    the moments ``scheduled``, as in ``LiveJob``.
    """

    job: Job
    submitted: int
    template: int
    started: int = 0
    version: int = 1
    members: dict[int, int] = msgspec.field(default_factory=dict)
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    cancelling: bool = False
    reason: str = ""
    held: bool = False
    held_by: str = ""
    unmet: tuple[tuple[int, Condition], ...] = ()
    state: State | None = None
    versions: tuple[Published, ...] = ()
    index: int = 0
    scheduled: tuple[int, int] = (0, 0)

    def publish(self, at: int, by: str) -> None:
        """Add the present version to the list of versions, in place of an earlier entry with its number."""
        kept = tuple(entry for entry in self.versions if entry.number < self.version)
        self.versions = (*kept[-MOST_VERSIONS + 1 :], Published(self.version, self.template, at, by))


def needs_name(job: Job) -> bool:
    """Return whether a job is a family with a name, which must be unique in its group."""
    return bool(job.name) and isinstance(job.plan, Service | Database | Cron)


def key_of(job: Job) -> tuple[str, str]:
    """Return the group and the name of a job."""
    return (job.group or DEFAULT_GROUP, job.name)
