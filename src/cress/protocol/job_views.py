"""Jobs and their tasks as the API shows them; families have what they are beside other jobs."""

from __future__ import annotations

from cress.protocol.views import Resources, View


class TaskCounts(View, frozen=True):
    """Tasks of a job by state; they add up to ``total``. ``failed`` are all kinds of failure, time-outs too."""

    total: int
    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


class EstimateView(View, frozen=True):
    """Forecast of how long a task will run, in seconds: a tenth is shorter than ``optimistic``, a tenth longer than
    ``pessimistic``.

    Half of them are longer than ``median``, by which the end of a task is predicted.
    """

    optimistic: float
    median: float
    mean: float
    pessimistic: float


class DeadlineView(View, frozen=True):
    """The deadline of a job ``at`` that moment (seconds since the epoch), and its forecast.

    ``forecast`` is ``fine``, ``at_risk``, ``cannot_be_met`` or ``unknown`` (of a job that waits for others, or of whose
    length nothing is known); of a job that is over ``met`` or ``missed``, ``cancelled`` if it was cancelled before.
    ``chance`` is the share of outcomes that are in time, ``earliest_end`` when it ends by the optimistic estimates.
    ``slack`` is the time that is left beyond what the job takes on average, in seconds, negative if that is missing;
    the time until the deadline if nothing is known of the length. ``urgency`` is 0 to 1.
    """

    at: float
    forecast: str
    slack: float
    urgency: float = 0.0
    chance: float | None = None
    earliest_end: float | None = None


class PartView(View, frozen=True):
    """A part of a gang: so many tasks in a row, and what each of them runs and asks for."""

    name: str
    tasks: int
    resource: Resources = {}
    command: tuple[str, ...] = ()
    requirement: str = ""
    rank: str = ""


class ServiceView(View, frozen=True):
    """A service or database that is alive.

    ``ready`` of ``wanted`` tasks are ready; ``version`` counts its versions from 1, and ``updated`` tasks are of this
    one. ``updating``: an update is under way, ``waits`` for what. ``returned``: a version was taken back, because of
    ``returned_because``: version ``returned_version``, whose member ``returned_job`` (a job with a log) never was
    ready. ``next`` is when the timetable makes the task count another one, ``next_tasks``, which is read in the
    ``zone``. ``failing``: why the version would be rolled back if there was an earlier one; it is tried again and
    again, and its task has failed ``failures`` times in a row.
    """

    wanted: int
    ready: int
    version: int
    updated: int = 0
    updating: bool = False
    waits: str = ""
    returned: bool = False
    returned_because: str = ""
    returned_version: int | None = None
    returned_job: int | None = None
    next: float | None = None
    next_tasks: int | None = None
    zone: str = "UTC"
    failing: str = ""
    failures: int = 0


class CronView(View, frozen=True):
    """A cron job that is alive: its ``next`` moments (three at most), and its ``last`` run, the job ``last_job``.

    Counts: ``runs`` that were made, moments ``skipped`` because a run was not over, moments ``missed``.
    """

    when: str
    zone: str
    overlap: str
    missed_runs: str
    next: tuple[float, ...] = ()
    last: float | None = None
    last_job: int | None = None
    last_state: str = ""
    runs: int = 0
    skipped: int = 0
    missed: int = 0


class StepView(View, frozen=True):
    """A step of a dag: the job ``id``; ``after`` are the steps that must end first, and how."""

    name: str
    id: int
    state: str
    after: dict[str, str] = {}
    reason: str = ""


class DagView(View, frozen=True):
    """A dag. Its steps are told of a single job; ``resumed`` is the dag whose steps that succeeded were left out."""

    steps: tuple[StepView, ...] = ()
    resumed: int | None = None


