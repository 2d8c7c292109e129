"""Nodes, groups, the configuration, names, events and the state of the cluster as the API shows them."""

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


class NodeKindView(View, frozen=True):
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
    kinds: dict[str, NodeKindView] = {}


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


class RevisionView(View, frozen=True):
    """A revision: since when it holds (seconds since the epoch), the user (empty: the center itself) and the action.

    ``text`` is the document; a list of revisions leaves it out.
    """

    revision: int
    at: float
    by: str
    what: str
    text: str = ""


class ConfigView(View, frozen=True):
    """The present configuration: the document of a revision; ``options`` are all, ``licences`` how many there are of
    each.
    """

    revision: int
    at: float
    by: str
    what: str
    text: str
    options: dict[str, str]
    licences: dict[str, int]


class HistoryView(View, frozen=True):
    """The revisions that are kept, newest first."""

    revisions: tuple[RevisionView, ...]


class ConfiguredView(View, frozen=True):
    """Answer to a change: the present revision, and the documents before and after it.

    A dry run shows what would be.
    """

    revision: int
    before: str
    text: str
    notes: tuple[str, ...] = ()
