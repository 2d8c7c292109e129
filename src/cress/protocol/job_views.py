"""Jobs and their tasks in the API; a family has fields of its own."""

from __future__ import annotations

from typing import Any

from cress.model.explanation import ClauseEffect, Finding, NearNode, NodeScore, Remedy
from cress.protocol.views import Resources, View


class TaskCounts(View, frozen=True):
    """Tasks of a job by state; they add up to ``total``. ``failed`` counts all kinds of failure, time-outs too."""

    total: int
    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


class EstimateView(View, frozen=True):
    """A forecast of a task's run time in seconds: a tenth runs shorter than ``optimistic``, a tenth longer than
    ``pessimistic``.

    Half of them run longer than ``median``, which predicts the end of a task.
    """

    optimistic: float
    median: float
    mean: float
    pessimistic: float


class DeadlineView(View, frozen=True):
    """The deadline of a job ``at`` a moment (seconds since the epoch), and its forecast.

    ``forecast`` is ``fine``, ``at_risk``, ``cannot_be_met`` or ``unknown`` (the job waits for others, or its length is
    unknown). For an ended job it is ``met``, ``missed``, or ``cancelled`` if it was cancelled in time. ``chance`` is
    the share of outcomes in time; ``earliest_end`` is the end by the optimistic estimates. ``slack`` is the time left
    beyond the average time that the job needs, in seconds, negative if there is too little. If the length is unknown,
    it is the time until the deadline. ``urgency`` is from 0 to 1.
    """

    at: float
    forecast: str
    slack: float
    urgency: float = 0.0
    chance: float | None = None
    earliest_end: float | None = None


class PartView(View, frozen=True):
    """A part of a gang: the number of its consecutive tasks, and the program and request of each."""

    name: str
    tasks: int
    resource: Resources = {}
    command: tuple[str, ...] = ()
    requirement: str = ""
    rank: str = ""


class KeyChange(View, frozen=True):
    """A key of a job file with the value of the running job and that of the file, as written; ``None``: not given."""

    key: str
    before: str | None
    after: str | None


class ServiceView(View, frozen=True):
    """A live service or database.

    ``ready`` of ``wanted`` tasks are ready; ``version`` counts its versions from 1, and ``updated`` tasks belong to the
    present one. During an update ``updating`` is set, and ``waits`` says what it waits for. ``returned`` says that a
    version was rolled back because of ``returned_because``: version ``returned_version``, whose member ``returned_job``
    (a job with a log) never became ready. At ``next`` the timetable, in the time zone ``zone``, sets the task count to
    ``next_tasks``. ``failing`` is the reason for which the version would be rolled back if there were an earlier one;
    instead its task is tried again, and has failed ``failures`` times in a row.
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


class VersionView(View, frozen=True):
    """A version of a service or database: its number, since ``at`` by the user ``by`` (empty: by a rollback).

    ``now``: it is the newest one; ``good``: the last one that was ready as a whole. ``command`` is that of its tasks,
    ``changes`` are the keys in which it differs from the version before.
    """

    version: int
    at: float
    by: str = ""
    now: bool = False
    good: bool = False
    command: tuple[str, ...] = ()
    changes: tuple[KeyChange, ...] = ()


class VersionsPage(View, frozen=True):
    """The last versions of a service or database, the newest first."""

    versions: tuple[VersionView, ...]


class CronView(View, frozen=True):
    """A live cron job: its ``next`` moments (three at most), and its ``last`` run, the job ``last_job``.

    It counts ``runs`` made, moments ``skipped`` because a run had not ended, and moments ``missed``.
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
    """A step of a dag: the job ``id``; ``after`` are the steps that must end first, with their conditions."""

    name: str
    id: int
    state: str
    after: dict[str, str] = {}
    reason: str = ""


class DagView(View, frozen=True):
    """A dag; only a single job shows its steps. ``resumed`` is the earlier dag whose successful steps are left out."""

    steps: tuple[StepView, ...] = ()
    resumed: int | None = None


