"""Fields of jobs, attempts, claims, leases and groups that a state stores unchanged.

Each is declared here only, with its type and its first value: the records of ``core/jobs.py`` and the rows of a state
(``state.py``) inherit them. Times are microseconds on the clock of the core.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, get_origin

import msgspec

from cress.model.decisions import LeasePart
from cress.model.estimates import RunEstimate
from cress.model.resources import ResourceVector
from cress.model.times import NEVER

_Fields = TypeVar("_Fields", bound=msgspec.Struct)


def fields_of(record: msgspec.Struct, kind: type[_Fields]) -> dict[str, Any]:
    """Return the fields of a record that ``kind`` declares, by name; lists and dicts are copies."""
    found = {name: getattr(record, name) for name in kind.__struct_fields__}
    for name in _copied(kind):
        found[name] = found[name].copy()
    return found


@cache
def _copied(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields of a kind that are lists or dicts."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if get_origin(field.type) in (list, dict))


class ForeseenJob(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The foreseen part of a job: a scheduler without it computes it again.

    The clauses in ``soft`` (bits) are soft now. No pass before number ``arrived`` examined the job. The balance gate
    holds it since ``held_since``; ``drain`` are the nodes kept free for it, with the number of copies; ``homes`` are,
    by task with running companions, the nodes where it is to start beside them.
    """

    soft: int = 0
    arrived: int = 0
    held_since: int | None = None
    drain: list[tuple[int, int]] = []
    homes: dict[int, int] = {}


class KeptJob(msgspec.Struct, kw_only=True, omit_defaults=True, eq=False):
    """Fields of a job.

    Tasks that never started are ``next_task`` … ``tasks - 1``; ``again`` is a heap of tasks queued again, ``later``
    are tasks in backoff with their times; before them, with the time NEVER, those that wait until they are released.
    Jobs that are ``held`` or ``behind`` another job are not offered. ``submitted`` determines its place in the order;
    attempts from ``first_attempt`` on started after it. ``queued_at`` is the time since which tasks that never started,
    or a whole gang, wait; ``waits`` are those times for the tasks in ``again``, longest wait first (not for gangs).
    ``was_on`` are the last nodes of its waiting tasks (only for jobs that depend on others, or others on them). At
    ``overdue_at`` it goes before all others of its group. In the mode ``observe``, ``would_preempt`` means that the
    victims of the next unit were reported. A job that ``starts_with`` others has ``begun`` once they have started; from
    then on it starts by itself.
    """

    submitted: int
    queued_at: int
    waiting: int
    first_attempt: int = 0
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
    begun: bool = False


class KeptAttempt(msgspec.Struct, kw_only=True, omit_defaults=True, eq=False):
    """Fields of an attempt.

    ``charge`` is its charge to the group, ``amounts`` its request, or the amounts found for an adopted task, ``ports``
    its ports on the node. Its limit or its grace ends it at ``last_end``. It is ``due`` if it started as a due unit;
    it ``yields`` its parts of leases to the unit that preempted it, or it only gives back a loan and ``keeps`` those of
    its own workload for their leases.
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
    keeps: bool = False


class KeptStranger(msgspec.Struct, kw_only=True, omit_defaults=True, eq=False):
    """Fields of a foreign holder of a lease: a task found running (``name``), or other foreign use (id 0)."""

    id: int
    name: str
    node: int
    start: int
    ports: tuple[int, ...] = ()


class KeptReservation(msgspec.Struct, kw_only=True, omit_defaults=True, eq=False):
    """Fields of a reservation; ``nodes`` contains the number of copies on each node.

    It is ``hopeless`` if the nodes that the clauses of its unit allow are too small, each or all together; then no
    later unit can delay it. It is ``lasting`` if its nodes are drained until the unit starts.
    """

    start: int
    nodes: list[tuple[int, int]]
    in_force: bool = False
    hopeless: bool = False
    lasting: bool = False


class KeptClaim(msgspec.Struct, kw_only=True, omit_defaults=True, eq=False):
    """Fields of a claim.

    ``tasks`` are those of its unit, ``victims`` the attempts that make room, ``expected`` is the end of their grace,
    ``since`` the time since which the unit waits, ``leased`` the parts from leases and victims of its workload. With
    ``moves`` its victims are moved. ``moved`` is the task that is moved to its node; while its attempt, the only
    victim, still runs, the claim has no tasks.
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

    ``id`` is the number of the attempt that created it, ``end`` the expected return of its idle parts; ``idle_since``
    is the end of its last task, NEVER while it has one. ``wanted`` is the amount requested by a holder, which may
    exceed what it has until borrowers give back; ``mask`` are all devices of a held lease.
    """

    id: int
    node: int
    idle_since: int = NEVER
    end: int = NEVER
    wanted: ResourceVector = ()
    mask: int = 0


class KeptGroup(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Fields of a group: the last time at which its tasks were preempted, and the job for which they were."""

    preempted_at: int | None = None
    preempted_for: int | None = None
