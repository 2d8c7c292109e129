"""The state of a scheduler as one struct: all that later decisions depend on.

What is only foreseen stands apart: a scheduler that is restored without it works it out again, and may then decide
otherwise than the one from which the state was taken, within the same promises. Nodes are named by their index, jobs
and attempts by their number, groups by their name. Caches (fit rows, bounds of matches) are not kept.
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
    """A node: why it is ``cordoned``, and the devices that are ``gone``."""

    node: Node
    cordoned: str | None = None
    away: bool = False
    lost: bool = False
    gone: tuple[Device, ...] = ()


class StoredJob(KeptJob, kw_only=True, omit_defaults=True, eq=True):
    """A job; ``companions`` are, by a task in ``again``, job and task of those that start together with it."""

    job: Job
    group: str
    companions: list[tuple[int, list[tuple[int, int]]]] = []


class StoredAttempt(KeptAttempt, kw_only=True, omit_defaults=True, eq=True):
    """An attempt.

    ``devices`` are a mask of those of its node and whether (1) its disks are exclusive; ``held`` is what its row holds,
    if that is not its amounts; ``end`` is when the row ends. ``parts`` are what it has beside its row: lease or 0,
    device, amounts, end; ``inside`` is what of its row belongs to leases: lease, device, amounts.
    """

    job: int
    devices: tuple[int, int]
    end: int
    held: tuple[int, ...] | None = None
    parts: list[tuple[int, int, ResourceVector, int]] = []
    inside: list[tuple[int, int, ResourceVector]] = []


class StoredStranger(KeptStranger, kw_only=True, omit_defaults=True, eq=True):
    """A foreign holder of a lease: its devices, what its row holds, and when the row ends."""

    devices: tuple[int, int]
    held: tuple[int, ...]
    end: int


class StoredReservation(KeptReservation, kw_only=True, omit_defaults=True, eq=True):
    """A reservation for a unit of ``job``; ``known``: nothing changed on its nodes since it was last known to hold."""

    job: int
    end: int
    known: bool = False


class StoredClaim(KeptClaim, kw_only=True, omit_defaults=True, eq=True):
    """A claim."""

    reservation: StoredReservation


class StoredLease(KeptLease, kw_only=True, omit_defaults=True, eq=True):
    """A lease of a workload: its idle amounts by device, and the job for which tasks left those of its workload on the
    node.
    """

    group: str
    workload: str
    idle: list[tuple[int, ResourceVector]] = []
    awaited: int = 0


class LendingState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """All leases of workloads, and the limit of loans with what became of the last ones."""

    limit: tuple[int, int, int, int] | None = None
    leases: list[StoredLease] = []


class Borrowed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Amounts that groups borrowed lately, in ticks of ``length`` (µs)."""

    length: int
    groups: dict[str, MemoryState]


class KeptReservations(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The reservations, and the state of the cluster when they were last checked."""

    loosened: int = -1
    kept: list[StoredReservation] = []


class StoredPlan(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The plan of a group; ``freer`` are the nodes that became freer since, ``anew``: nodes opened or closed since."""

    loosened: int
    freer: list[int] = []
    anew: bool = False
    units: list[StoredReservation] = []


class Tried(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Findings of the last passes about a group: the unit that it offered, and what was tried in vain."""

    visited: int = 0
    verdict: str = "unvisited"
    held_behind: int | None = None
    offered: int | None = None
    start: tuple[int, int, tuple[int, ...]] | None = None
    victims: tuple[int, int, tuple[int, ...]] | None = None
    victims_again: int = NEVER
    order_at: int | None = None
    memo: tuple[int, tuple[int, ...]] | None = None
    bounds: list[tuple[int, int]] | None = None


class Foreseen(msgspec.Struct, kw_only=True, omit_defaults=True):
    """All that is only foreseen or remembered of tries.

    ``cursor`` is the place of the rotation, ``loosened`` and ``passes`` count changes and passes; ``turns`` are since
    when units wait for their turn.
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

    ``groups`` are the configured ones, in the time zone ``groups_zone`` if their file names one; ``kept`` is what is
    kept of each group that has anything. ``others`` are foreign holders of leases, ``ending`` the attempts that end
    with an advance reservation, ``to_stop`` those whose stop is not proposed yet with the time since which it is due,
    ``strangers`` the ports in use by others by node.
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
    racks: list[str] = []
    neighbours: tuple[tuple[str, str], ...] = ()
    distances: tuple[Distance, ...] = ()
    loads: LoadsState
    data: list[tuple[str, Places | None, str]] = []
    strangers: list[tuple[int, tuple[int, ...]]] = []
    foreseen: Foreseen | None = None
