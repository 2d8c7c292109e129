"""Leases of workloads, and the parts of them that no task of the workload uses (source F)."""

from __future__ import annotations

from typing import TypeAlias

from cress.core.jobs import Attempt, GroupState, JobEntry
from cress.model.resources import ResourceVector
from cress.model.times import NEVER

# The place of a device on its node; NO_DEVICE: a part of the other amounts.
NO_DEVICE = -1
# The first character of the name of a built-in workload.
_BUILT_IN = "/"

# What a part has: the place of its device or NO_DEVICE, and its amounts.
Piece: TypeAlias = tuple[int, ResourceVector]


class Part:
    """The holder of a row of the table of leases beside the tasks: an idle part of ``lease``, or what ``borrower`` has beside its own row.

    Without a lease, a part is given back to the cluster when its borrower ends.
    """

    __slots__ = ("amounts", "borrower", "device", "lease", "node", "slot")

    # As a holder among tasks: it has no attempt and no ports.
    id = 0
    ports = ()

    def __init__(
        self, lease: WorkloadLease | None, borrower: Attempt | None, node: int, slot: int, piece: Piece
    ) -> None:
        self.lease = lease
        self.borrower = borrower
        self.node = node
        self.slot = slot
        self.device, self.amounts = piece


class WorkloadLease:
    """A lease of a workload on one node: tasks of its own, idle parts by their device, and lent parts.

    ``id`` is the number of the attempt for which it was got, ``charge`` what its idle parts cost its group, ``end`` when they are expected to be given
    back; ``idle_since`` is when its last task ended, NEVER while it has one. A lease with a ``holder``, a task of a job of type lease, is kept as long as that
    runs; the holder's row has what it uses itself, ``wanted`` is what it asks for: more while borrowers have not given back.
    """

    __slots__ = (
        "charge",
        "end",
        "holder",
        "id",
        "idle",
        "idle_since",
        "lent",
        "mask",
        "node",
        "tasks",
        "wanted",
        "workload",
    )

    def __init__(self, id: int, workload: Workload, node: int) -> None:
        self.id = id
        self.workload = workload
        self.node = node
        self.tasks: dict[int, Attempt] = {}
        self.holder: Attempt | None = None
        self.wanted: ResourceVector = ()
        # All devices of a lease with a holder.
        self.mask = 0
        self.idle: dict[int, Part] = {}
        self.lent: list[Part] = []
        self.idle_since = NEVER
        self.end = NEVER
        self.charge: tuple[int, ...] = ()

    def idle_amounts(self) -> ResourceVector:
        """Return the sum of its idle parts; empty if there is none."""
        return tuple(map(sum, zip(*(part.amounts for part in self.idle.values()), strict=True)))


class Workload:
    """The leases of one workload of a group; ``declared``: its jobs name it, and it keeps idle leases for a while."""

    __slots__ = ("declared", "group", "idle_on", "leases", "lent_on", "name", "no_room", "stamp")

    def __init__(self, group: GroupState, name: str) -> None:
        self.group = group
        self.name = name
        self.declared = not name.startswith(_BUILT_IN)
        self.leases: dict[int, WorkloadLease] = {}
        # Those with idle and with lent parts, by node.
        self.idle_on: dict[int, dict[int, WorkloadLease]] = {}
        self.lent_on: dict[int, dict[int, WorkloadLease]] = {}
        # Grows with every change of its idle parts; and for which shape they had no room then.
        self.stamp = 0
        self.no_room = (-1, -1, -1, -1)


def workload_key(job: JobEntry) -> tuple[str, str]:
    """Return the group and the name of the workload of a job; the built-in one of a type begins with a slash, which no name does."""
    return job.group.name, job.job.workload or f"{_BUILT_IN}{job.job.type.value}"
