"""The choice of victims for a blocked unit, and the questions about it; nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, islice, takewhile
from typing import Protocol

from cress.core.advance.gaps import is_kept_off
from cress.core.books import Books
from cress.core.charging import charge_ending_with, charge_of
from cress.core.eviction import Eviction
from cress.core.gates.gates import Gates
from cress.core.gates.rights import is_beyond_quota, is_within_quota, takers_for
from cress.core.groups.guarantees import charge_of_tasks, charge_where_it_fits, too_dear_for
from cress.core.groups.lenders import Taker, whose_groups_take
from cress.core.groups.limits import kept_for_others
from cress.core.job_times import urgency_of, urgent_at
from cress.core.jobs import GroupState, JobEntry, Rights
from cress.core.passes import Pass
from cress.core.preemption import (
    find_eviction,
    find_eviction_by_urgency,
    find_eviction_in_workload,
    find_eviction_within,
    find_exchange,
    yields_to,
)
from cress.core.starting.claims import Claims
from cress.core.tables.arrays import Bools
from cress.core.tree.amounts import add_amounts
from cress.core.tree.tree import Tree
from cress.core.victims_by_kind import Growth, kinds_with_room, not_entitled_on
from cress.model.group import SchedPolicy
from cress.model.times import SECOND


class Find(Protocol):
    """A search for victims on behalf of some groups, with ``to_quota`` as in ``find_eviction``."""

    def __call__(self, takers: list[Taker], *, to_quota: bool) -> Eviction | None:
        """Return the victims, or ``None`` if no allowed set makes the unit fit."""


class Evictions:
    """Finds the cheapest victims for a unit: in other groups, in its own, or less urgent ones."""

    def __init__(self, books: Books, claims: Claims) -> None:
        self._books = books
        self._dropped_at = claims.dropped_at
        self._reservations = books.reservations
        self._cluster = books.cluster
        self._pool = books.pool

    # --- rights ------------------------------------------------------------------------------------------------

    def may_have_victims(self, job: JobEntry, current: Pass) -> bool:
        """Return True if a unit may have victims.

        A unit of several jobs may not, except for a single leader that starts beside its companions. Neither may a
        unit whose claim was made and dropped at this time: its victims would start and be stopped again without end.
        """
        if self._dropped_at and self._dropped_at.get(job.job.id) == current.now:
            current.wake_at(current.now + SECOND)
            return False
        return not (
            job.shares_node and job.unit() and (job.upcoming not in job.foreseen.homes or job.shape.wants.parts)
        )

    def is_urgent(self, job: JobEntry, current: Pass) -> bool:
        """Return True if a blocked unit may take room from less urgent tasks (source S).

        If not yet, the pass is repeated when it may.
        """
        if job.group.spec.policy is not SchedPolicy.URGENCY:
            return False
        found = current.urgent.get(job)
        if found is None:
            found = current.urgent[job] = self._urgent_now(job, current)
        return found

    def _urgent_now(self, job: JobEntry, current: Pass) -> bool:
        group, now = job.group, current.now
        if _is_urgent(job, now):
            return True
        due = urgent_at(job, group.options.urgency_threshold)
        if due > now:
            current.wake_at(due)
        return False

    def is_owed(self, job: JobEntry, current: Pass) -> bool:
        """Return True if a unit may take room from other groups: room guaranteed to its group, or room for an urgent
        unit.
        """
        if job.group.options.preemption != "on" or not self.may_have_victims(job, current):
            return False
        return bool(takers_for(self._books, job)) or self.may_take_as_urgent(job, current)

    def may_take_as_urgent(self, job: JobEntry, current: Pass) -> bool:
        """Return True if an urgent unit may take room from other groups: its own is not above its quota."""
        group = job.group
        return (
            self.is_urgent(job, current)
            and not group.above_with_claims()
            and group.may_take(charge_of_tasks(job, job.shape.size, self._books.cluster))
        )

    # --- victims -----------------------------------------------------------------------------------------------

    def in_others(self, job: JobEntry, *, foreseen: bool = False, spares_new: bool = False) -> Eviction | None:
        """Return victims in other groups; ``foreseen``: as if all tasks had run for ``min_runtime``.

        ``spares_new``: none that started a moment ago, while the unit waited already.
        """

        def find(takers: list[Taker], *, to_quota: bool) -> Eviction | None:
            return find_eviction(self._books, job, takers, to_quota=to_quota, foreseen=foreseen, spares_new=spares_new)

        return self._for_takers(job, find)

    def by_urgency(self, job: JobEntry, current: Pass) -> Eviction | None:
        """Return less urgent victims, beside the reservations of the units ahead.

        They come from groups above their quota if the unit's group is not above its own, and then from its own group.
        """
        group, books = job.group, self._books
        if self._reservations.keep_off(job, current.ahead, current.now):
            return None
        charge = charge_of_tasks(job, job.shape.size, books.cluster)
        others = group.jobs < len(books.jobs)
        free = [node for node in group.path() if others and not node.above_with_claims()]
        takers = [Taker(node, to_quota=False) for node in free if node.may_take(charge)]
        eviction = find_eviction_by_urgency(books, job, takers, spares_new=True)
        if eviction is None or all(victim.job.group is group for victim in eviction.attempts):
            return eviction
        return eviction if self._may_take(job, eviction) else find_eviction_by_urgency(books, job, [], spares_new=True)

    def in_own(self, job: JobEntry, current: Pass, entitled: list[Taker]) -> Eviction | None:
        """Return victims of lower priority in the unit's own group, beside the reservations of the units ahead."""
        group, books = job.group, self._books
        if self._reservations.keep_off(job, current.ahead, current.now):
            return None
        if group.options.preempt_within == "off":
            return find_eviction_in_workload(books, job)

        def find(takers: list[Taker], *, to_quota: bool) -> Eviction | None:
            return find_eviction_within(books, job, takers, to_quota=to_quota)

        return (self._for_takers(job, find) if entitled else None) or find([], to_quota=False)

    def below(self, job: JobEntry, bounded: str) -> Callable[[], Eviction | None] | None:
        """Return the search for victims that make place for a unit below the MaxQuota of the group ``bounded``.

        ``None`` if no group below it may take room for the unit.
        """
        below = list(takewhile(lambda node: node.name != bounded, job.group.path()))
        if not any(taker.group in below for taker in takers_for(self._books, job)):
            return None

        def within_bounds(takers: list[Taker], *, to_quota: bool) -> Eviction | None:
            inside = [taker for taker in takers if taker.group in below]
            found = find_exchange(self._books, job, inside, to_quota=to_quota)
            return found if found is not None and self._keeps_bounds(job, found) else None

        return lambda: self._for_takers(job, within_bounds)

    def _for_takers(self, job: JobEntry, find: Find) -> Eviction | None:
        """Return victims for a unit, from groups above quota × B.

        If these make too little room: from groups furthest above their quota, while the groups of the unit stay within
        theirs.
        """
        for to_quota in (False, True):
            takers = takers_for(self._books, job, to_quota=to_quota)
            found = find(takers, to_quota=to_quota) if takers else None
            # On these nodes the unit may cost more than on the cheapest ones.
            if found is not None and self._may_take(job, found):
                return found
        return None

    def _may_take(self, job: JobEntry, eviction: Eviction) -> bool:
        """Return True if the groups for which others yield may take the unit on these nodes, less its victims in its
        own group, and no group then has less than it keeps for itself.
        """
        less = self._own_less(job, eviction)
        return eviction.is_allowed(self._cluster, job, less) and self._leaves_kept(job, eviction)

    def _own_less(self, job: JobEntry, eviction: Eviction) -> tuple[int, ...]:
        """Return the charge that ends with the victims in the unit's own group."""
        less = [0] * len(job.group.quota)
        for victim in eviction.attempts:
            if victim.job.group is job.group:
                add_amounts(less, charge_ending_with(self._pool, victim))
        return tuple(less)

    def _leaves_kept(self, job: JobEntry, eviction: Eviction) -> bool:
        """Return True if the unit is within what groups lend once its victims have ended.

        A victim may take its group below the capacity that it keeps for itself.
        """
        groups, tree = self._books.groups, self._books.groups.tree
        if not tree.keeps:
            return True
        with ExitStack() as ended:
            for victim in eviction.attempts:
                group, less = victim.job.group, [-amount for amount in charge_ending_with(self._pool, victim)]
                ended.enter_context(_with_growth(tree, group, less))
            charge = charge_of(self._cluster, job, eviction.nodes)
            return kept_for_others(groups, job, self._cluster, charge) is None

    def _keeps_bounds(self, job: JobEntry, eviction: Eviction) -> bool:
        """Return True if every group of a unit keeps to its MaxQuota with the unit in place of its victims."""
        charge = charge_of(self._cluster, job, eviction.nodes)
        for node in job.group.path():
            lost = [0] * len(charge)
            for victim in eviction.attempts:
                if node in victim.job.group.path():
                    add_amounts(lost, charge_ending_with(self._pool, victim))
            amounts = zip(node.used, node.claimed, node.leaving, lost, charge, node.most or (), strict=False)
            if any(
                used + claimed - leaving - less + more > most
                for used, claimed, leaving, less, more, most in amounts
                if more
            ):
                return False
        return True

    # --- starts that would be taken back -----------------------------------------------------------------------

    def taken_back_by(
        self, job: JobEntry, current: Pass, *, claimed: bool = False, charge: tuple[int, ...] = ()
    ) -> JobEntry | None:
        """Return a blocked unit of this pass that would find victims once ``job`` has started above the quota of its
        group.

        Either this start or an older task would then be stopped at once. ``None`` if there is no such unit.
        ``claimed``: the claims of the group already count the unit. ``charge``: that of a start above the quota; else
        the least one counts.
        """
        cluster, group = self._books.cluster, job.group
        if not current.owed:
            return None
        if not (charge or (is_beyond_quota(group) if claimed else not is_within_quota(self._books, job))):
            return None
        charge = charge or charge_where_it_fits(job, cluster, claimed=claimed)
        owed = [other for other in current.owed if other.group is not group]
        outlives = _outlives(job)
        state = (cluster.stamp, cluster.loosened, group.name, charge, len(owed), outlives, claimed)
        if current.taken_back[0] != state:
            found = (
                other
                for other in owed
                if (self._fits_and_takes(other, group, Growth(charge)) if claimed else self._has_room(other))
                or self._would_find_victims(other, group, charge, later=outlives)
            )
            current.taken_back = state, next(found, None)
        return current.taken_back[1]

    def taken_back_with(self, job: JobEntry, start: Growth, current: Pass) -> bool:
        """Return True if a blocked unit of this pass would find victims once a unit of another group has started
        so.
        """
        group = job.group
        owed = (other for other in current.owed if other.group is not group)
        return any(self._takes(other, group, start, later=_outlives(job)) for other in owed)

    def taken_back_later(self, job: JobEntry, current: Pass, start: Growth | None = None) -> bool:
        """Return True if a unit of a group that comes later would find victims once ``job`` has started above the quota
        of its group, and ``job`` would not find the same in its stead. Then the other unit comes first.

        ``start``: on the nodes of one kind; else wherever it fits.

        In a tree, a group may take room beyond its quota for a group above it. Others in that group then take the room
        from it, unless they come first.
        """
        group, gates, books = job.group, current.gates, self._books
        if start is not None:
            starts = [start]
        elif is_within_quota(books, job):
            return False
        else:
            # Of several kinds of nodes, each is asked about by itself: two units may take different ones.
            charge = charge_where_it_fits(job, self._cluster)
            kinds: list[Bools] | list[None] = kinds_with_room(books, job)
            starts = [Growth(charge, nodes) for nodes in kinds or [None]]
        outlives = _outlives(job)
        within = whose_groups_take(group, starts[0].charge)
        # The due unit comes after this round, whatever its place in its queue.
        due = islice(books.turns.due(books.jobs, current.now, gates.passed_over), 1)
        later = (other for other in current.to_come if within is None or within in other.path())
        for unit in chain(due, chain.from_iterable(_next_in_turn(gates, other) for other in later)):
            if unit.group is group or (within is not None and within not in unit.group.path()):
                continue
            if gates.would_refuse(unit) or not self.is_owed(unit, current):
                continue
            for on_kind in starts:
                instead = Growth(charge_where_it_fits(unit, self._cluster), on_kind.nodes)
                if self._takes(unit, group, on_kind, later=outlives) and not self._takes(
                    job, unit.group, instead, later=False
                ):
                    return True
        return False

    def _takes(self, unit: JobEntry, group: GroupState, start: Growth, *, later: bool) -> bool:
        """Return True if a unit, or the next one of its group once it has started in free room, would find victims in a
        group whose use has grown by a start.
        """
        if self._fits_and_takes(unit, group, start):
            return True
        return self._would_find_victims(unit, group, start.charge, later=later)

    def is_undone(self, job: JobEntry, eviction: Eviction, current: Pass) -> bool:
        """Return True if a blocked unit of another group would find victims once ``job`` has taken the room of its
        own.
        """
        group = job.group
        charge = tuple(map(int.__sub__, charge_of(self._cluster, job, eviction.nodes), self._own_less(job, eviction)))
        if not group.above_with_claims(charge):
            return False
        owed = (other for other in current.owed if other.group is not group)
        return any(self._would_find_victims(other, group, charge, later=False) for other in owed)

    def _has_room(self, owed: JobEntry, nodes: Bools | None = None) -> bool:
        """Return True if a unit has room, but reservations for other units keep it out: without it, it would look for
        victims.

        A unit that waits for an advance reservation does not need its room before that ends. Room on nodes on which
        none of its groups may take it is not owed to it. So a gang is owed room only if all its tasks find it on other
        nodes, although it may start with some on such nodes. With ``nodes`` only room for a single task on these
        counts.
        """
        books = self._books
        dear = not_entitled_on(books, owed)
        if dear is None:
            dear = too_dear_for(takers_for(books, owed), owed, self._cluster)
        elif nodes is not None:
            dear |= ~nodes
        if dear is not None and int(books.fit.free_copies(owed.shape)[~dear].sum()) < owed.shape.size:
            return False
        if not books.fit.has_free(owed.shape):
            return False
        return not (books.advance_reservations and is_kept_off(books, owed))

    def _fits_and_takes(self, owed: JobEntry, group: GroupState, start: Growth) -> bool:
        """Return True if a unit has room where another one has a claim or may start, and if the group of the other one
        would yield it once its use has grown by that.
        """
        if not self._has_room(owed, start.nodes):
            return False
        books = self._books
        with _with_growth(books.groups.tree, group, start.charge):
            return any(
                yields_to(books, owed, takers_for(books, owed, to_quota=exactly), group, start, to_quota=exactly)
                for exactly in (False, True)
            )

    def _would_find_victims(self, owed: JobEntry, group: GroupState, charge: tuple[int, ...], *, later: bool) -> bool:
        """Return True if a unit would find victims if the use of a group grew by ``charge``; ``later``: or only then,
        once all tasks have run for ``min_runtime``.

        The room of that use is still counted as free.
        """
        foreseen = later and self.in_others(owed, foreseen=True) is None
        with _with_growth(self._books.groups.tree, group, charge):
            found = self.in_others(owed, foreseen=foreseen)
            if found is None and _is_urgent(owed, self._books.now):
                beside = [Taker(node, to_quota=False) for node in owed.group.path() if not node.above_with_claims()]
                found = find_eviction_by_urgency(self._books, owed, beside)
            return found is not None