class JobView(View, frozen=True):
    """A job. ``reason`` says why it waits (empty if no part of it does), or why an ended job did not succeed.

    ``state`` is waiting, running, succeeded, failed, timed out, out of memory, lost or cancelled.

    ``held`` says that it waits to be released. ``after`` are the jobs that must end first, with their conditions (as in
    a job file), while it is alive. ``image`` is that of its containers; empty without one. ``ports`` are by name, as
    in a job file. ``requirement`` and ``rank`` are as submitted. While it is alive, ``requirement_now`` and
    ``rank_now`` apply to its next task, and include the demands of its other fields on a node; ``relaxes`` is when a
    clause moves from the first to the second. ``estimate`` is the expected run time of a task, for a live job in a
    group that plans with estimates. ``expected_start`` is that of its next task, while one waits; eight of ten jobs
    start between its bounds. ``within`` is the deadline of each run of a cron job, in seconds from its start.

    ``parts`` are those of a gang, in the order of their tasks; its ``resource`` is then the mean of its tasks'
    requests.

    ``values`` are those that its task 0 has handed on in ``$CRESS_OUTPUT``. ``family`` is the job of which it is the
    member number ``index``. A live service or database has ``service``, a live cron job ``cron``. A dag
    has ``dag``, also after its end, and its ``tasks`` count steps. ``reason_kind`` is the kind of the reason while a
    task waits: the anchor of its row in docs/waiting.md.
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
    image: str = ""
    environment: dict[str, str] = {}
    secrets: dict[str, str | dict[str, str]] = {}
    directory: str = ""
    requirement: str = ""
    rank: str = ""
    requirement_now: str = ""
    rank_now: str = ""
    relaxes: float | None = None
    estimate: EstimateView | None = None
    expected_start: ExpectedStartView | None = None
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
    values: dict[str, str] = {}
    family: int | None = None
    index: int | None = None
    service: ServiceView | None = None
    cron: CronView | None = None
    dag: DagView | None = None
    reason_kind: str = ""


class HeldDevice(View, frozen=True):
    """A device that a task has or had: ``amount`` in thousandths; a disk has 1000 (exclusive) or 0 (shared)."""

    kind: str
    id: str
    amount: int


class AttemptView(View, frozen=True):
    """An attempt: ``outcome`` is ``running`` until it ends. ``code``: exit code, -n after signal n, or unknown.

    ``error`` explains the end if the code does not: time limit, memory, or the job for which it was preempted.

    ``ports`` are its port numbers by name, ``devices`` its devices of the node. While it runs, ``inside`` are the
    leases of its workload in which it runs, ``borrows`` the amounts that it has of other leases, and ``lenders`` these
    leases, with their names in the API. ``chosen`` says why its node was chosen: by the order ``fragmentation``, or for
    room kept for it.
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
    """A task: ``state`` is that of a job, or starting; attempts are oldest first.

    In a gang with parts, ``part`` is the name of its part, and ``part_index`` its number there. In a service or
    database, ``job`` is its present member, and ``ready`` whether it is ready; if it is not, ``why`` says the reason.
    If the job has a list of indices, ``listed`` is the one that the task got.
    """

    index: int
    state: str
    attempts: tuple[AttemptView, ...] = ()
    job: int | None = None
    ready: bool | None = None
    why: str = ""
    part: str = ""
    part_index: int | None = None
    listed: int | None = None


class Submitted(View, frozen=True):
    """An accepted job, with the forecast for its deadline if it has one.

    ``expected_start`` is there if it was asked for and is known at once; it is now for a job that has started.
    """

    id: int
    name: str
    note: str = ""
    deadline: DeadlineView | None = None
    expected_start: ExpectedStartView | None = None


class SubmittedPage(View, frozen=True):
    """Answer to a submit."""

    jobs: tuple[Submitted, ...]


class JobFileView(View, frozen=True):
    """The ``job`` file of a job as it was submitted or last changed; it can be submitted again."""

    job: dict[str, Any]


