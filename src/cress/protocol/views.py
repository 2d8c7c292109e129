"""Views of the API, as JSON: the center writes them, the client reads them.

Times are seconds since the epoch (``None``: not yet), durations seconds, resources a mapping of dimension to text
(``{"cpu": "2", "memory": "4G"}``).
"""

from __future__ import annotations

from typing import Any

import msgspec

from cress.protocol.familyviews import CronView, DagView, ServiceView

Resources = dict[str, str]
# What an attribute of a node may be.
Value = bool | int | float | str


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the API shows."""


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


class NodeTask(View, frozen=True):
    """A task that runs on a node, or is about to (``started`` is ``None``)."""

    job: int
    task: int
    attempt: int
    name: str = ""
    started: float | None = None
    ports: dict[str, int] = {}
    devices: tuple[HeldDevice, ...] = ()


class DeviceUser(View, frozen=True):
    """A task that has a device, or a part of it: ``amount`` as in ``HeldDevice``."""

    job: int
    task: int
    attempt: int
    amount: int


class DeviceView(View, frozen=True):
    """A device of a node: ``state`` is free, shared or used; of a disk that one task has for itself, exclusive.

    ``free`` thousandths of it no task has; of a disk, which counts otherwise, ``bandwidth`` by dimension is what it
    can, and ``idle`` what nobody was promised. ``tasks`` are those that have it, the first 1,000 of ``users``.
    """

    kind: str
    id: str
    state: str
    model: str = ""
    path: str = ""
    free: int = 0
    bandwidth: Resources = {}
    idle: Resources = {}
    users: int = 0
    tasks: tuple[DeviceUser, ...] = ()


class LoadView(View, frozen=True):
    """The measured load of a node, smoothed: shares of its capacity, from 0 to 1, and ``free_memory`` in bytes.

    ``disk`` is the time that its disks were busy, ``network`` what is sent.
    """

    cpu: float
    memory: float
    network: float
    disk: float
    free_memory: int


class MatchView(View, frozen=True):
    """The match of a node with a requirement and a rank.

    ``clause`` is the first that it does not satisfy, or says that the node is away; ``undefined``: because it has no
    such attribute, or none that can be compared so. ``has`` are the attributes that it asks for, as the node has them.
    ``score`` is the value of the rank, and ``rank`` how it is worked out there.
    """

    satisfied: bool
    clause: str = ""
    undefined: bool = False
    has: dict[str, Value | None] = {}
    score: float = 0.0
    rank: str = ""


class NodeSettingsView(View, frozen=True):
    """Settings of a node from the center, over what its executor reports: since when, by which user and action.

    ``labels`` are added to its attributes, ``reserve`` is kept back from its capacity; ``rack``, ``judged``,
    ``accepts`` and ``repels`` are null where the executor's hold. Revision 0 is a node of which nothing was ever set.
    """

    revision: int = 0
    at: float | None = None
    by: str = ""
    what: str = ""
    labels: dict[str, Value] = {}
    rack: str | None = None
    reserve: Resources = {}
    judged: bool | None = None
    note: str = ""
    accepts: str | None = None
    repels: tuple[str, ...] | None = None


class NodeReportView(View, frozen=True):
    """Report of the executor about what can be set of its node; of the attributes those that a label of the center
    replaces.
    """

    attributes: dict[str, Value] = {}
    rack: str = ""
    judged: bool = True
    capacity: Resources = {}
    accepts: str = ""
    repels: tuple[str, ...] = ()


class NodeSettingsPage(View, frozen=True):
    """The settings of a node, what its executor reports, and the revisions that are kept, newest first."""

    node: str
    settings: NodeSettingsView
    reported: NodeReportView
    revisions: tuple[NodeSettingsView, ...] = ()


class NodeView(View, frozen=True):
    """A node: ``state`` is up, overloaded, cordoned or away.

    ``address`` is where its tasks are reached. ``match`` is there when the nodes were asked for ``where`` or ``rank``.
    ``load`` is there while it is measured; a node that is not ``judged`` gets new tasks whatever its load is.
    What runs there is told of a single node: ``tasks`` (the first 1,000), and ``ports_seen``, on which somebody listens
    who is not a task; its ``devices`` one by one; ``disks_free`` of ``disks`` belong to no task; ``data`` are the paths
    that it has. ``unlimited`` are sentences about limits that do not hold there.
    ``drained_at`` is when what still runs there is stopped, because an operator drains it.
    ``settings`` are there if something of it is set in the center, and ``reported`` says what its executor reports
    instead.
    """

    name: str
    state: str
    rack: str = ""
    reason: str = ""
    capacity: Resources = {}
    used: Resources = {}
    running: int = 0
    address: str = ""
    attributes: dict[str, Value] = {}
    match: MatchView | None = None
    tasks: tuple[NodeTask, ...] = ()
    ports_seen: tuple[int, ...] = ()
    disks: int = 0
    disks_free: int = 0
    unlimited: tuple[str, ...] = ()
    load: LoadView | None = None
    judged: bool = True
    drained_at: float | None = None
    settings: NodeSettingsView | None = None
    reported: NodeReportView | None = None
    devices: tuple[DeviceView, ...] = ()
    data: tuple[str, ...] = ()
    # Raw amounts by dimension, for programs that draw.
    capacity_amounts: dict[str, int] = {}
    used_amounts: dict[str, int] = {}
    accepts: str = ""
    repels: tuple[str, ...] = ()


class KindView(View, frozen=True):
    """The share of a group in a dimension on nodes of one kind, such as ``gpu(A100)``, and its quota and ``MaxQuota``
    of that, if it has one.
    """

    used: str
    quota: str = "0"
    max_quota: str = ""


class GroupView(View, frozen=True):
    """A group: ``quota`` is that of now and ``ratio`` used / quota, ``priority`` the number that the source paper
    shows.

    ``timetable`` is the text of all quotas if they change with time; ``quota`` holds until the moment ``until``.
    ``parent`` is the group that it is in; one with groups in it (``inner``) has what these have, and no policy.
    ``max_quota`` and ``lendable`` are its bounds. Of its quota it has the ``share_of_parent`` and the
    ``share_of_cluster`` (0 … 1), ``borrowed`` is what it uses beyond it, ``lends`` what others may use of it at the
    moment. ``kinds`` are the kinds of nodes that some quota names and that it has or is guaranteed any of.
    ``timetable`` is the text of all quotas if they change with time; ``quota`` holds until the moment ``until``.
    ``limits`` are the keywords of its limits with their values as in ``Group.conf``; ``jobs`` wait or run,
    ``running_jobs`` of them run. One that is ``closed`` takes no new jobs, since the moment ``closed_since``.
    """

    name: str
    quota: str
    used: str
    ratio: float
    policy: str
    weight: int
    users: tuple[str, ...]
    running: int
    waiting: int
    priority: str = ""
    cooling: bool = False
    timetable: str = ""
    until: float | None = None
    jobs: int = 0
    running_jobs: int = 0
    limits: dict[str, str] = {}
    closed: bool = False
    closed_since: float | None = None
    admins: tuple[str, ...] = ()
    preempt_priority: int = 0
    parent: str = ""
    inner: bool = False
    max_quota: str = ""
    lendable: str = ""
    share_of_parent: float | None = None
    share_of_cluster: float | None = None
    borrowed: str = ""
    lends: str = ""
    kinds: dict[str, KindView] = {}


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


class NodesPage(View, frozen=True):
    """Nodes, in the order in which they registered. ``next`` is what to pass on as ``after``; ``None``: the end.

    ``notes`` say what ``where`` and ``rank`` speak of and is not there.
    """

    nodes: tuple[NodeView, ...]
    next: str | None = None
    notes: tuple[str, ...] = ()


class PlaceView(View, frozen=True):
    """The place of a running task: the name of its node, its rack and address, its ports by name.

    ``disk`` is the path of the disk that it has, for itself or with others (its id, where that has no path; several are
    separated by ``:``), ``devices`` all that it has. ``dns`` is its name in the DNS, where the center answers there.
    """

    job: int
    name: str
    group: str
    task: int
    attempt: int
    node: str
    rack: str
    address: str
    ports: dict[str, int]
    since: float
    disk: str = ""
    devices: tuple[HeldDevice, ...] = ()
    dns: str = ""


class PlacesPage(View, frozen=True):
    """The running tasks of all jobs of a name, by job and task; a watch goes on behind ``revision``."""

    places: tuple[PlaceView, ...]
    revision: str = ""


class PlacesChange(View, frozen=True):
    """A change of the places of a name: the tasks that run now, and the attempts that are ``gone``.

    One that has them ``all`` replaces what was known before. ``revision`` is where the next watch goes on.
    """

    places: tuple[PlaceView, ...] = ()
    gone: tuple[int, ...] = ()
    all: bool = False
    revision: str = ""


class GroupsPage(View, frozen=True):
    """Groups by name; ``text`` is the whole as a file that can be applied again, ``zone`` the time zone of
    timetables.
    """

    groups: tuple[GroupView, ...]
    text: str = ""
    zone: str = ""


class Applied(View, frozen=True):
    """The changes by a file of groups: ``diff`` for a person, ``changes`` is their number."""

    diff: str
    changes: int
    notes: tuple[str, ...] = ()


class DelayView(View, frozen=True):
    """A time for which the center answered nobody: when it ended (seconds since the epoch), its length, what ran."""

    at: float
    length: float
    what: str


class StateView(View, frozen=True):
    """The cluster in a few numbers; a service, database, cron job or dag is one job. ``capacity`` and ``used`` sum up
    the nodes that are up.

    ``delay`` is the longest time of the last hour, if above 50 ms, for which the center answered nobody.
    """

    version: str
    epoch: int
    started: float
    now: float
    nodes: int
    nodes_up: int
    jobs_waiting: int
    jobs_running: int
    tasks_waiting: int
    tasks_running: int
    capacity: Resources = {}
    used: Resources = {}
    problem: str = ""
    delay: DelayView | None = None


class EventView(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Something that happened, as ``GET /v1/events`` tells it. ``kind`` is one of the words in docs/api.md.

    ``number`` counts all events of the cluster; ``at`` is when, in seconds since the epoch. What does not go with the
    kind is left out: ``state`` is how a task or job ended, ``code`` the exit code, ``text`` a reason or an error. A
    ``gap`` says that events up to ``number`` are not kept any more.
    """

    number: int = 0
    at: float = 0.0
    kind: str = ""
    job: int | None = None
    task: int | None = None
    attempt: int | None = None
    node: str = ""
    group: str = ""
    name: str = ""
    user: str = ""
    state: str = ""
    code: int | None = None
    text: str = ""


