"""Fields of jobs, attempts, claims, leases and groups that a state keeps as they are.

Each is declared here, with its type and its first value, and nowhere else: the records of ``core/jobs.py`` and the rows
of a state (``state.py``) both have them from here. Times are microseconds on the clock of the core.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from cress.model.decisions import LeasePart
from cress.model.estimates import RunEstimate
from cress.model.resources import ResourceVector
from cress.model.times import NEVER

_Fields = TypeVar("_Fields", bound=msgspec.Struct)


def fields_of(record: msgspec.Struct, kind: type[_Fields]) -> dict[str, Any]:
    """Return the fields of a record that ``kind`` declares, by name; lists and dicts are copies."""
    found: dict[str, Any] = {}
    for name in kind.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, (list, dict)):
            value = value.copy()
        found[name] = value
    return found


class ForeseenJob(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Part of a job that is only foreseen: a scheduler that loses it works it out again.

    The clauses in ``soft`` (bits) are soft now. Before the pass number ``arrived`` nobody looked at it. It is held for
    the balance of the cluster since ``held_since``; ``drain`` are the nodes that are kept free for it, with the number
    of copies, ``homes``, by a task whose companions still run, the node where it is to start beside them.
    """

    soft: int = 0
    arrived: int = 0
    held_since: int | None = None
    drain: list[tuple[int, int]] = []
    homes: dict[int, int] = {}


class KeptJob(msgspec.Struct, kw_only=True, omit_defaults=True, eq=False):
    """Fields of a job.

    Tasks that never started are ``next_task`` … ``tasks - 1``; ``again`` is a heap of those queued again, ``later`` the
    tasks that are queued again at a time. Jobs that are ``held`` or ``behind`` another job are not offered.
    ``submitted`` fixes its place in the order. ``queued_at`` is since when tasks that never started wait, and a gang as
    a whole; ``waits`` is since when each task of ``again`` does, the longest first (not of gangs). ``was_on`` are the
    nodes that its waiting tasks were on (only of jobs that depend on others, or others on them). ``overdue_at`` is when
    it goes before all others of its group. In the mode ``observe``, ``would_preempt``: the victims of the next unit
    were reported.
    """

    submitted: int
    queued_at: int
    waiting: int
    next_task: int = 0
    again: list[int] = []
    waits: dict[int, int] = {}
    later: dict[int, int] = {}
    was_on: dict[int, int] = {}
    held: bool = False
    behind: int | None = None
    cancelled: bool = False
    estimate: RunEstimate | None = None
    overdue_at: int = NEVER
    would_preempt: bool = False


class KeptAttempt(msgspec.Struct, kw_only=True, omit_defaults=True, eq=False):
    """Fields of an attempt.

    ``charge`` is its charge to the group, ``amounts`` its request, or of an adopted task the amounts that it was found
    to have, ``ports`` its ports on the node. Its limit or its grace ends it at ``last_end``. It is ``due`` if it
    started because its unit was due; it ``yields`` what it has of leases to the unit that preempted it.
    """

    id: int
    task: int
    node: int
    start: int
    charge: tuple[int, ...]
    amounts: ResourceVector
    last_end: int
    ports: tuple[int, ...] = ()
    stopping: bool = False
    due: bool = False
    yields: bool = False


class KeptStranger(msgspec.Struct, kw_only=True, omit_defaults=True, eq=False):
    """Fields of a foreign holder of a lease: a task that was found running (``name``), or other foreign use (id 0)."""

    id: int
    name: str
    node: int
    start: int
    ports: tuple[int, ...] = ()


class KeptReservation(msgspec.Struct, kw_only=True, omit_defaults=True, eq=False):
    """Fields of a reservation; ``nodes`` has the number of copies on each node.

    It is ``hopeless`` if no node that the clauses of its unit allow is large enough, or not all together: no later unit
    can delay it. It is ``lasting`` if its nodes are drained until the unit starts.
    """

    start: int
    nodes: list[tuple[int, int]]
    in_force: bool = False
    hopeless: bool = False
    lasting: bool = False


class KeptClaim(msgspec.Struct, kw_only=True, omit_defaults=True, eq=False):
    """Fields of a claim.

    ``tasks`` are those of its unit, ``victims`` the attempts that make room, ``expected`` is the end of their grace,
    ``since`` since when the unit waits, ``leased`` what leases and victims of its workload bring. It is one that
    ``moves`` its victims; ``moved`` is the task that is moved to its node while its attempt, the only victim, still
    runs: it has no tasks until then.
    """

    tasks: list[int]
    victims: list[int]
    expected: int
    since: int
    leased: tuple[LeasePart, ...] = ()
    moved: int | None = None
    moves: bool = False


class KeptLease(msgspec.Struct, kw_only=True, omit_defaults=True, eq=False):
    """Fields of a lease of a workload on one node.

    ``id`` is the number of the attempt for which it was got, ``end`` when its idle parts are expected to be given back;
    ``idle_since`` is when its last task ended, NEVER while it has one. ``wanted`` is what one with a holder asks for:
    more while borrowers have not given back; ``mask`` are all devices of such a lease.
    """

    id: int
    node: int
    idle_since: int = NEVER
    end: int = NEVER
    wanted: ResourceVector = ()
    mask: int = 0


class KeptGroup(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Fields of a group: when tasks of it were preempted last, and the job for which that was."""

    preempted_at: int | None = None
    preempted_for: int | None = None
