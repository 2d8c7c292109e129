"""Jobs: units of submission, each in exactly one group."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from cress.model.family import FamilySpec
from cress.model.parts import part_of
from cress.model.resources import ResourceVector
from cress.model.times import SECOND

# The type of jobs that are leases, in words.
LEASE = "lease"
# The time between SIGTERM and SIGKILL of a task whose job does not say it; here and nowhere else.
DEFAULT_STOP_GRACE = 5 * SECOND


class JobType(Enum):
    """The type of a job; all but batch are families."""

    BATCH = "batch"
    CRON = "cron"
    DAG = "dag"
    SERVICE = "service"
    DATABASE = "database"


class OnPartition(Enum):
    """The rule for tasks of a node that cannot reach the center for longer than its term."""

    STOP = "stop"  # its node stops it, the center runs it elsewhere
    KEEP = "keep"  # it goes on; nothing replaces it until its node is back, or known to be dead


class Condition(Enum):
    """The condition on the end of a job that another one depends on."""

    OK = "ok"  # every task succeeded
    ANY = "any"  # it is over
    FAILED = "failed"  # a task failed; a job that was cancelled did not fail


class JobPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a gang: ``tasks`` of its tasks in a row, what each of them asks for, and its own requirement and
    rank.
    """

    name: str
    tasks: int
    request: ResourceVector
    requirement: str = ""
    rank: str = ""


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job as the center sees it.

    ``id`` is unique for ever and increases with submission; ``request`` is what one task needs; a ``gang``
    (IssueAsWhole) starts all its tasks at once or none; a higher ``priority`` goes first; ``time_limit`` is
    in microseconds, ``None`` means no known end. ``minimum`` tasks of a service are never preempted.

    A task that is told to stop has ``stop_grace`` microseconds to end by itself; when it is preempted, at most the
    ``grace`` of its group.

    A failed task is tried again ``retries`` times, ``backoff`` microseconds after its end, doubled each time. With
    ``hold`` the job waits until it is released. ``after`` are the jobs that must end first, and how; in a submit,
    ``-n`` is its nth job, from 1.

    ``requirement`` and ``rank`` are texts of the constraint language (design note 0005); the placement attributes of
    source E (``NetworkAdjacent = True`` …) are clauses of the requirement. ``ports`` are names and numbers, 0 for a
    dynamic one. At most ``max_per_node`` and ``max_per_rack`` tasks run together (0: any number). Jobs of one
    ``application`` and group count as one to ``NetworkAdjacent``. ``job_failure``: a task that was lost with its node
    runs again. At most ``max_running`` tasks run at once (0: any number); not of a gang. ``licences`` are names, each
    once in their order, and how many of each a task takes.

    A job with a ``plan`` is a family and never reaches the scheduler; ``family`` is the id of the one that a job is a
    member of (in a submit: ``-n`` as in ``after``), 0: none. Members of a service or database count as one job where
    tasks of a job are counted: ``max_per_node``, ``max_per_rack``, ``minimum``; and they go to different nodes as far
    as there are.

    ``deadline`` is the moment (µs since the epoch, UTC) at which all its tasks should have ended; while it is not
    submitted, it may be ``within`` so many microseconds of its submission instead. 0: none.

    ``workload`` is the name of the framework or application in its group whose leases its tasks use; "": the built-in
    one of its type. Each task of a job that ``is_lease`` is a lease of its workload, which it keeps until it ends; it
    is not preempted in its first ``min_time`` microseconds. At first its holder uses ``uses`` of each by itself
    (``None``: all of it); unless it is heard of every ``term`` microseconds, all of them end (0: they do not).

    ``labels`` are names and texts, by which clauses of other jobs select it.

    ``tolerates`` are the names that nodes may repel by without keeping it off.

    ``movable``: its tasks may be stopped and begin anew on another node (design note 0027); ``None``: only those of a
    service.

    A gang may have ``parts`` (design note 0035), whose tasks are numbered one part after the other; ``request`` is then
    the least of each amount that any of them asks for, and their requirements and ranks hold in place of the job's.
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
    on_partition: OnPartition = OnPartition.STOP
    retries: int = 0
    backoff: int = 10 * SECOND
    hold: bool = False
    stop_grace: int = DEFAULT_STOP_GRACE
    after: tuple[tuple[int, Condition], ...] = ()
    requirement: str = ""
    rank: str = ""
    ports: tuple[tuple[str, int], ...] = ()
    max_per_node: int = 0
    max_per_rack: int = 0
    application: str = ""
    job_failure: bool = True
    max_running: int = 0
    plan: FamilySpec | None = None
    family: int = 0
    licences: tuple[tuple[str, int], ...] = ()
    deadline: int = 0
    within: int = 0
    workload: str = ""
    is_lease: bool = False
    min_time: int = 0
    uses: ResourceVector | None = None
    term: int = 0
    movable: bool | None = None
    tolerates: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    parts: tuple[JobPart, ...] = ()

    def request_of(self, task: int) -> ResourceVector:
        """Return what a task asks for."""
        found = part_of(self.parts, task)
        return self.request if found is None else found[0].request

    @property
    def requests(self) -> tuple[tuple[ResourceVector, int], ...]:
        """The requests of its tasks, and how many ask for each: one pair for each part."""
        if not self.parts:
            return ((self.request, self.tasks),)
        return tuple((part.request, part.tasks) for part in self.parts)

    def total(self, dimension: int) -> int:
        """Return what all its tasks ask for together in one dimension."""
        return sum(request[dimension] * tasks for request, tasks in self.requests)

    @property
    def mean_request(self) -> ResourceVector:
        """Return what one of its tasks asks for; of a gang with parts the mean, so that it is right for all of them
        together.
        """
        return self.request if not self.parts else tuple(self.total(k) // self.tasks for k in range(len(self.request)))

    @property
    def kind(self) -> str:
        """Return its type in words: that of its tasks, or ``lease``."""
        return LEASE if self.is_lease else self.type.value

    @property
    def counted_as(self) -> int:
        """Return the id under which its tasks are counted: that of its service or database, else its own."""
        return self.family if self.family > 0 and self.type in (JobType.SERVICE, JobType.DATABASE) else self.id


def least_request(parts: Iterable[JobPart]) -> ResourceVector:
    """Return the least of each amount that any of these parts asks for."""
    return tuple(map(min, zip(*(part.request for part in parts), strict=True)))
