"""Decisions: facts that the core brings about. Values; the shell carries them out and reports back by events.

A decision has all that it changes, so that ``Scheduler.apply`` brings another scheduler into the same state by it.
``Preempt`` and ``WouldPreempt`` are instructions for the shell: the ``Claim`` before a ``Preempt`` marks its victims.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cress.model.node import Allocated
from cress.model.resources import ResourceVector

# Reasons for a choice of a node: the growth of its fragment in devices, its balance y after placing, how many other
# nodes fit.
Choice: TypeAlias = tuple[float, float, int]
# Why there was room that was kept for a task: others were ``preempted`` or made room by ``moves``, it was ``moved``
# itself, or its start was ``planned``; and how many others left for it.
Kept: TypeAlias = tuple[str, int]


class LeasePart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of the lease ``lease`` of a workload: amounts, and at most one device of which it has ``amounts`` (id "":
    none).
    """

    lease: int
    amounts: ResourceVector
    kind: str = ""
    device: str = ""


class Start(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Start task ``task`` (index from 0) of job ``job`` on ``node``; ``attempt`` is unique for ever.

    ``ports`` are the numbers of the job's ports there, in the job's order; ``devices`` are those of the node that it
    has, in the node's order. ``leader``: it starts together with a task of this job, on which it depends.
    ``more_ports`` are ports that clauses of the job take beside. ``claimed``: the task was part of a ``Claim``.
    ``parts`` is what it takes from leases of workloads, its own or others; ``rest`` what stays idle in its lease
    (design note 0024). ``chosen``, with the order ``fragmentation``: the growth of the node's fragment in devices, its
    balance y, how many other nodes fitted. ``kept``, of a task that starts in room that was kept for it: why there was
    room. ``due``: its unit was the due one, which had waited longest for its turn (design note 0011).
    """

    attempt: int
    job: int
    task: int
    node: str
    ports: tuple[int, ...] = ()
    leader: int | None = None
    devices: tuple[Allocated, ...] = ()
    more_ports: tuple[int, ...] = ()
    claimed: bool = False
    parts: tuple[LeasePart, ...] = ()
    rest: tuple[LeasePart, ...] = ()
    chosen: Choice | None = None
    kept: Kept | None = None
    due: bool = False


class Claim(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Keep what the attempts ``victims`` free on ``nodes`` (names and numbers of tasks) for these tasks of a job.

    The tasks leave the queue, the victims count as stopping, and their groups begin to cool off. ``expected`` is the
    time (µs) at which the victims' grace is over. ``leased`` is what leases and victims of the job's workload bring:
    what its start leaves of it stays in the lease. Parts that are idle leave their leases at once, those that victims
    borrowed when these end.

    ``moves``: the victims are moved (design note 0027), so their groups do not cool off. The claim of a moved task
    keeps its target, and its only victim is its own attempt: the task is claimed once that has ended.
    """

    job: int
    tasks: tuple[int, ...]
    nodes: tuple[tuple[str, int], ...]
    victims: tuple[int, ...]
    expected: int
    leased: tuple[LeasePart, ...] = ()
    moves: bool = False


class ClaimDropped(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Undo the claim of these tasks of a job: its room is lost, and the tasks wait again."""

    job: int
    tasks: tuple[int, ...]


class UnitFormed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Task ``task`` of a job, which waits, and its ``companions`` (jobs and tasks) on its node, which wait or run, are
    one unit.
    """

    job: int
    task: int
    companions: tuple[tuple[int, int], ...]


class UnitDissolved(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The members of the unit that task ``task`` of a job leads wait, or run, alone again."""

    job: int
    task: int


class Preempt(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Signal this attempt and stop it after ``grace`` microseconds; it makes room for job ``by``."""

    attempt: int
    job: int
    task: int
    node: str
    grace: int
    by: int


class Stop(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Stop this attempt: its job was cancelled, its gang starts again as a whole, or it moves with what it depends on.

    ``end`` is the time (µs) at which it is expected to have ended. With an advance ``reservation`` (its name) it leaves
    the room of that, or the time of it is over, and waits again.
    """

    attempt: int
    job: int
    task: int
    node: str
    end: int
    reservation: str = ""


class AdvanceReservationMoved(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An advance reservation has these ``places`` (nodes and copies) from now on, since nodes of it are gone."""

    name: str
    places: tuple[tuple[str, int], ...]


class LeaseReduced(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Give the idle parts of a lease back to the cluster; a lease without a task of its workload is over."""

    lease: int


class WouldPreempt(msgspec.Struct, frozen=True, tag=True, gc=False):
    """In the mode ``observe``: this attempt would have been preempted for job ``by``; nothing was done."""

    attempt: int
    job: int
    task: int
    node: str
    by: int


Order: TypeAlias = Start | Preempt | Stop | WouldPreempt
Decision: TypeAlias = (
    Start
    | Preempt
    | Stop
    | WouldPreempt
    | Claim
    | ClaimDropped
    | UnitFormed
    | UnitDissolved
    | LeaseReduced
    | AdvanceReservationMoved
)


class Decisions(msgspec.Struct):
    """The result of one call of ``decide``, in order; ``more``: the budget ended before the work did."""

    items: list[Decision]
    more: bool = False

    @property
    def orders(self) -> list[Order]:
        """Those that the shell carries out or tells people; the others only change the ledger."""
        return [decision for decision in self.items if isinstance(decision, Order)]
