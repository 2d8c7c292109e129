"""The state of a scheduler as one struct: everything on which later decisions depend.

Foreseen values are separate: a scheduler restored without them computes them again, and may then decide differently
from the original within the same promises. Nodes are identified by index, jobs and attempts by number, groups by name.
Caches (fit rows, bounds of matches) are not stored.
"""

from __future__ import annotations

import msgspec

from cress.core.placing.mix import MixState
from cress.core.stored.fields import (
    ForeseenJob,
    KeptAttempt,
    KeptClaim,
    KeptGroup,
    KeptJob,
    KeptLease,
    KeptReservation,
    KeptStranger,
)
from cress.core.tables.data_locations import Places
from cress.core.tables.measured_load import LoadsState
from cress.core.tree.memory import MemoryState
from cress.model.advance import AdvanceReservation
from cress.model.distances import Distance
from cress.model.group import Group
from cress.model.job import Job
from cress.model.node import Device, Node
from cress.model.options import Options
from cress.model.resources import ResourceVector
from cress.model.times import NEVER

VERSION = 5


class StoredNode(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A node: the reason why it is ``cordoned``, and its removed devices (``gone``)."""

    node: Node
    cordoned: str | None = None
    away: bool = False
    lost: bool = False
    gone: tuple[Device, ...] = ()


class StoredJob(KeptJob, kw_only=True, omit_defaults=True, eq=True):
    """A job; ``companions`` are, by task in ``again``, job and task of those that start together with it."""

    job: Job
    group: str
    companions: list[tuple[int, list[tuple[int, int]]]] = []


class StoredAttempt(KeptAttempt, kw_only=True, omit_defaults=True, eq=True, gc=False):
    """An attempt.

    ``devices`` are a mask of its node's devices, and 1 if its disks are exclusive; ``held`` are the amounts of its
    row, if they differ from its amounts; ``end`` is the end of the row. ``parts`` are those beside its row: lease or
    0, device, amounts, end; ``inside`` are the parts of its row that belong to leases: lease, device, amounts.
    """

    job: int
    devices: tuple[int, int]
    end: int
    held: tuple[int, ...] | None = None
    parts: tuple[tuple[int, int, ResourceVector, int], ...] = ()
    inside: tuple[tuple[int, int, ResourceVector], ...] = ()


class StoredStranger(KeptStranger, kw_only=True, omit_defaults=True, eq=True):
    """A foreign holder of a lease: its devices, the amounts of its row, and the end of the row."""

    devices: tuple[int, int]
    held: tuple[int, ...]
    end: int


class StoredReservation(KeptReservation, kw_only=True, omit_defaults=True, eq=True):
    """A reservation for a unit of ``job``; ``known``: its nodes have not changed since it was last confirmed."""

    job: int
    end: int
    known: bool = False


class StoredClaim(KeptClaim, kw_only=True, omit_defaults=True, eq=True):
    """A claim."""

    reservation: StoredReservation


class StoredLease(KeptLease, kw_only=True, omit_defaults=True, eq=True):
    """A lease of a workload: its idle amounts by device, and the job for which tasks left its workload's leases on the
    node.
    """

    group: str
    workload: str
    idle: list[tuple[int, ResourceVector]] = []
    awaited: int = 0


class LendingState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """All leases of workloads, and the limit of loans with its counts."""

    limit: tuple[int, int, int, int] | None = None
    leases: list[StoredLease] = []


class Borrowed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Past borrowing of groups, in ticks of ``length`` (µs)."""

    length: int
    groups: dict[str, MemoryState]


class KeptReservations(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The reservations, the state of the cluster when they were last checked, and the time (µs) when passed ones were
    dropped.
    """

    loosened: int = -1
    expired_at: int = -1
    kept: list[StoredReservation] = []


class StoredPlan(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The plan of a group; ``freer`` are the nodes that became freer since, ``anew``: nodes opened or closed since."""

    loosened: int
    freer: list[int] = []
    anew: bool = False
    units: list[StoredReservation] = []


class Tried(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Results of the last passes for a group: the unit that it offered, and its failed tries."""

    visited: int = 0
    verdict: str = "unvisited"
    held_behind: int | None = None
    offered: int | None = None
    start: tuple[int, int, tuple[int, ...]] | None = None
    victims: tuple[int, int, tuple[int, ...]] | None = None
    victims_again: int = NEVER
    fragments: tuple[int, int, tuple[int, ...]] | None = None
    fragments_again: int = NEVER
    order_at: int | None = None
    memo: tuple[int, tuple[int, ...]] | None = None
    bounds: list[tuple[int, int]] | None = None


class Foreseen(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything that is only foreseen, or remembered about tries.

    ``cursor`` is the position of the rotation, ``loosened`` and ``passes`` count changes and passes; ``turns`` are the
    times since which units wait for their turn.
    """

    cursor: int = 0
    loosened: int = 0
    limits_count: bool = False
    wake: int | None = None
    units_in_doubt: bool = True
    passes: int = 0
    last_blocked: int | None = None
    turns: list[tuple[int, int]] = []
    jobs: dict[int, ForeseenJob] = {}
    groups: dict[str, Tried] = {}
    reservations: KeptReservations = msgspec.field(default_factory=KeptReservations)
    plans: dict[str, StoredPlan] = {}


class CoreState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The state of a scheduler.

    ``groups`` are the configured ones, in the time zone ``groups_zone`` if their file names one; ``kept`` are the
    fields of each group that differ from their first values. ``others`` are foreign holders of leases, ``ending`` the
    attempts that end with an advance reservation, ``to_stop`` those whose stop is not proposed yet, with the time
    since which it is due, ``strangers`` the foreign ports by node.
    """

    version: int
    dimensions: tuple[str, ...]
    options: Options
    now: int
    zone: str
    groups_zone: str = ""
    wall_offset: int | None = None
    next_attempt: int
    nodes: list[StoredNode]
    groups: tuple[Group, ...]
    kept: dict[str, KeptGroup] = {}
    jobs: list[StoredJob]
    attempts: list[StoredAttempt]
    others: list[StoredStranger] = []
    claims: list[StoredClaim] = []
    lending: LendingState = msgspec.field(default_factory=LendingState)
    borrowed: Borrowed | None = None
    mix: MixState = msgspec.field(default_factory=MixState)
    advance_reservations: tuple[AdvanceReservation, ...] = ()
    ending: dict[int, str] = {}
    to_stop: dict[int, int] = {}
    licences: dict[str, int] = {}
    neighbours: tuple[tuple[str, str], ...] = ()
    distances: tuple[Distance, ...] = ()
    loads: LoadsState
    data: list[tuple[str, Places | None, str]] = []
    strangers: list[tuple[int, tuple[int, ...]]] = []
    foreseen: Foreseen | None = None
