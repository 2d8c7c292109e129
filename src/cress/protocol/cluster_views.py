"""Nodes, groups, the configuration, names, events and the state of the cluster in the API."""

from __future__ import annotations

import msgspec

from cress.protocol.job_views import HeldDevice
from cress.protocol.views import Resources, Value, View


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
    """A task that has a device or a part of it; ``amount`` is as in ``HeldDevice``."""

    job: int
    task: int
    attempt: int
    amount: int


class DeviceView(View, frozen=True):
    """A device of a node; ``state`` is free, shared or used, or exclusive for a disk that one task has for itself.

    ``free`` is the unused part in thousandths. A disk has ``bandwidth``, its speeds by dimension, and ``idle``, the
    part that is not allocated. ``tasks`` are the first 1,000 of the ``users`` tasks that have it.
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

    ``disk`` is the share of time in which its disks were busy, ``network`` that of the bytes sent. ``full`` is the used
    part of the disk with the executor's directory, 0 if it is not known.
    """

    cpu: float
    memory: float
    network: float
    disk: float
    free_memory: int
    full: float = 0.0


class MatchView(View, frozen=True):
    """The match of a node with a requirement and a rank.

    ``clause`` is the first one that the node does not satisfy, or says that the node is away. It is ``undefined`` if
    the node lacks the attribute, or has a value that cannot be compared. ``has`` are the node's values of the
    attributes in the clause. ``score`` is the value of the rank, and ``rank`` its computation on the node.
    """

    satisfied: bool
    clause: str = ""
    undefined: bool = False
    has: dict[str, Value | None] = {}
    score: float = 0.0
    rank: str = ""


class NodeSettingsView(View, frozen=True):
    """Settings of a node in the center, on top of the executor's report: time, user and action.

    ``labels`` are added to its attributes, ``reserve`` is subtracted from its capacity; ``rack``, ``judged``,
    ``accepts`` and ``repels`` are null if the executor's values apply. Revision 0 means that nothing was ever set.
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
    """The executor's values for the settings of its node.

    ``attributes`` are those that a label of the center replaces.
    """

    attributes: dict[str, Value] = {}
    rack: str = ""
    judged: bool = True
    capacity: Resources = {}
    accepts: str = ""
    repels: tuple[str, ...] = ()


class NodeSettingsPage(View, frozen=True):
    """The settings of a node, the values that its executor reports, and the stored revisions, newest first."""

    node: str
    settings: NodeSettingsView
    reported: NodeReportView
    revisions: tuple[NodeSettingsView, ...] = ()


class NodeView(View, frozen=True):
    """A node: ``state`` is up, overloaded, cordoned, draining, drained or away.

    ``address`` is that of its tasks. ``match`` is present if the call has ``where`` or ``rank``. ``load`` is present
    while it is measured; a node that is not ``judged`` gets new tasks regardless of its load.

    A single node also has ``tasks`` (the first 1,000); ``ports_seen``, the ports used by other programs; its
    ``devices`` one by one; ``disks``, of which ``disks_free`` are unused; and ``data``, the paths that it has.
    ``unlimited`` are messages about limits that are not enforced there, ``strangers`` about processes below its
    executor that belong to no running attempt for certain. ``drained_at`` is when an operator's drain
    stops the remaining tasks. ``settings`` are present if the center has some, with the executor's values in
    ``reported``.
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
    strangers: tuple[str, ...] = ()
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


class NodeKindView(View, frozen=True):
    """A group's use of a dimension on nodes of one kind (``gpu(A100)``), with its quota and ``MaxQuota``, if any."""

    used: str
    quota: str = "0"
    max_quota: str = ""


class GroupView(View, frozen=True):
    """A group: ``quota`` is the present one, ``ratio`` is used / quota, ``priority`` the number of the source paper.

    ``timetable`` is the text of all quotas if they change with time; ``quota`` applies until the moment ``until``.
    ``parent`` is the group above it. A group with groups below it (``inner``) sums up their use and has no policy.
    ``max_quota`` and ``lendable`` are its bounds. ``share_of_parent`` and ``share_of_cluster`` (0 … 1) are those of its
    quota. ``borrowed`` is its use beyond the quota, ``lends`` the part that others may use at present. ``kinds`` are
    the kinds of nodes in quotas of which it has an amount or a guarantee. ``limits`` are the keywords of its limits
    with their values as in ``Group.conf``. ``jobs`` wait or run, ``running_jobs`` of them run. A ``closed`` group
    accepts no new jobs since the moment ``closed_since``.
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
    kinds: dict[str, NodeKindView] = {}


class NodesPage(View, frozen=True):
    """Nodes in the order of their registration. ``next`` is ``after`` of the following page; ``None``: the end.

    ``notes`` are remarks on ``where`` and ``rank``, such as names that do not exist.
    """

    nodes: tuple[NodeView, ...]
    next: str | None = None
    notes: tuple[str, ...] = ()


class NodeAttempt(View, frozen=True):
    """An attempt on a node, past or running; times are seconds since the epoch, ``ended`` is ``None`` while it runs.

    ``outcome`` is as in ``AttemptView``. ``started`` is ``None`` if it never ran, or not yet. ``expected`` is the end
    of a running one that is expected: by its estimate, else at the latest by its time limit.
    """

    node: str
    job: int
    task: int
    attempt: int
    name: str
    group: str
    outcome: str
    placed: float
    started: float | None = None
    ended: float | None = None
    expected: float | None = None


class NodeAttemptsPage(View, frozen=True):
    """Attempts on nodes, the latest ends first; ``more`` says that there are older ones in the span."""

    attempts: tuple[NodeAttempt, ...]
    more: bool = False


class PlaceView(View, frozen=True):
    """The place of a running task: the name of its node, its rack and address, its ports by name.

    ``disk`` is the path of its disk, shared or not (the id of a disk without a path; several are separated by ``:``);
    ``devices`` are all its devices. ``dns`` is its DNS name if the center answers DNS questions.
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
    """The running tasks of all jobs with a name, by job and task; a watch resumes after ``revision``."""

    places: tuple[PlaceView, ...]
    revision: str = ""


