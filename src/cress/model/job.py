"""Jobs: the objects that users submit, each to exactly one group."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from cress.model.family import FamilySpec
from cress.model.parts import part_of
from cress.model.resources import ResourceVector
from cress.model.times import SECOND
from cress.model.waits import WaitFor

# The word for jobs whose tasks are leases.
LEASE = "lease"
# The default time between SIGTERM and SIGKILL of a task; defined here and nowhere else.
DEFAULT_STOP_GRACE = 5 * SECOND


class JobType(Enum):
    """The type of a job; all types except batch are families."""

    BATCH = "batch"
    CRON = "cron"
    DAG = "dag"
    SERVICE = "service"
    DATABASE = "database"


# The types whose tasks do not end by themselves: one that ends is started again.
KEPT_RUNNING = (JobType.SERVICE, JobType.DATABASE)


class OnPartition(Enum):
    """The rule for tasks of a node that is cut off from the center for longer than its term."""

    STOP = "stop"  # the node stops it, the center runs it elsewhere
    KEEP = "keep"  # it goes on; it is replaced only when its node is back or known to be dead


class Condition(Enum):
    """The condition of a dependency on the end of another job."""

    OK = "ok"  # every task succeeded
    ANY = "any"  # it has ended
    FAILED = "failed"  # a task failed; a cancelled job did not fail
    TASKS = "tasks"  # each task starts when the task of the same number has succeeded (design note 0104)


class JobPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a gang: ``tasks`` consecutive tasks, the request of each, and the part's requirement and rank."""

    name: str
    tasks: int
    request: ResourceVector
    requirement: str = ""
    rank: str = ""


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job as the scheduler sees it.

    ``id`` is never used twice and increases with submission; ``request`` is the request of one task. A ``gang``
    (IssueAsWhole) starts all its tasks at once or none. A higher ``priority`` goes first. ``time_limit`` is in µs;
    ``None``: no known end. ``minimum`` tasks of a service are never preempted.

    A task that is told to stop has ``stop_grace`` µs to end by itself; in a preemption, at most the ``grace`` of its
    group.

    A failed task is retried up to ``retries`` times, ``backoff`` µs after its end, doubled each time. With ``hold`` the
    job waits until it is released. ``after`` are the jobs that must end first, with the condition; in a submit, ``-n``
    is its nth job, from 1. ``when`` is the condition of a step of a dag (``step_condition``); if it does not hold once
    these have ended, the step is left out. Empty: none. ``steps``, in a cron job whose runs are dags, are those of each
    run; their ``after`` and ``family`` count the dag as the first job of a submit. ``wait_for`` are the things outside
    of the cluster that must be there before a task starts.

    ``requirement`` and ``rank`` are texts of the constraint language (design note 0005); the placement attributes of
    source E (``NetworkAdjacent = True`` …) are clauses of the requirement. ``ports`` are names and numbers, 0 for a
    dynamic one. At most ``max_per_node`` and ``max_per_rack`` tasks run together (0: any number). ``NetworkAdjacent``
    treats jobs of one ``application`` and group as one. ``job_failure``: a task that was lost with its node runs again.
    At most ``max_running`` tasks run at once (0: any number); it is not for gangs. ``licences`` are names, each once
    and in order, with the number that a task takes.

    A job with a ``plan`` is a family and never reaches the scheduler. ``family`` is the id of the family of a member
    (in a submit: ``-n`` as in ``after``), 0: none. Members of a service or database count as one job where tasks of a
    job are counted (``max_per_node``, ``max_per_rack``, ``minimum``), and go to different nodes if possible. Members
    with the same ``starts_with`` (the id of one of them) start together for the first time (design note 0060); 0: each
    by itself.

    ``deadline`` is the moment (µs since the epoch, UTC) by which all tasks should have ended; 0: none. Before
    submission it may be given as ``within`` µs after the submission instead.

    ``workload`` is the name of the framework or application in its group whose leases its tasks use; "": the built-in
    workload of its type. Each task of a job that ``is_lease`` is a lease of its workload, kept until the task ends, and
    not preempted in its first ``min_time`` µs. At first its holder uses ``uses`` of each lease itself (``None``: all of
    it). All its leases end unless the holder renews them every ``term`` µs (0: no term). A job that was submitted
    ``inside`` a lease, named by job and task, ends with that lease.

    ``labels`` are names and texts by which clauses of other jobs select the job.

    ``tolerates`` are the names in ``Node.repels`` that do not keep the job off a node.

    ``movable``: its tasks may be stopped and begin anew on another node (design note 0027); ``None``: only those of a
    service.

    A gang may have ``parts`` (design note 0035), whose tasks are numbered part by part. ``request`` is then the
    smallest of each amount over the parts, and the requirements and ranks of the parts apply in place of the job's.
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
    starts_with: int = 0
    licences: tuple[tuple[str, int], ...] = ()
    deadline: int = 0
    within: int = 0
    workload: str = ""
    is_lease: bool = False
    min_time: int = 0
    uses: ResourceVector | None = None
    term: int = 0
    inside: tuple[int, int] | None = None
    movable: bool | None = None
    tolerates: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    parts: tuple[JobPart, ...] = ()
    when: str = ""
    steps: tuple[Job, ...] = ()
    wait_for: tuple[WaitFor, ...] = ()

    def request_of(self, task: int) -> ResourceVector:
        """Return the request of a task."""
        if not self.parts:
            return self.request
        found = part_of(self.parts, task)
        return self.request if found is None else found[0].request

    @property
    def requests(self) -> tuple[tuple[ResourceVector, int], ...]:
        """The requests of its tasks with the number of tasks of each: one pair for each part."""
        if not self.parts:
            return ((self.request, self.tasks),)
        return tuple((part.request, part.tasks) for part in self.parts)

    def total(self, dimension: int) -> int:
        """Return the total request of all its tasks in one dimension."""
        return sum(request[dimension] * tasks for request, tasks in self.requests)

    @property
    def mean_request(self) -> ResourceVector:
        """Return the request of one task; for a gang with parts the mean, so that the total over all tasks is right."""
        return self.request if not self.parts else tuple(self.total(k) // self.tasks for k in range(len(self.request)))

    @property
    def kind(self) -> str:
        """The type of the job in words: that of its tasks, or ``lease``."""
        return LEASE if self.is_lease else self.type.value

    @property
    def counted_as(self) -> int:
        """The id under which its tasks are counted: that of its service or database, else its own."""
        return self.family if self.family > 0 and self.type in KEPT_RUNNING else self.id


def least_request(parts: Iterable[JobPart]) -> ResourceVector:
    """Return the smallest of each amount over the requests of these parts."""
    return tuple(map(min, zip(*(part.request for part in parts), strict=True)))