class UsageView(View, frozen=True):
    """The usage of a group in one span of time that begins at ``start`` (seconds since the epoch).

    ``core_seconds`` and ``byte_seconds`` are what its attempts held (their request × the time from placing to end),
    ``cpu_seconds`` what they are measured to have computed; ``attempts`` ended in the span, ``succeeded`` of them well;
    ``failed`` of them failed, the others were cancelled, preempted, or lost and run again. Of the jobs with deadlines
    that ended in the span ``met`` did so with success and in time, ``missed`` did not; those that were cancelled in
    time are neither.
    """

    group: str
    start: float
    core_seconds: float = 0.0
    byte_seconds: float = 0.0
    cpu_seconds: float = 0.0
    attempts: int = 0
    succeeded: int = 0
    failed: int = 0
    met: int = 0
    missed: int = 0


class UsagePage(View, frozen=True):
    """Usage by time, then group. ``span`` is the length of one span in seconds; ``next`` goes on as ``since``."""

    usage: tuple[UsageView, ...]
    span: float
    next: float | None = None


class Fault(View, frozen=True):
    """One mistake: what, where, what would be right."""

    what: str
    hint: str = ""
    field: str = ""
    file: str = ""
    line: int = 0


class ErrorView(View, frozen=True):
    """The body of every answer that is an error. ``code`` is for programs, ``message`` for people."""

    code: str
    message: str
    faults: tuple[Fault, ...] = ()


def to_json(view: Any) -> bytes:
    """A view as JSON."""
    return msgspec.json.encode(view)
