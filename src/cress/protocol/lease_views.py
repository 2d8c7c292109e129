"""Leases, moves of running tasks, advance reservations and licences in the API."""

from __future__ import annotations

from cress.protocol.views import Resources, View


class LeaseTask(View, frozen=True):
    """A task that uses ``amounts`` of a lease; ``job`` is ``None`` for callers who may not see that job."""

    job: int | None
    task: int | None
    group: str
    amounts: Resources


class LeaseView(View, frozen=True):
    """A lease of a workload, or ``count`` waiting leases of one request.

    ``id`` is JOB.TASK of the job that holds it (JOB of waiting ones), or ``@ATTEMPT`` if the center keeps it for a
    workload. ``state`` is waiting, starting, held, stopping or kept. ``holds`` is all of it: the holder's own use
    (``uses``), idle parts (``idle``), parts of the workload's tasks (``tasks``), and loans (``lent``). ``wants`` is the
    use that the holder requested, more than ``uses`` while borrowers give parts back. A stopping lease ends at
    ``stops_at`` for ``reason``, which is also the reason of a waiting one. It ends at ``expires``, ``term`` seconds
    after the last sign of its holder, unless another one comes. Times are seconds since the epoch.
    """

    id: str
    job: int | None
    task: int | None
    workload: str
    group: str
    state: str
    holds: Resources
    user: str = ""
    name: str = ""
    count: int = 1
    node: str = ""
    uses: Resources = {}
    wants: Resources = {}
    idle: Resources = {}
    tasks: tuple[LeaseTask, ...] = ()
    lent: tuple[LeaseTask, ...] = ()
    since: float | None = None
    stops_at: float | None = None
    reason: str = ""
    term: float | None = None
    expires: float | None = None
    attempt: int | None = None


class LeasesPage(View, frozen=True):
    """Leases, waiting ones first, then by age.

    ``stamp`` changes with each of them; ``next`` is ``after`` of the following page. ``note`` is a remark on a request,
    as on a submit.
    """

    leases: tuple[LeaseView, ...]
    stamp: str = ""
    next: int | None = None
    note: str = ""


class WorkloadView(View, frozen=True):
    """The sums over all leases of a workload of a group.

    ``leases`` is the number of its leases, of which the center keeps ``kept`` itself; ``waiting`` more are requested.
    ``holds`` is the sum of them: the use of their holders (``uses``), idle parts (``idle``), parts of its tasks
    (``tasks``), and loans to others (``lent``). ``borrows`` is what its own tasks have of leases of other workloads.
    ``nodes`` is what it holds on each node.
    """

    workload: str
    group: str
    leases: int = 0
    kept: int = 0
    waiting: int = 0
    holds: Resources = {}
    uses: Resources = {}
    idle: Resources = {}
    tasks: Resources = {}
    lent: Resources = {}
    borrows: Resources = {}
    nodes: dict[str, Resources] = {}


class WorkloadsPage(View, frozen=True):
    """Workloads with leases, by group and name."""

    workloads: tuple[WorkloadView, ...]


class MoveView(View, frozen=True):
    """A move of a task from ``node`` to ``to``.

    ``lost`` is the work that it repeats in core hours, ``lost_devices`` in device hours. ``job`` and ``task`` are as
    people name them (for a member of a service, the service and its index); ``job`` is ``None`` and ``name`` empty for
    callers who may not see that job. ``goal`` is spread, devices, nodes or place.
    """

    attempt: int
    job: int | None
    task: int | None
    name: str
    group: str
    node: str
    to: str
    goal: str
    lost: float = 0.0
    lost_devices: float = 0.0


class FreeView(View, frozen=True):
    """The number of nodes that accept tasks and have none, and of their unused devices."""

    nodes: int
    devices: int
    all_nodes: int
    all_devices: int


class DeviceName(View, frozen=True):
    """A device of a node."""

    node: str
    kind: str
    id: str


class StaysView(View, frozen=True):
    """The number of running tasks that are not movable for a reason."""

    reason: str
    tasks: int


class PlanView(View, frozen=True):
    """A plan: its ``moves`` in order, their gains and their costs.

    ``lost`` is in core hours, ``lost_devices`` in device hours; ``movable`` is the number of tasks that may move.
    ``nodes`` and ``devices`` become free; ``spread`` are the services whose tasks get more nodes. ``job`` is the
    waiting job that starts on ``place`` (tasks by node); without a place no moves let it start. ``note`` says why there
    is nothing to move.
    """

    moves: tuple[MoveView, ...]
    before: FreeView
    after: FreeView
    movable: int
    stays: tuple[StaysView, ...] = ()
    nodes: tuple[str, ...] = ()
    devices: tuple[DeviceName, ...] = ()
    spread: tuple[int, ...] = ()
    job: int | None = None
    place: dict[str, int] = {}
    lost: float = 0.0
    lost_devices: float = 0.0
    note: str = ""


class RoundView(View, frozen=True):
    """A round of moves: ``state`` is moving, done or stopped; ``problem`` says why it stopped.

    Times are seconds since the epoch. ``done``, ``under_way`` and ``left`` are its moves; tasks of ``skipped`` moves
    had ended by themselves. ``by`` is empty for rounds of the option ``rebalance``. The number is 0 if there was no
    round yet.
    """

    number: int = 0
    state: str = "done"
    by: str = ""
    begun: float | None = None
    ended: float | None = None
    job: int | None = None
    done: tuple[MoveView, ...] = ()
    under_way: tuple[MoveView, ...] = ()
    left: tuple[MoveView, ...] = ()
    skipped: tuple[MoveView, ...] = ()
    problem: str = ""


class ReservationView(View, frozen=True):
    """An advance reservation of a ``group``; without one it is for maintenance.

    ``state`` is active, coming, or short: some of its nodes are away, cordoned or not yet empty. ``start`` and
    ``until`` (seconds since the epoch) are those of the present or next time, ``next`` is the start of the one after.
    ``nodes`` are its nodes, each with the number of times that it has ``resource`` there; an empty resource means whole
    nodes. With a ``count`` the center chose the nodes. ``used`` is the number of its group's running tasks there,
    ``leaving`` that of others' tasks that have to stop at its start unless they end before.
    """

    name: str
    group: str = ""
    state: str = "coming"
    start: float | None = None
    until: float | None = None
    next: float | None = None
    every: str = ""
    zone: str = ""
    nodes: dict[str, int] = {}
    resource: str = ""
    count: int = 0
    requirement: str = ""
    at_end: str = "keep"
    by: str = ""
    used: int = 0
    leaving: int = 0


class ReservationsPage(View, frozen=True):
    """The advance reservations of a cluster, by their starts."""

    reservations: tuple[ReservationView, ...] = ()


class LicenceUse(View, frozen=True):
    """A job that has or waits for ``number`` of a licence."""

    job: int
    name: str
    group: str
    number: int


class LicenceView(View, frozen=True):
    """A licence: ``having`` and ``waiting`` count the jobs that have or wait for some; the first are listed."""

    name: str
    total: int
    in_use: int
    free: int
    having: int = 0
    waiting: int = 0
    jobs: tuple[LicenceUse, ...] = ()
    waiters: tuple[LicenceUse, ...] = ()


class LicencesPage(View, frozen=True):
    """All licences, by name."""

    licences: tuple[LicenceView, ...]