class PlacesChange(View, frozen=True):
    """A change of the places of a name: the tasks that run now, and the attempts that are ``gone``.

    A change with ``all`` of the places replaces the earlier ones. The next watch resumes after ``revision``.
    """

    places: tuple[PlaceView, ...] = ()
    gone: tuple[int, ...] = ()
    all: bool = False
    revision: str = ""


class GroupsPage(View, frozen=True):
    """Groups by name; ``text`` is all of them as a file that can be applied again.

    ``zone`` is the time zone of timetables.
    """

    groups: tuple[GroupView, ...]
    text: str = ""
    zone: str = ""


class Applied(View, frozen=True):
    """The changes made by a file of groups: ``diff`` for people, and their number ``changes``."""

    diff: str
    changes: int
    notes: tuple[str, ...] = ()


class DelayView(View, frozen=True):
    """A time in which the center answered no request: its end (seconds since the epoch), its length (s), its cause."""

    at: float
    length: float
    what: str


class StateView(View, frozen=True):
    """Key figures of the cluster; a service, database, cron job or dag counts as one job.

    ``capacity`` and ``used`` sum up the nodes that are up. ``delay`` is the longest time of the last hour, if above 50
    ms, in which the center answered no request.
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
    """An event of ``GET /v1/events``; ``kind`` is one of the words in docs/api.md.

    ``number`` counts all events of the cluster; ``at`` is its time in seconds since the epoch. Fields that do not apply
    to the kind are left out: ``state`` is the final state of a task or job, ``code`` the exit code, ``text`` a reason
    or an error. A ``gap`` says that events up to ``number`` are no longer kept.
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

    ``core_seconds`` and ``byte_seconds`` are the amounts held by its attempts (request × time from placing to end),
    ``cpu_seconds`` their measured processor time. ``attempts`` ended in the span: ``succeeded`` and ``failed`` ones,
    and others that were cancelled, preempted, or lost and run again. Of the jobs with deadlines that ended in the span,
    ``met`` succeeded in time, ``missed`` did not; those cancelled in time are neither.
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
    """Usage by time, then group; ``span`` is a span's length in seconds; ``next`` is ``since`` of the next page."""

    usage: tuple[UsageView, ...]
    span: float
    next: float | None = None


class PastUsePage(View, frozen=True):
    """The use of the cluster and its groups over a span of time, as means of points of ``step`` seconds.

    The first point begins at ``begin``; a point is ``None`` where nothing is known. ``use`` is the used part of the
    capacity by dimension, ``groups`` the use of each group divided by its quota, ``tasks`` the numbers of ``running``
    and ``waiting`` tasks.
    """

    begin: float
    step: float
    use: dict[str, tuple[float | None, ...]] = {}
    groups: dict[str, tuple[float | None, ...]] = {}
    tasks: dict[str, tuple[float | None, ...]] = {}


class EfficiencyView(View, frozen=True):
    """Requests and use of finished work; ``name``, ``user`` and ``group`` are empty if added up. ``label`` is the value
    of the label by which it was added up, empty for jobs without it.

    ``held`` are the amounts held over time by dimension: core-seconds, byte-seconds and so on. ``cpu_seconds`` is the
    measured processor time. ``memory_asked`` is the largest request of a task in bytes, ``memory_peak`` the largest use
    of one, 0 if it was not measured. ``hint`` says what smaller request would do, empty if none is known.
    """

    name: str
    user: str
    group: str
    jobs: int
    attempts: int
    run_seconds: float
    held: dict[str, float]
    cpu_seconds: float
    memory_asked: int
    memory_peak: int
    hint: str = ""
    label: str = ""


class EfficiencyPage(View, frozen=True):
    """Work with the largest unused core-seconds first; ``since`` and ``until`` are seconds since the epoch."""

    work: tuple[EfficiencyView, ...]
    since: float
    until: float


class RevisionView(View, frozen=True):
    """A revision: its start (seconds since the epoch), the user (empty: the center itself) and the action.

    ``text`` is the document; a list of revisions leaves it out.
    """

    revision: int
    at: float
    by: str
    what: str
    text: str = ""


class ConfigView(View, frozen=True):
    """The present configuration: the document of a revision, all ``options``, and the number of each licence."""

    revision: int
    at: float
    by: str
    what: str
    text: str
    options: dict[str, str]
    licences: dict[str, int]


class HistoryView(View, frozen=True):
    """The stored revisions, newest first."""

    revisions: tuple[RevisionView, ...]


class ConfiguredView(View, frozen=True):
    """Answer to a change: the present revision, and the documents before and after it.

    A dry run shows the expected ones.
    """

    revision: int
    before: str
    text: str
    notes: tuple[str, ...] = ()
