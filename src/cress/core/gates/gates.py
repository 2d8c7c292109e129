"""The gates in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np

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
from cress.core.groups.running_limits import head_of, within
from cress.core.jobs import GroupState, JobEntry, Rights, has_charge_of_shape
from cress.core.placing.shape import Shape
from cress.core.placing.vetoes import Veto
from cress.core.tables.arrays import Bools

Row: TypeAlias = tuple[Gate[Any], ...]

# The number of jobs of a group among which its first unit is looked for.
_LOOKED_AT = 100
# The number of different units that are asked about for each group.
_SHAPES = 8


class Gates:
    """All gates: a unit starts only if none of them refuses it.

    Those in ``lasting`` do not depend on the pass, those in ``passing`` do. Those in ``without_room`` are checked only
    for a unit that found no room; if one refuses it, the unit waits for something other than room.
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
        self.rights = HeldToRights(core, self.must_cool)
        self.passing: Row = (self.rights, BalanceGate(core, self.pending))
        self.without_room: Row = (self.guarantees, self.reserved_nodes)
        # True if answers change with time, so that failures must not be remembered.
        self.timed = core.options.balance_gate == "on"
        # The gates that can refuse a unit, the state for which they were found, and those of this pass.
        self.open_without_room: Row = self.without_room
        # The gate that refused the last unit.
        self.refused_by: Gate[Any] = self.closed_nodes
        self._open_between: Row = (*self.lasting, *self.passing)
        self._open_alone: Row = self._open_between
        self._configured: object = None
        self._without_clauses = self._without_reservations = False
        self._open: Row = (*self.lasting, *self.passing)

    def begin_pass(self, *, several: bool) -> None:
        """Find the gates that can refuse any unit in the pass that begins; gates between groups only if several groups
        wait.
        """
        core = self._core
        # Compared by identity: the tuple of groups is replaced when it changes, and the others are truth values.
        configured, free, open_ = core.groups.configured, not core.live, not core.advance_reservations.by_name
        if (
            configured is not self._configured
            or free is not self._without_clauses
            or open_ is not self._without_reservations
        ):
            self._configured, self._without_clauses, self._without_reservations = configured, free, open_
            self.open_without_room = _opened(self.without_room)
            self._open_between = _opened((*self.lasting, *self.passing))
            self._open_alone = tuple(gate for gate in self._open_between if not gate.between_groups)
        self._open = self._open_between if several else self._open_alone

    def keep_quota_for(self, due: JobEntry) -> None:
        """Let the group of a due unit keep its quota for it until the next pass begins."""
        self.kept_quota.keep_for(due)
        self._open = (self.kept_quota, *self._open)

    def rest(self) -> None:
        """End the decision; anything may change before the next one."""
        self.guarantees.rest()
        if self.kept_quota.group is not None:
            self.kept_quota.forget()

    def hold_cooling_groups(self) -> None:
        """Hold the groups to their rights that were preempted a short time ago while other groups wait for room."""
        core = self._core
        if core.preempted is None:
            core.preempted = [group for group in core.groups if group.kept.preempted_at is not None]
        for group in core.preempted:
            group.held_to = Rights.ABOVE if self.must_cool(group) else Rights.ANY
        # Groups that cool no more until they are preempted again need no further look.
        core.preempted = [group for group in core.preempted if core.now < group.cools_at_most_until()]

    def must_cool(self, group: GroupState) -> bool:
        """Return True if a preempted group must keep to its quota, while another group waits for room.

        (Source G, design note 0011.)
        """
        return is_cooling(self._core, group) and any(
            self._waits_for_room(other) for other in self._core.groups.waiting() if other is not group
        )

    def _waits_for_room(self, group: GroupState) -> bool:
        """Return True if a unit of the group waits for room, and not for the group's own cooling-off."""
        cools = is_cooling(self._core, group)
        beyond: set[Shape] = set()
        for job in group.policy:
            if job.shape not in beyond and self._may_wait_for_room(job):
                if self._has_rights(job, cools):
                    return True
                if has_charge_of_shape(job):
                    beyond.add(job.shape)
        return False

    def _unit_waits_for_room(self, job: JobEntry, cools: bool) -> bool:
        return self._may_wait_for_room(job) and self._has_rights(job, cools)

    def _may_wait_for_room(self, job: JobEntry) -> bool:
        return all(gate.find(job) is None for gate in self.lasting)

    def _has_rights(self, job: JobEntry, cools: bool) -> bool:
        return self.guarantees.find(job) is None and (not cools or is_within_rights(self._core, job, Rights.ABOVE))

    def wanted_from(self, group: GroupState) -> Bools:
        """Return the nodes that waiting units of other groups than ``group`` could use, at the latest when empty."""
        core, seen = self._core, set[int]()
        found: Bools = np.zeros(core.cluster.node_count, np.bool_)
        for other in core.groups.waiting():
            cools = is_cooling(core, other)
            for job in other.policy if other is not group else ():
                if job.shape.row in seen or not self._unit_waits_for_room(job, cools):
                    continue
                seen.add(job.shape.row)
                for kind in job.shape.every_kind:
                    found |= core.fit.room_when_empty(kind) > 0
                if found.all():
                    return found
        return found

    def refuse(self, job: JobEntry) -> int | None:
        """Return the time (µs) at which the first gate that refuses a unit ends to do so by itself, and note the
        refusal.

        ``None`` if no gate refuses it.
        """
        for gate in self._open:
            found = gate.find(job)
            if found is not None:
                job.group.verdict = gate.kind(found)
                if gate.of_owner:
                    job.group.policy.spared = True
                self.refused_by = gate
                return gate.note(job, found)
        return None

    def refused_without_room(self, job: JobEntry) -> Gate[Any] | None:
        """Return the first gate that makes a unit without room wait for something other than room; ``None`` without
        one.
        """
        for gate in self.open_without_room:
            found = gate.find(job)
            if found is not None:
                job.group.verdict = gate.kind(found)
                return gate
        return None

    def would_refuse(self, job: JobEntry) -> bool:
        """Return True if a gate would refuse a unit now; nothing is noted."""
        return any(gate.find(job) is not None for gate in self._open)

    def passed_over(self, job: JobEntry) -> bool:
        """Return True if a unit waits for something other than room, so that it takes no place of another."""
        return any(gate.find(job) is not None for gate in (*self._open, *self.open_without_room))

    def first_with_a_place(self, group: GroupState) -> JobEntry | None:
        """Return the first waiting job of a group whose unit is not passed over, of those that are looked at."""
        head = group.policy.head()
        if head is None or not self.passed_over(head):
            return head
        return next(
            (job for job in islice(group.policy.looked_at(self.passed_over), _LOOKED_AT) if not self.passed_over(job)),
            None,
        )

    def next_of(self, group: GroupState) -> Iterator[JobEntry]:
        """Yield the units of a group for which room may be made next: the first that waits for room, and before it
        those that only the gates without room pass over.

        Where the policy offers units behind a blocked one, these may come first once one of them has started.
        """
        head = head_of(group)
        if head is None:
            return
        behind = (job for job in islice(group.policy, _LOOKED_AT) if job is not head)
        shapes = set[int]()
        waits = False
        for job in within(group, chain((head,), behind)):
            if (waits and job.shape.row in shapes) or self.would_refuse(job):
                continue
            yield job
            shapes.add(job.shape.row)
            waits = waits or all(gate.find(job) is None for gate in self.open_without_room)
            if waits and (not group.policy.offers_more or len(shapes) == _SHAPES):
                return

    def veto(self, job: JobEntry) -> Veto | None:
        """Return the first refusal as a reason; ``None`` if no gate refuses the unit."""
        return _first((*self.lasting, *self.passing), job)

    def veto_without_room(self, job: JobEntry) -> Veto | None:
        """Return the first refusal of a unit without room; ``None`` if no gate refuses it."""
        return _first(self.without_room, job)


def _opened(gates: Row) -> Row:
    return tuple([gate for gate in gates if gate.opens()])


def _first(gates: Iterable[Gate[Any]], job: JobEntry) -> Veto | None:
    for gate in gates:
        found = gate.found_last(job)
        if found is not None:
            return gate.veto(job, found)
    return None
