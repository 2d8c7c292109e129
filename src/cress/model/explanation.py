"""The answer to "why does my job wait, when will it run, what would change that"."""

from __future__ import annotations

import msgspec


class ClauseEffect(msgspec.Struct, frozen=True):
    """One clause of a waiting unit: it excludes ``excludes`` of ``of`` nodes, and ``alone`` of them are excluded by no
    other clause.
    """

    clause: str
    excludes: int
    of: int
    alone: int


class NearNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that is near to holding a task: what it ``lacks`` by dimension, the clauses that exclude it, and whether
    it is ``closed`` to new tasks.
    """

    node: str
    lacks: tuple[str, ...] = ()
    excluded_by: tuple[str, ...] = ()
    closed: bool = False


class Remedy(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change with which the unit would start now, checked on a copy of the scheduler; ``kind`` is for programs.

    ``change`` has, for a change of the job itself, the key of its job file with the new value, or the dimension of its
    ``resource`` with the new amount. For ``uncordon`` and ``back`` it has the ``node``, for ``quota`` the ``group`` and
    its ``ResourceQuota``; it is empty for other changes.
    """

    kind: str
    text: str
    change: dict[str, str] = {}


class ExpectedStart(msgspec.Struct, frozen=True, omit_defaults=True):
    """The start of the next unit (µs since the epoch), from a run of the scheduler forward and the errors of earlier
    ones: eight of ten jobs start between ``earliest`` and ``latest``. ``None``: not known.

    ``because`` is the job whose end is expected to let it start. ``behind`` other waiting jobs start before it, most of
    them of the group ``ahead``.
    """

    earliest: int | None = None
    likely: int | None = None
    latest: int | None = None
    because: int | None = None
    behind: int = 0
    ahead: str = ""


class NodeScore(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node for a running task: whether it runs ``here``, the terms of its rank with their values there, and the
    ``value`` by which nodes of equal rank are ordered; ``order`` says what that is (empty: by registration).
    """

    node: str
    here: bool = False
    terms: tuple[tuple[str, float], ...] = ()
    order: str = ""
    value: float | None = None


class Explanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Reason, expected start and remedies of a waiting job: a remedy is a single change that lets it start now.

    ``kind`` is that of the reason, for programs, and the anchor of its row in docs/waiting.md.
    """

    job: int
    reason: str
    start: ExpectedStart = ExpectedStart()
    clauses: tuple[ClauseEffect, ...] = ()
    nearest: tuple[NearNode, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    kind: str = ""


class Finding(msgspec.Struct, frozen=True):
    """One reason, as a sentence; ``kind`` is for programs."""

    kind: str
    text: str


class GroupExplanation(msgspec.Struct, frozen=True):
    """Reasons why a group does not get more: what it ``uses`` of its quota, and the reasons, the most general first."""

    group: str
    uses: str
    reasons: tuple[Finding, ...]


class NodeExplanation(msgspec.Struct, frozen=True):
    """Reasons why a node is empty or not fuller, with the number of its tasks and its free amounts by dimension."""

    node: str
    tasks: int
    free: dict[str, str]
    reasons: tuple[Finding, ...]


# Why no start is known, by the kind of the reason; of other kinds no end is known that would make room.
_UNKNOWN = {
    "after": "it first waits for what the reason names",
    "after_tasks": "it first waits for what the reason names",
    "uses": "it first waits for what the reason names",
    "held": "it is held",
    "unsatisfied": "no node satisfies its constraints",
    "no_node": "the nodes that could run it are closed",
    "never": "no node could ever run it",
    "never_satisfied": "no node could ever run it",
    "never_together": "all nodes together could never run it",
}


def why_unknown(kind: str) -> str:
    """Return why the start of a job is not known whose reason is of this ``kind``."""
    return _UNKNOWN.get(kind, "no known end of a running task makes room for it, or it is too far ahead")
