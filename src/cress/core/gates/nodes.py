"""Nodes: no node satisfies the clauses of a unit at the moment, or all nodes that could hold it are closed."""

from __future__ import annotations

from typing import Any

from cress.core.gates.gate import Gate
from cress.core.gates.room import busy, closed_nodes, no_room
from cress.core.jobs import JobEntry
from cress.core.placing.vetoes import Verdict, Veto


class Clauses(Gate[bool]):
    """A unit waits for another job, a port, a label or a licence; a later job may be the one that it waits for."""

    verdict = Verdict.UNSATISFIED

    def opens(self) -> bool:
        return bool(self._core.live)

    def find(self, job: JobEntry) -> bool | None:
        return True if job.shape.match is not None and not self._core.fit.within_reach(job.shape) else None

    def veto(self, job: JobEntry, found: bool) -> Veto:
        return no_room(self._core, job, refused=True)


class ClosedNodes(Gate[bool]):
    """All nodes that could hold a unit are absent, cordoned or overloaded: it waits for a node, not for room."""

    verdict = Verdict.NO_NODE

    def find(self, job: JobEntry) -> bool | None:
        if job.shape.open_at == self._core.cluster.usable_changes:
            return None
        return self._core.fit.waits_for_node(job.shape) or None

    def veto(self, job: JobEntry, found: bool) -> Veto:
        veto = super().veto(job, found)
        return veto if veto.closed else no_room(self._core, job, refused=True)

    def told(self, job: JobEntry, found: bool) -> dict[str, Any]:
        return {"closed": closed_nodes(self._core, job), "overloaded": busy(self._core, job)}
