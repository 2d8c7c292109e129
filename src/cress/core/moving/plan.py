"""Plans of moves as values: the moves, their gain and cost, and the tasks that stay."""

from __future__ import annotations

from collections import Counter
from enum import Enum

import msgspec

# More than any plan moves or loses.
ANY = 2**61


class Goal(Enum):
    """The purpose of a move."""

    SPREAD = "spread"  # the tasks of a service on more nodes
    DEVICES = "devices"  # whole devices
    NODES = "nodes"  # whole nodes
    PLACE = "place"  # room for a waiting unit


class Stays(Enum):
    """The reason why a running task is not moved; users see the value."""

    DATABASE = "of databases, which are bound to their nodes"
    UNDECLARED = "of batch jobs without movable: true"
    FORBIDDEN = "of services with movable: false"
    GANG = "of gangs"
    OTHERS = "of cron jobs and dags without movable: true"
    LEASE = "that use or hold leases of workloads"
    TOGETHER = "that start together with tasks of other jobs"
    DISK = "with disks of their own"
    STOPPING = "that are stopping already"
    COOLING = "of groups that cool off"
    NOT_READY = "that are not ready"
    MINIMUM = "of services that have no more than their minimum ready"
    UPDATING = "of services that are being updated"
    STARTING = "that have not started yet"
    HELD = "of jobs that are held or end"
    FOREIGN = "of other systems"
    NOWHERE = "that no other node takes"
    BUDGET = "that cost more than may be lost"


class Move(msgspec.Struct, frozen=True, array_like=True):
    """The stop of attempt ``attempt``, whose task starts again on node ``to``.

    ``lost`` is its work until now (µs × millicores), ``lost_devices`` that of devices (µs × thousandths of a device).
    """

    attempt: int
    job: int
    task: int
    node: str
    to: str
    lost: int = 0
    goal: Goal = Goal.NODES
    lost_devices: int = 0

    @property
    def cost(self) -> int:
        """The lost work, where an hour of a device counts as an hour of a core."""
        return self.lost + self.lost_devices


class Budget(msgspec.Struct, frozen=True):
    """The most moves in a plan, and the most lost work (µs × millicores, or µs × thousandths of a device)."""

    moves: int = ANY
    lost: int = ANY


class Free(msgspec.Struct, frozen=True):
    """The numbers of idle nodes and of idle devices, and of all nodes and devices."""

    nodes: int
    devices: int
    all_nodes: int
    all_devices: int


class Prevented(msgspec.Struct, frozen=True, kw_only=True):
    """The rule for which no moves let a waiting unit start; the first of these that holds, with its figures.

    ``short``: the dimensions of which all nodes together have too little left, which moves do not change. ``moves`` and
    ``cost``: those of a plan beyond the budget (``Move.cost``). ``stays``: the reasons for which tasks stay that would
    have to move, as few as possible. None of these: there is no other node for the tasks that would have to move.
    """

    short: tuple[str, ...] = ()
    moves: int = 0
    cost: int = 0
    stays: tuple[Stays, ...] = ()


class MovePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Moves in their order; each has its room when those before it are done.

    ``nodes`` and ``devices`` (node, kind, id) become free; ``spread`` are the services (jobs) whose tasks will be on
    more nodes. ``job`` is the waiting unit that starts on ``place`` (nodes and numbers of tasks). ``stays`` counts the
    tasks that are not movable, by reason. ``prevented`` says why there is no place for ``job``.
    """

    moves: tuple[Move, ...]
    before: Free
    after: Free
    nodes: tuple[str, ...] = ()
    devices: tuple[tuple[str, str, str], ...] = ()
    spread: tuple[int, ...] = ()
    job: int = 0
    place: tuple[tuple[str, int], ...] = ()
    movable: int = 0
    stays: dict[Stays, int] = {}
    prevented: Prevented | None = None

    @property
    def lost(self) -> int:
        """The work lost by all moves (µs × millicores)."""
        return sum(move.lost for move in self.moves)

    @property
    def lost_devices(self) -> int:
        """The work of devices lost by all moves (µs × thousandths of a device)."""
        return sum(move.lost_devices for move in self.moves)


class Candidates(msgspec.Struct):
    """The running tasks that may move, by attempt with the lost work (``Move.cost``), and counts of the others by
    reason.
    """

    lost: dict[int, int] = {}
    stays: Counter[Stays] = msgspec.field(default_factory=Counter)
