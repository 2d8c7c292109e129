"""Nodes: no node satisfies the clauses of a unit at the moment, or all nodes that could hold it are closed."""

from __future__ import annotations

import msgspec

from cress.core.books import Books
from cress.core.gates.gate import Gate
from cress.core.gates.room import busy, closed_nodes, no_room
from cress.core.jobs import JobEntry
from cress.core.placing.vetoes import Verdict, Veto


class Clauses(Gate[bool]):
    """A unit waits for another job, a port, a label or a licence; a later job may be the one that it waits for."""

    def __init__(self, core: Books) -> None:
        self._core = core

    def opens(self) -> bool:
        return bool(self._core.live)

    def find(self, job: JobEntry) -> bool | None:
        return True if job.shape.match is not None and not self._core.fit.within_reach(job.shape) else None

    def kind(self, found: bool) -> Verdict:
        return Verdict.UNSATISFIED

    def veto(self, job: JobEntry, found: bool) -> Veto:
        return no_room(self._core, job)


class ClosedNodes(Gate[bool]):
    """All nodes that could hold a unit are absent, cordoned or overloaded: it waits for a node, not for room."""

    def __init__(self, core: Books) -> None:
        self._core = core

    def find(self, job: JobEntry) -> bool | None:
        if job.shape.open_at == self._core.cluster.usable_changes:
            return None
        return self._core.fit.waits_for_node(job.shape) or None

    def kind(self, found: bool) -> Verdict:
        return Verdict.NO_NODE

    def veto(self, job: JobEntry, found: bool) -> Veto:
        closed = closed_nodes(self._core, job)
        if not closed:
            return no_room(self._core, job)
        return msgspec.structs.replace(super().veto(job, found), closed=closed, overloaded=busy(self._core, job))