class CancelledJob(View, frozen=True):
    """A job after a cancel; ``was_over`` says that it had already ended and is unchanged."""

    id: int
    name: str
    state: str
    was_over: bool


class CancelledJobs(View, frozen=True):
    """Answer to a cancel of several jobs, in the order of the ids without repetitions."""

    jobs: tuple[CancelledJob, ...]


class HeldJobs(View, frozen=True):
    """Answer to a hold or release of several jobs, in the order of the ids without repetitions."""

    jobs: tuple[JobView, ...]


class AppliedJob(View, frozen=True):
    """The result for one job of a file: ``created``, ``updated``, ``scaled`` or ``unchanged``. ``id`` is 0 in a dry
    run.

    ``version`` is the version of a service or database that matches the file; ``None`` for other jobs and in a dry run.
    ``updating`` says that some of its tasks are not yet of this version and ready. ``changes`` are the keys in which an
    updated or scaled job differs from the file.
    """

    id: int
    name: str
    what: str
    note: str = ""
    version: int | None = None
    updating: bool = False
    changes: tuple[KeyChange, ...] = ()


class AppliedJobs(View, frozen=True):
    """Answer to an apply, in the order of the jobs in it."""

    jobs: tuple[AppliedJob, ...]


class JobsPage(View, frozen=True):
    """Jobs, newest first. ``next`` is ``before`` of the following page; ``None``: the end.

    ``problem`` says why older jobs may be missing.
    """

    jobs: tuple[JobView, ...]
    next: int | None = None
    problem: str = ""


class TasksPage(View, frozen=True):
    """Tasks by index. ``next`` is ``after`` of the following page; ``None``: the end."""

    tasks: tuple[TaskView, ...]
    next: int | None = None


class ExpectedStartView(View, frozen=True):
    """The expected start of a waiting job, in seconds since the epoch; ``None``: not known.

    ``because`` is the job whose end is expected to let it start. ``behind`` other waiting jobs are expected to start
    before it, most of them of the group ``ahead``.
    """

    earliest: float | None = None
    likely: float | None = None
    latest: float | None = None
    because: int | None = None
    behind: int = 0
    ahead: str = ""


class EndedView(View, frozen=True):
    """An attempt that ended before its task was done: ``outcome`` and end (``at``, seconds since the epoch), after
    ``ran`` seconds, for which reason (``why``), and for a preemption by which ``rule``, with the numbers of that moment
    (empty if an older release preempted it).
    """

    task: int
    attempt: int
    node: str
    outcome: str
    at: float
    ran: float
    why: str
    rule: str = ""


class ExplanationView(View, frozen=True):
    """Reason, expected start and remedies of a waiting job: a remedy is a single change that lets it start now.

    ``job`` is the job itself, or the member that waits of a service, database, cron job or dag. Without a waiting task
    the ``reason`` is empty. If a task runs, ``chosen`` says why its node was chosen, as far as the decision tells, and
    ``best`` are the best nodes for it now, if it did not run yet. ``ended`` are the latest attempts that were
    preempted, lost or failed, newest first. ``late`` says how late the job is or was. ``kind`` is that of the reason:
    the anchor of its row in docs/waiting.md. ``starting`` says what a node does for a task whose program has not begun.
    """

    job: int
    reason: str
    start: ExpectedStartView = ExpectedStartView()
    clauses: tuple[ClauseEffect, ...] = ()
    nearest: tuple[NearNode, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    chosen: str = ""
    best: tuple[NodeScore, ...] = ()
    ended: tuple[EndedView, ...] = ()
    late: str = ""
    kind: str = ""
    starting: str = ""


class GroupExplanationView(View, frozen=True):
    """Reasons why a group does not get more, the most general first, and what it ``uses`` of its quota."""

    group: str
    uses: str
    reasons: tuple[Finding, ...]


class NodeExplanationView(View, frozen=True):
    """Reasons why a node is empty or not fuller, with the number of its ``tasks`` and what is ``free`` by resource."""

    node: str
    tasks: int
    free: dict[str, str]
    reasons: tuple[Finding, ...]