def _next_in_turn(gates: Gates, group: GroupState) -> Iterator[JobEntry]:
    """Yield the units of a group for which room may be made when its turn comes in the last round.

    Then the group is held to what it may take, and a unit beyond that lets the next one of its queue go first. Whoever
    asks takes few of them, and asks about each meanwhile: the group is held only while the next one is looked for.
    """
    units = gates.next_of(group)
    while True:
        before, group.held_to = group.held_to, Rights.ABOVE
        unit = next(units, None)
        group.held_to = before
        if unit is None:
            return
        yield unit


@contextmanager
def _with_growth(tree: Tree, group: GroupState, charge: Sequence[int]) -> Iterator[None]:
    """Let the use of a group, and of those above it, be larger by ``charge`` meanwhile; questions may be nested."""
    nodes = list(group.path())
    for node in nodes:
        node.grow(charge)
    tree.hold(group)
    try:
        yield
    finally:
        for node in nodes:
            node.grow([-amount for amount in charge])
        tree.hold(group)


def _outlives(job: JobEntry) -> bool:
    """Return True if a unit may be taken back once it has run for ``min_runtime``; it never is if it ends before."""
    return 0 < job.group.options.min_runtime < job.duration


def _is_urgent(job: JobEntry, now: int) -> bool:
    group = job.group
    return group.spec.policy is SchedPolicy.URGENCY and urgency_of(job, now) > group.options.urgency_threshold
