"""Notices of a step: changed states of nodes and data, with the new value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cress.core.scheduler import Scheduler
from cress.lifecycle.effects import (
    CordonChanged,
    DataMissing,
    DeadlineAtRisk,
    DeadlineMissed,
    LeaseChanged,
    LeaseResized,
    NodeDrained,
    Notice,
    Overloaded,
    Recovered,
    RolledBack,
    RoundEnded,
    RunSkipped,
    TaskMoved,
)
from cress.lifecycle.tables.rows import LiveNode


class Noticed:
    """The earlier values of states that handlers change in one step: each is kept before its first write.

    A value that is changed and changed back gives no notice.
    """

    def __init__(self) -> None:
        self._cordons: dict[str, tuple[bool, str]] = {}
        self._overloads: dict[str, bool] = {}
        self._problems: dict[str, str] = {}
        self._rolled_back: dict[int, str] = {}
        self._deadlines: list[DeadlineAtRisk | DeadlineMissed] = []
        self._leases: list[LeaseChanged | LeaseResized] = []
        self._moves: list[TaskMoved | RoundEnded] = []
        self._skipped: list[RunSkipped] = []
        self._emptier: dict[str, None] = {}

    def cordon(self, node: LiveNode) -> None:
        """Keep the cordon or rest of a node before a change, or before the node is removed."""
        self._cordons.setdefault(node.node.name, node.barred)

    def load(self, core: Scheduler, node: str) -> None:
        """Keep the overload state of a node before the scheduler judges it again."""
        self._overloads.setdefault(node, _overload(core, node) is not None)

    def data(self, core: Scheduler, data: str) -> None:
        """Keep the reason of unlocated data before the scheduler gets a new one."""
        self._problems.setdefault(data, _problem(core, data))

    def rolled_back(self, job: int, why: str) -> None:
        """Note that the newest version of a service or database is rolled back."""
        self._rolled_back[job] = why

    def deadline(self, notice: DeadlineAtRisk | DeadlineMissed) -> None:
        """Keep the notice of a deadline."""
        self._deadlines.append(notice)

    def lease(self, notice: LeaseChanged | LeaseResized) -> None:
        """Keep the notice of a lease."""
        self._leases.append(notice)

    def skipped(self, notice: RunSkipped) -> None:
        """Keep the notice of a skipped run of a cron job."""
        self._skipped.append(notice)

    def moves(self, notice: TaskMoved | RoundEnded) -> None:
        """Keep the notice of a move."""
        self._moves.append(notice)

    def emptier(self, node: str) -> None:
        """Note that a drain of a node began, or that a task ended on a node that is drained."""
        self._emptier[node] = None

    def notices(
        self, nodes: Mapping[str, LiveNode], core: Scheduler, attempts_on: Mapping[str, object]
    ) -> Iterator[Notice]:
        """Yield the changed states: cordons in the order of nodes, loads by name, data in the order of the inputs.

        ``attempts_on`` has the nodes with attempts.
        """
        for name in self._newly_barred_or_free(nodes):
            yield CordonChanged(name, *nodes[name].barred)
        now = {name: _overload(core, name) for name in sorted(self._overloads)}
        for name, what in now.items():
            if what is not None and not self._overloads[name]:
                yield Overloaded(name, what)
        for name, what in now.items():
            # The load of a removed node is gone, which is not a recovery.
            if what is None and self._overloads[name] and name in nodes and nodes[name].connected:
                yield Recovered(name)
        for data, before in self._problems.items():
            problem = _problem(core, data)
            if problem and problem != before:
                yield DataMissing(data, problem)
        for job, why in self._rolled_back.items():
            yield RolledBack(job, why)
        yield from self._deadlines
        yield from self._leases
        yield from self._moves
        yield from self._skipped
        for name in self._emptier:
            if name in nodes and nodes[name].draining and name not in attempts_on:
                yield NodeDrained(name)

    def _newly_barred_or_free(self, nodes: Mapping[str, LiveNode]) -> list[str]:
        before = self._cordons
        changed = {name: None for name in before if name in nodes and nodes[name].barred != before[name]}
        # Only the table knows the order of several.
        return list(changed) if len(changed) < 2 else [name for name in nodes if name in changed]


def _overload(core: Scheduler, node: str) -> str | None:
    return core.cluster.overloaded[core.cluster.index[node]]


def _problem(core: Scheduler, data: str) -> str:
    return core.relations.locations.problems.get(data, "")