class JobView(View, frozen=True):
    """A job. ``reason`` says why it waits, empty when nothing of it does; of one that is over, why it did not succeed.

    ``state`` is waiting, running, succeeded, failed, timed out, out of memory, lost or cancelled.

    ``held``: it waits until it is released. ``after``: the jobs that must end first, and how (as in a job
    file), as long as it is alive. ``ports`` by name, as in a job file. ``requirement`` and ``rank`` are as they were
    submitted; ``requirement_now`` and ``rank_now``, of a job that is alive, what its next task is matched by, with all
    that its other fields ask of a node; ``relaxes`` is when a clause turns from one into the other by itself.
    ``estimate`` is how long a task is expected to run, of a job that is alive in a group that plans with estimates.
    ``within`` is the deadline of each run of a cron job, in seconds from its start on.

    ``parts`` are those of a gang that has any, in the order of their tasks; its ``resource`` is then the mean of what
    its tasks ask for.

    ``family`` is the job that it is a member of, as number ``index``. A service or database has ``service``, a cron job
    ``cron``, a dag ``dag`` (its ``tasks`` count steps), as long as they are alive; a dag afterwards too.
    """

    id: int
    name: str
    group: str
    user: str
    type: str
    state: str
    tasks: TaskCounts
    priority: int
    gang: bool
    resource: Resources
    time_limit: float | None
    submitted: float
    started: float | None = None
    ended: float | None = None
    preempted: int = 0
    reason: str = ""
    held: bool = False
    retries: int = 0
    after: dict[str, str] = {}
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    secrets: dict[str, str | dict[str, str]] = {}
    directory: str = ""
    requirement: str = ""
    rank: str = ""
    requirement_now: str = ""
    rank_now: str = ""
    relaxes: float | None = None
    estimate: EstimateView | None = None
    deadline: DeadlineView | None = None
    within: float | None = None
    ports: dict[str, int | str] = {}
    max_running: int = 0
    max_per_node: int = 0
    max_per_rack: int = 0
    licences: dict[str, int] = {}
    labels: dict[str, str] = {}
    application: str = ""
    workload: str = ""
    job_failure: bool = True
    parts: tuple[PartView, ...] = ()
    family: int | None = None
    index: int | None = None
    service: ServiceView | None = None
    cron: CronView | None = None
    dag: DagView | None = None


class HeldDevice(View, frozen=True):
    """A device that a task has, or had: ``amount`` in thousandths; of a disk 1000 for itself, 0 with others."""

    kind: str
    id: str
    amount: int


class AttemptView(View, frozen=True):
    """An attempt: ``outcome`` is ``running`` until it ends. ``code``: exit code, -n after signal n, or unknown.

    ``error`` is why it ended as it did, where the code does not say it: time limit, memory, whom it was preempted for.

    ``ports`` are the numbers that it has, or had, by name, ``devices`` those of its node. While it runs, ``inside`` are
    the leases of its workload in which it runs, ``borrows`` what it has of leases of others, ``lenders`` these leases;
    as the API of leases names them, and ``chosen`` says why its node was chosen: by the order ``fragmentation``, or for
    room that was kept for it.
    """

    id: int
    node: str
    outcome: str
    placed: float
    started: float | None = None
    ended: float | None = None
    code: int | None = None
    error: str = ""
    cpu: float = 0.0
    memory: int = 0
    ports: dict[str, int] = {}
    devices: tuple[HeldDevice, ...] = ()
    inside: tuple[str, ...] = ()
    borrows: Resources = {}
    lenders: tuple[str, ...] = ()
    chosen: str = ""


class TaskView(View, frozen=True):
    """A task: ``state`` is that of a job, or starting; attempts oldest first.

    Of a gang with parts, ``part`` is the name of its part, in which it has the number ``part_index``.
    Of a service or database, ``job`` is the member that it is now, ``ready`` whether it is ready, and if not, ``why``.
    """

    index: int
    state: str
    attempts: tuple[AttemptView, ...] = ()
    job: int | None = None
    ready: bool | None = None
    why: str = ""
    part: str = ""
    part_index: int | None = None


class Submitted(View, frozen=True):
    """A job that was accepted, with the forecast for its deadline if it has one."""

    id: int
    name: str
    note: str = ""
    deadline: DeadlineView | None = None


class SubmittedPage(View, frozen=True):
    """Answer to a submit."""

    jobs: tuple[Submitted, ...]


class CancelledJob(View, frozen=True):
    """A job after a cancel; ``was_over``: it had ended before, and stays as it was."""

    id: int
    name: str
    state: str
    was_over: bool


class CancelledJobs(View, frozen=True):
    """Answer to a cancel of several jobs, in the order of the ids, each once."""

    jobs: tuple[CancelledJob, ...]


class HeldJobs(View, frozen=True):
    """Answer to a hold or release of several jobs, in the order of the ids, each once."""

    jobs: tuple[JobView, ...]


class AppliedJob(View, frozen=True):
    """The result for one job of a file: ``created``, ``updated``, ``scaled`` or ``unchanged``. ``id`` is 0 in a dry
    run.

    ``version``: that of a service or database as the file says; of others, and in a dry run, ``None``. ``updating``:
    not all of its tasks are of this version and ready.
    """

    id: int
    name: str
    what: str
    note: str = ""
    version: int | None = None
    updating: bool = False


class AppliedJobs(View, frozen=True):
    """Answer to an apply, in the order of the jobs in it."""

    jobs: tuple[AppliedJob, ...]


class JobsPage(View, frozen=True):
    """Jobs, newest first. ``next`` is what to pass on as ``before``; ``None``: the end.

    ``problem`` says why older ones, which may be there, are missing.
    """

    jobs: tuple[JobView, ...]
    next: int | None = None
    problem: str = ""


class TasksPage(View, frozen=True):
    """Tasks by index. ``next`` is what to pass on as ``after``; ``None``: the end."""

    tasks: tuple[TaskView, ...]
    next: int | None = None
