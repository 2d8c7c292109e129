"""Decisions: facts that the core makes, as values; the shell carries them out and answers with events.

A decision contains all that it changes, so ``Scheduler.apply`` brings another scheduler into the same state.
``Preempt`` and ``WouldPreempt`` are instructions for the shell; the ``Claim`` before a ``Preempt`` marks its victims.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cress.model.node import Allocated
from cress.model.resources import ResourceVector

# Reasons for the choice of a node: growth of its device fragment, its balance y after placing, number of other nodes
# that fit.
Choice: TypeAlias = tuple[float, float, int]
# Reasons why room was kept for a task: others were ``preempted`` or made room by ``moves``, it was ``moved`` itself, or
# its start was ``planned``; and the number of tasks that left for it.
Kept: TypeAlias = tuple[str, int]


class LeasePart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of the lease ``lease`` of a workload: amounts, and at most one device with its share of them (id "": no
    device).
    """

    lease: int
    amounts: ResourceVector
    kind: str = ""
    device: str = ""


class Start(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Start task ``task`` (index from 0) of job ``job`` on ``node``; ``attempt`` is never used twice.

    ``ports`` are the numbers of the job's ports there, in the job's order; ``devices`` are the allocated devices, in
    the node's order. ``leader``: the job on which it depends and with a task of which it starts together.
    ``more_ports`` are further ports that clauses of the job take. ``claimed``: the task was part of a ``Claim``.
    ``parts`` are taken from leases of workloads, its own or others; ``rest`` stays idle in its lease (design note
    0024). ``chosen``, with the order ``fragmentation``: the growth of the node's fragment in devices, its balance y,
    and the number of other nodes that fitted. ``kept``: why room was kept for the task, if it was. ``due``: its unit
    was the due one, which had waited longest for its turn (design note 0011).
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
    """Keep the amounts that the attempts ``victims`` free on ``nodes`` (names and task numbers) for these tasks of a
    job.

    The tasks leave the queue, the victims count as stopping, and their groups begin to cool off. ``expected`` is the
    end of the victims' grace (µs). ``leased`` are the contributions of leases and victims of the job's workload; the
    start leaves the unused amounts in the lease. Idle parts leave their leases at once, parts that victims borrowed
    when these end.

    ``moves``: the victims are moved (design note 0027), so their groups do not cool off. The claim of a moved task
    keeps its target; its only victim is its own attempt, and the task is claimed once that has ended.
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
    """Join the waiting task ``task`` of a job and its waiting or running ``companions`` (jobs and tasks) on its node
    into one unit.
    """

    job: int
    task: int
    companions: tuple[tuple[int, int], ...]


class UnitDissolved(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Dissolve the unit that task ``task`` of a job leads: each member waits or runs alone again."""

    job: int
    task: int


class Preempt(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Signal this attempt and stop it after ``grace`` µs; it makes room for job ``by``."""

    attempt: int
    job: int
    task: int
    node: str
    grace: int
    by: int


class Stop(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Stop this attempt: its job was cancelled, its gang restarts as a whole, or it moves with the job on which it
    depends.

    ``end`` is the expected end (µs). With an advance ``reservation`` (its name): the attempt leaves the room of that
    reservation, or its time is over, and the task waits again.
    """

    attempt: int
    job: int
    task: int
    node: str
    end: int
    reservation: str = ""


class AdvanceReservationMoved(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Change the ``places`` (nodes and copies) of an advance reservation that has lost nodes."""

    name: str
    places: tuple[tuple[str, int], ...]


class LeaseReduced(msgspec.Struct, frozen=True, tag=True, gc=False, omit_defaults=True):
    """Return idle parts of a lease to the cluster: these ``parts``, or all of them; an empty lease ends.

    If all of them return, a lease without a task of its workload ends, whatever it has lent.
    """

    lease: int
    parts: tuple[LeasePart, ...] = ()


class WouldPreempt(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Report, in the mode ``observe``, that this attempt would have been preempted for job ``by``; nothing is done."""

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
    """The result of one call of ``decide``, in order; ``more``: the budget was used up before the work was done."""

    items: list[Decision]
    more: bool = False

    @property
    def orders(self) -> list[Order]:
        """The decisions that the shell carries out or reports; the others only change the ledger."""
        return [decision for decision in self.items if isinstance(decision, Order)]
