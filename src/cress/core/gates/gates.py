"""The list of gates, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from cress.core.books import Books
from cress.core.gates.advance import Gaps, ReservedNodes
from cress.core.gates.balance import BalanceGate
from cress.core.gates.gate import Gate
from cress.core.gates.guarantees import OthersGuarantees
from cress.core.gates.kept_quota import KeptQuota
from cress.core.gates.limits import Bounds, RunningLimits, UserLimit
from cress.core.gates.nodes import Clauses, ClosedNodes
from cress.core.gates.pending import Pending
from cress.core.gates.rights import HeldToRights, is_cooling, is_within_rights
from cress.core.jobs import GroupState, JobEntry, Rights
from cress.core.placing.vetoes import Veto

Row: TypeAlias = tuple[Gate[Any], ...]


class Gates:
    """All gates: a unit starts only if none of them refuses it.

    Those in ``lasting`` hold whatever the pass does, those in ``passing`` depend on it; ``without_room`` are asked only
    of a unit for which no room was found, which waits for no room if one of them refuses it.
    """

    def __init__(self, core: Books) -> None:
        self._core = core
        user_limit = UserLimit(core)
        self.pending = Pending(core, user_limit)
        self.kept_quota = KeptQuota(core)
        self.guarantees = OthersGuarantees(core)
        self.closed_nodes = ClosedNodes(core)
        self.reserved_nodes = ReservedNodes(core)
        self.lasting: Row = (
            self.closed_nodes,
            Gaps(core),
            Clauses(core),
            RunningLimits(core),
            user_limit,
            Bounds(core),
        )
        self.passing: Row = (HeldToRights(core, self.must_cool), BalanceGate(core, self.pending))
        self.without_room: Row = (self.guarantees, self.reserved_nodes)
        # Those that can refuse anything in this decision, for which groups and what else, and in this pass.
        self._open_lasting: Row = self.lasting
        self._open_passing: Row = self.passing
        self._open_without_room: Row = self.without_room
        self._opened_for: tuple[object, bool, bool] | None = None
        self._open: Row = (*self.lasting, *self.passing)

    def begin(self) -> None:
        """Find the gates that can refuse anything in the decision that begins."""
        core = self._core
        state = (core.groups.configured, bool(core.live), bool(core.advance_reservations))
        before = self._opened_for
        if before is None or before[0] is not state[0] or before[1:] != state[1:]:
            self._opened_for = state
            self._open_lasting, self._open_passing, self._open_without_room = map(
                _opened, (self.lasting, self.passing, self.without_room)
            )

    def begin_pass(self, *, several: bool) -> None:
        """Leave out what holds between groups, unless several of them wait; no quota is kept yet."""
        self.kept_quota.forget()
        passing = self._open_passing
        if not several:
            passing = tuple([gate for gate in passing if not gate.between_groups])
        self._open = self._open_lasting + passing

    def keep_quota_for(self, due: JobEntry) -> None:
        """Let the group of a due unit keep its quota for it until this pass ends."""
        self.kept_quota.keep_for(due)
        self._open = (self.kept_quota, *self._open)

    def rest(self) -> None:
        """End the decision: until the next one anything may change."""
        self.guarantees.rest()
        self.kept_quota.forget()

    def must_cool(self, group: GroupState) -> bool:
        """Return whether a group that was preempted takes no part beyond its quota: while a unit of another one waits
        for room (source G, design note 0011).
        """
        return is_cooling(self._core, group) and any(
            self._waits_for_room(other) for other in self._core.groups.waiting() if other is not group
        )

    def _waits_for_room(self, group: GroupState) -> bool:
        """Return whether a unit of the group waits for room, and not because it cools off itself."""
        cools = is_cooling(self._core, group)
        return any(
            all(gate.find(job) is None for gate in self.lasting)
            and self.guarantees.find(job) is None
            and (not cools or is_within_rights(self._core, job, Rights.ABOVE))
            for job in group.policy
        )

    def refuse(self, job: JobEntry) -> int | None:
        """Return when the first gate that refuses a unit ends to do so by itself (µs), and take note of it; ``None`` if
        none refuses it.
        """
        for gate in self._open:
            found = gate.find(job)
            if found is not None:
                job.group.verdict = gate.kind(found)
                if gate.of_owner:
                    job.group.policy.spared = True
                return gate.note(job, found)
        return None

    @property
    def timed(self) -> bool:
        """True if answers change with time, so that a failure is not worth remembering."""
        return self._core.options.balance_gate == "on"

    def refused_without_room(self, job: JobEntry) -> Gate[Any] | None:
        """Return the first gate for which a unit without room waits for something else than room."""
        for gate in self._open_without_room:
            found = gate.find(job)
            if found is not None:
                job.group.verdict = gate.kind(found)
                return gate
        return None

    def veto(self, job: JobEntry) -> Veto | None:
        """Return the first refusal as a reason; ``None`` if no gate refuses the unit."""
        return _first((*self.lasting, *self.passing), job)

    def veto_without_room(self, job: JobEntry) -> Veto | None:
        """Return the first refusal of a unit that has no room."""
        return _first(self.without_room, job)


def _opened(gates: Row) -> Row:
    return tuple([gate for gate in gates if gate.opens()])


def _first(gates: Iterable[Gate[Any]], job: JobEntry) -> Veto | None:
    for gate in gates:
        found = gate.found_last(job)
        if found is not None:
            return gate.veto(job, found)
    return None
