"""Leases, moves of running tasks, advance reservations and licences as the API shows them."""

from __future__ import annotations

from cress.protocol.views import Resources, View


class LeaseTask(View, frozen=True):
    """A task that uses a part of a lease: ``amounts`` of it. ``job`` is ``None`` for who may not see that job."""

    job: int | None
    task: int | None
    group: str
    amounts: Resources


class LeaseView(View, frozen=True):
    """A lease of a workload, or ``count`` leases of one request that wait.

    ``id`` is JOB.TASK of the job that holds it (JOB of those that wait), or ``@ATTEMPT`` of one that the center keeps
    for a workload itself. ``state`` is waiting, starting, held, stopping or kept. ``holds`` is all of it: what its
    holder ``uses`` by itself, what is ``idle``, what ``tasks`` of the workload have, and what is ``lent``; ``wants`` is
    what the holder asked to use, more than ``uses`` while borrowers give back. A lease that is stopping ends at
    ``stops_at``, for ``reason``; of one that waits that is why. It ends at ``expires`` unless its holder is heard of
    before, ``term`` seconds after the last time. Times are seconds since the epoch.
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
    """Leases, those that wait first, then by age. ``stamp`` is new whenever one of them changes; ``next`` is ``after``
    of the following page.

    ``note``, of a request: remarks on it, as on a submit.
    """

    leases: tuple[LeaseView, ...]
    stamp: str = ""
    next: int | None = None
    note: str = ""


class MoveView(View, frozen=True):
    """A task that is moved from ``node`` to ``to``; ``lost`` is the work that it begins anew, in core hours,
    ``lost_devices`` in hours of devices.

    ``job`` and ``task`` are as people call them (of a member of a service: the service and its index); ``job`` is
    ``None``, and ``name`` empty, for who may not see that job. ``goal`` is spread, devices, nodes or place.
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
    """The number of nodes that take tasks and have none, and of their devices that nothing uses."""

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
    """A plan: its ``moves`` in order, what they free, and what they cost. ``lost`` is in core hours, ``lost_devices``
    in hours of devices, ``movable`` the number of tasks that may move.

    ``nodes`` and ``devices`` become free; ``spread`` are the services whose tasks are on more nodes then. ``job`` is
    the waiting job that starts on ``place`` (tasks by node); without a place there are no moves that let it start.
    ``note`` says why there is nothing to move.
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
    """A round of moves: ``state`` is moving, done or stopped; ``problem`` why it stopped. Times are seconds since the
    epoch.

    ``done``, ``under_way`` and ``left`` are its moves; those that were ``skipped`` are of tasks that had ended by
    themselves. ``by`` is empty for rounds of the option ``rebalance``. The number is 0 if nothing was ever moved.
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

    ``state`` is active, coming, or short: nodes of it are away, cordoned or not yet empty. ``start`` and ``until``
    (seconds since the epoch) are those of the present or next time, ``next`` the start of the one after. ``nodes`` are
    its nodes, with how often it has ``resource`` there; an empty resource: whole nodes. Nodes were chosen if there is a
    ``count``. ``used`` is the number of running tasks of its group there, ``leaving`` that of the tasks of others that
    have to stop at its start unless they end before.
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
    """A job that has some of a licence, or waits for some: ``number`` of them."""

    job: int
    name: str
    group: str
    number: int


class LicenceView(View, frozen=True):
    """A licence: ``having`` and ``waiting`` are how many jobs have some or wait for some, of which the first are
    listed.
    """

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
