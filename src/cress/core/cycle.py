"""The cycle: a pass makes one proposal and applies it as a fact (source G, figure 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cress.core.books import Books
from cress.core.gates.gates import Gates
from cress.core.gates.rights import claims_wait, stays_within_quota
from cress.core.groups.guarantees import may_be_within_quota
from cress.core.groups.running_limits import head_of, may_run
from cress.core.groups.urgency_order import by_deadline, by_urgency
from cress.core.jobs import GroupState, JobEntry, Rights
from cress.core.making_room.evictions import Evictions
from cress.core.making_room.own_parts import OwnParts
from cress.core.offers import Offers
from cress.core.passes import Decided, Pass
from cress.core.starting.starter import Starter
from cress.core.tree.kinds import is_guaranteed
from cress.core.tree.tree import below_quota_against
from cress.core.unit_homes import choose_homes
from cress.model.decisions import Claim, Start

# The rights of groups that may take room, in the order in which they are served; the last ones exist in a tree only.
_RIGHTS = (Rights.QUOTA, Rights.OWN)
_RIGHTS_IN_TREE = (*_RIGHTS, Rights.ABOVE)


@dataclass(eq=False)
class Cycle:
    """Runs passes: in each, groups come in their order, and each gets an offer of the units of its policy."""

    _books: Books
    _decided: Decided
    _gates: Gates
    _starter: Starter
    _own_parts: OwnParts
    _evictions: Evictions
    _offers: Offers

    def __post_init__(self) -> None:
        books = self._books
        self._groups = books.groups
        self._turns = books.turns
        self._rejoining = books.units.rejoining
        self._quota_only = books.reservations.quota_only
        self._order = {"urgency": by_urgency, "deadline": by_deadline}.get(books.options.order)
        # The last pass, or the one under way.
        self.last = Pass(self._gates, books.now)

    def run_pass(self, now: int) -> bool:
        """Run one pass of the cycle: place one unit, or make room for one. Return True if it did.

        1. nothing was tried yet;          2. groups in the order of used / quota;
        3. for each group in that order:
           a. while it cools off and others wait for room, it is offered nothing beyond its quota;
           b. skip it if none of its jobs waits (then it has no place in the order);
           c. behind a blocked unit, only groups below their quota go on (``quota_only``), or every group beside the
              reservations of the units ahead (``reserve``);
           d. its policy offers units;     e. the first unit that fits starts, and the pass ends;
           f. else fragments may make room for the blocked unit;
           g. else it may take room from other groups, or from lower priorities of its own, which ends the pass; a unit
              passed over for the MaxQuota of an ancestor group may take room from others in that group;
           h. else it is one more blocked unit ahead of the next group.
        4. nothing placed: wait for an event.
        """
        books, gates, groups = self._books, self._gates, self._groups
        current = self.last = Pass(gates, now)
        books.pass_number += 1
        gates.guarantees.begin_pass()
        if groups.timed:
            self._follow_overdue()
        if self._rejoining:
            self._follow_units(current)
        if books.preempted != []:
            gates.hold_cooling_groups()
        groups.tree.settle()
        order = groups.tree.order
        alone = groups.only_one()
        several = current.several = bool(order) and alone is None
        gates.begin_pass(several=several)
        if self._start_before_others(current):
            return True
        if not order:
            return False
        # A single queue keeps the turn of its first unit anyway, unless other units of the queue may take its room, or
        # those of groups whose jobs all run at the moment.
        current.takes_turns = (
            alone is None
            or alone.policy.overtakes
            or alone.options.preempt_within != "off"
            or self._others_may_run(alone)
        )
        if several and (self._serve_owed(current) or self._start_claimed(current)):
            return True
        for group in self._groups_in_order(current) if alone is None else (alone,):
            group.visited = books.pass_number
            if current.blocked and self._is_held_to_quota(group, current):
                if self.others_may_be_below_quota():
                    continue
                return False
            if self._offers.consider(group, current):
                return True
        return False

    def _serve_owed(self, current: Pass) -> bool:
        """Serve the groups that may take room, before other groups start anything above their quotas.

        Return True if something was decided. Without this, the next step would take back what those groups started.
        Units within quotas come first, because room beyond a quota can be taken too.
        """
        if current.served:
            return False
        current.served = current.takes_turns = True
        if not self._groups.preempts:
            return False
        current.serving = True
        decided = self._serve_in_rounds(current)
        current.serving = False
        return decided

    def _serve_in_rounds(self, current: Pass) -> bool:
        groups = self._groups
        for rights in _RIGHTS_IN_TREE if groups.tree.inner else _RIGHTS:
            ordered = list(self._groups_in_order(current)) if groups.tree.inner else self._groups_in_order(current)
            for i, group in enumerate(ordered):
                if self._may_be_owed(group, rights, current):
                    if isinstance(ordered, list) and rights is not Rights.QUOTA:
                        # What groups may take on behalf of those above them is served in the last round.
                        current.to_come = ordered if rights is Rights.OWN else ordered[i + 1 :]
                    group.visited, before = self._books.pass_number, group.held_to
                    # Looked for before the group is held to its rights: these may refuse the very unit.
                    head, begun = self._gates.first_with_a_place(group), len(self._decided.items)
                    group.held_to = rights
                    decided = self._offers.consider(group, current)
                    group.held_to, current.to_come = before, []
                    if decided:
                        others_first = head is not None and head.queued and not self._has_started(head, begun)
                        if head is not None and others_first and may_be_within_quota(head, self._books.cluster):
                            # It would never be the first blocked unit of a pass.
                            current.wake_at(self._turns.note(head, current.now))
                        return True
                elif not group.below_quota and self._order is None and groups.are_in_order_of_need:
                    # All groups behind it are above their quotas.
                    break
        return False

    def _start_claimed(self, current: Pass) -> bool:
        """Start a claimed unit that takes its group beyond its quota, or give up its room to a unit that came to be
        owed it.

        Return True if something was decided.
        """
        if not self._books.claims:
            return False
        waiting = [group for group in self._groups_in_order(current) if group.claims and claims_wait(group)]
        return any(self._offers.start_claimed(group, current) for group in waiting)

    def _may_be_owed(self, group: GroupState, rights: Rights, current: Pass) -> bool:
        """Return True if a group may take room for some unit, before the unit itself is examined."""
        if group.options.preemption != "on":
            return False
        if group.kinds is not None or group.needs_preemption():
            return True
        if rights is Rights.ABOVE and any(node.needs_preemption() for node in group.path()):
            return True
        head = head_of(group)
        return head is not None and self._evictions.may_take_as_urgent(head, current)

    def others_may_be_below_quota(self) -> bool:
        """Return True if groups below their quotas may come after a group above its own.

        So it is in a tree, where deadlines order the groups, and where quotas name kinds of nodes.
        """
        return bool(self._groups.tree.inner) or self._order is not None or bool(self._groups.kinds)

    def _is_held_to_quota(self, group: GroupState, current: Pass) -> bool:
        """Return True if blocked units let only groups below their quotas go on, and this group is above its own."""
        if not self._quota_only:
            return False
        head = head_of(group) if self._groups.kinds else None
        shape = None if head is None else head.shape
        # In a flat list every blocked unit gives the same answer.
        others = (job for job in reversed(current.blocked) if not below_quota_against(group, job.group, shape))
        behind = next(others, None)
        if behind is None:
            return False
        group.visited = 0
        group.held_behind = current.last_blocked = behind
        return True

    def _groups_in_order(self, current: Pass) -> Iterable[GroupState]:
        groups = self._groups
        if self._order is None:
            found = groups.in_order()
            return self._owed_first(found) if groups.kinds and not groups.tree.inner else found
        ordered, change = self._order(groups.in_order(), current.now)
        current.wake_at(change)
        return ordered

    def _owed_first(self, groups: Iterable[GroupState]) -> list[GroupState]:
        """Return the groups, those first whose next unit is guaranteed.

        Where quotas name kinds of nodes, used / quota alone does not give this order.
        """
        heads = ((group, head_of(group)) for group in groups)
        owed = [(head is not None and not is_guaranteed(group, head.shape), group) for group, head in heads]
        return [group for _, group in sorted(owed, key=lambda found: found[0])]

    def _follow_overdue(self) -> None:
        """Let limits count while the head of a group is overdue."""
        overdue = False
        for group in self._groups.timed:
            late = group.policy.head_is_overdue()
            # A unit kept back by a limit of its group is not late because of a wrong estimate.
            overdue = overdue or (late and (not group.counters or head_of(group) is group.policy.head()))
        self._books.expected.count_limits(overdue)

    def _start_before_others(self, current: Pass) -> bool:
        """Start a unit in the advance reservation of its group or in its leases, in any order of groups, or the due
        unit.

        Return True if one started.
        """
        if self._books.advance_reservations.by_name:
            for group in self._groups_in_order(current):
                if self._starter.start_inside(group, current):
                    return True
        if self._own_parts.start_any(current):
            return True
        return bool(self._turns.since) and self._start_due(current)

    def _start_due(self, current: Pass) -> bool:
        """Start the due unit if it fits, else put it ahead of all others; return True if it started."""
        books, gates = self._books, self._gates
        for job in self._turns.due(books.jobs, current.now, gates.passed_over):
            group = job.group
            if current.refuses(job) or gates.guarantees.find(job) is not None:
                continue
            # Only other groups can take the room of a group beyond its quota. Where quotas name kinds of nodes, another
            # kind may be owed to the group.
            if self._others_may_run(group) and group.kinds is None and may_be_within_quota(job, books.cluster):
                gates.keep_quota_for(job)
            if current.several and not stays_within_quota(books, job) and self._serve_owed(current):
                return True
            # The due unit comes before them, so they hold no group to its quota.
            current.blocked.clear()
            if not group.policy.plans and self._offers.try_unit(job, current.ahead, current, due=True):
                return True
            current.ahead.append(job)
            return False
        return False

    def _others_may_run(self, group: GroupState) -> bool:
        """Return True if groups beside this one have jobs that hold room or whose start their limits allow."""
        groups = self._groups
        # Without limits every job counts, so that thousands of groups need not be asked.
        if len(self._books.jobs) <= group.jobs or not groups.counted:
            return len(self._books.jobs) > group.jobs
        return any(may_run(other) for other in groups if other is not group)

    def _follow_units(self, current: Pass) -> None:
        """Choose the homes of units, and keep the room of units whose companions are being stopped."""
        choose_homes(self._books)
        for job in self._rejoining.values():
            if job.moving and job.queued:
                current.ahead.append(job)

    def _has_started(self, job: JobEntry, begun: int) -> bool:
        """Return True if one of the decisions from number ``begun`` on starts a task of a job, or claims room for
        one.
        """
        number = job.job.id
        return any(isinstance(fact, (Start, Claim)) and fact.job == number for fact in self._decided.items[begun:])
