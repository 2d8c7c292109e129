"""Offers: what one group gets from a pass (steps d to h of the cycle)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from cress.core.books import Books
from cress.core.charging import charge_of
from cress.core.future.reservations import Ahead, drain_due
from cress.core.gates.gates import Gates
from cress.core.gates.rights import is_beyond_quota, takers_for
from cress.core.groups.guarantees import dearest_charge, may_be_dear, too_dear_for, too_dear_on
from cress.core.groups.lenders import Taker
from cress.core.groups.running_limits import head_of, within
from cress.core.jobs import GroupState, JobEntry, Rights
from cress.core.kernels.holding import FITTING
from cress.core.making_room.evictions import Evictions
from cress.core.making_room.maker import RoomMaker
from cress.core.making_room.own_parts import OwnParts
from cress.core.passes import Pass
from cress.core.placing.shape import Shape
from cress.core.placing.vetoes import Verdict
from cress.core.starting.starter import Starter
from cress.core.tables.arrays import Bools
from cress.core.victims_by_kind import Growth, beyond_by_kind


@dataclass(eq=False)
class Offers:
    """Starts the first unit of a group that fits, or finds the blocked one and makes room for it."""

    _books: Books
    _gates: Gates
    _starter: Starter
    _own_parts: OwnParts
    _evictions: Evictions
    _room_maker: RoomMaker
    _start_apart: Callable[[GroupState, Pass], bool]

    def __post_init__(self) -> None:
        books = self._books
        self._cluster = books.cluster
        self._fit = books.fit
        self._pool = books.pool
        self._reservations = books.reservations
        self._rejoining = books.units.rejoining

    def start_claimed(self, group: GroupState, current: Pass) -> bool:
        """Start a unit of a group in the room that was made for it; return True if something was decided."""
        return self._room_maker.start_claimed(group, current)

    def consider(self, group: GroupState, current: Pass) -> bool:
        """Run steps d to h for one group; return True if something was decided.

        A blocked unit is added to those of the pass, and may be put ahead of others.
        """
        group.beyond = None
        if self._offer(group, current):
            return True
        if group.held_to is Rights.ABOVE and self._start_apart(group, current):
            return True
        if group.beyond is not None and self._room_maker.exchange(*group.beyond, current):
            return True
        offered = group.offered
        if offered is None:
            return False
        if offered in current.deferred:
            return False
        current.blocked.append(offered)
        if self._room_maker.make_room(offered, current):
            return True
        if current.several:
            self._note_owed(offered, current)
        if self._may_be_ahead(offered, current) and offered not in current.too_dear:
            current.ahead.append(offered)
            if self._books.leases.endless:
                self._maybe_drain(offered, current)
        return False

    def _offer(self, group: GroupState, current: Pass) -> bool:
        """Steps d and e: start the first unit of the group that fits; return True if something was decided.

        Else ``group.offered`` is the blocked unit, or ``None`` if every unit was passed over.
        """
        if group.claims and self._room_maker.start_claimed(group, current):
            return True
        group.offered = None
        policy, ahead = group.policy, current.ahead
        if policy.plans:
            return self._offer_planned(group, current)
        head, free = policy.head(), None
        if head is not None and current.refuses(head):
            free = _free(group, head, current)
            head = next(free, None)
        if head is None:
            return False
        # The due unit was already tried.
        due = ahead.jobs[0] if ahead.jobs else None
        if head is not due and self.try_unit(head, ahead, current):
            return True
        if self._gates.open_without_room and self._waits_for_no_room(head, current):
            if self._room_maker.make_room(head, current):
                return True
            if current.several:
                self._note_owed(head, current)
            started, head = self._offer_behind(head, free or _free(group, head, current), due, current)
            if started or head is None:
                return started
        group.offered = head
        return policy.offers_more and self._offer_later(head, due, current)

    def _offer_later(self, head: JobEntry, due: JobEntry | None, current: Pass) -> bool:
        """Start the first unit behind the blocked one that fits beside it; return True if something was decided."""
        group, ahead = head.group, current.ahead
        is_urgent = head not in current.deferred and self._evictions.is_urgent(head, current)
        if is_urgent and self._room_maker.make_room(head, current):
            # Otherwise others of its group would start in free room, and be stopped for it at once.
            return True
        beside = ahead.beside(head)
        # The balance gate changes its answer with time, so no failure is remembered.
        memo = None if self._gates.timed else (self._cluster.loosened, beside.sign)
        for job in group.policy.later(head, memo, self._gates.passed_over):
            if job is due or job is head or current.refuses(job):
                continue
            if self.try_unit(job, beside, current):
                return True
        group.offered = head
        return False

    def try_unit(self, job: JobEntry, ahead: Ahead, current: Pass, *, due: bool = False) -> bool:
        """Match one unit beside the reservations of the units ahead, and start it if it fits.

        ``due``: it is the due unit.
        """
        group, now = job.group, current.now
        cluster = self._cluster
        if self._own_parts.start(job, due=due):
            return True
        if not cluster.rows.item(job.shape.row, FITTING):
            group.verdict = Verdict.NO_ROOM
            return False
        if self._rejoining and job.moving:
            group.verdict = Verdict.MOVING
            return False
        situation = (job.job.id, cluster.loosened, ahead.sign)
        if group.tried.start.still(situation, now):
            return False
        if (ahead.jobs or self._reservations.kept) and self._reservations.keep_off(job, ahead, now):
            group.verdict = Verdict.QUOTA
            current.last_blocked = ahead.jobs[0]
            return False
        by_kind = group.kinds is not None and job.shape.size == 1
        if current.owed and not by_kind and self._evictions.taken_back_by(job, current) is not None:
            group.verdict = Verdict.OWED
            group.policy.spared = True
            return False
        if current.to_come and not by_kind and self._evictions.taken_back_later(job, current):
            return self._defer(job, current)
        if self._match_one(job, current, due=due) if job.shape.size == 1 else self._match_gang(job, current, due=due):
            return True
        if group.verdict is not Verdict.OWED:
            group.tried.start.note(situation)
        return False

    def _match_one(self, job: JobEntry, current: Pass, *, due: bool) -> bool:
        dear, is_deferred = self._closed_to(job, current, job.group.kinds is not None)
        if self._starter.start_one(job, current.now, due=due, but=dear):
            return True
        if is_deferred:
            return self._defer(job, current)
        job.group.verdict = Verdict.RESERVED
        return dear is not None and self._refuse_as_dear(job, current)

    def _match_gang(self, job: JobEntry, current: Pass, *, due: bool) -> bool:
        job.group.verdict = Verdict.NO_ROOM_TOGETHER
        if not (self._is_restricted(job.group, current) and may_be_dear(job, self._cluster)):
            return self._starter.start_gang(job, current.now, due=due)
        rights = _RightsOf(self._books, self._evictions, job, current)
        if self._starter.start_gang_within(job, current.now, rights.allow, due=due):
            return True
        if rights.deferred:
            return self._defer(job, current)
        return rights.refused and self._refuse_as_dear(job, current)

    def _is_restricted(self, group: GroupState, current: Pass) -> bool:
        """Return True if a start beyond the quota of a group may be refused in this round."""
        return group.held_to is not Rights.ANY or bool(current.owed)

    def _refuse_as_dear(self, job: JobEntry, current: Pass) -> bool:
        """Note that a unit has room only on nodes where it is too dear for its group now; return False.

        It may start there in a later round, so nothing is remembered, and it delays nobody meanwhile.
        """
        job.group.verdict = Verdict.OWED
        current.too_dear[job] = job.group.held_to
        current.wake_at(self._gates.rights.note(job, job.group.held_to))
        return False

    def _too_dear_on(self, job: JobEntry, current: Pass) -> Bools | None:
        """Return the nodes on which a unit may not start now, as it would take its group beyond its rights there.

        The group is held to its rights, or a blocked unit of another group could take the room back.
        """
        rights = job.group.held_to
        if not self._is_restricted(job.group, current):
            return None
        beyond_quota = too_dear_on(job, self._cluster)
        if beyond_quota is None or rights is Rights.QUOTA:
            return beyond_quota
        charge = dearest_charge(job, self._cluster)
        if self._evictions.taken_back_by(job, current, charge=charge) is not None:
            return beyond_quota
        if rights is Rights.ANY:
            return None
        takers = _takers_in(self._books, job, rights)
        for_takers = too_dear_for(takers, job, self._cluster) if takers else beyond_quota
        return None if for_takers is None else beyond_quota & for_takers

    def _defer(self, job: JobEntry, current: Pass) -> bool:
        """Note that a unit does not start in this round; return False."""
        job.group.verdict = Verdict.OWED
        job.group.policy.spared = True
        current.deferred.append(job)
        return False

    def _closed_to(self, job: JobEntry, current: Pass, by_kind: bool) -> tuple[Bools | None, bool]:
        """Return the nodes on which a task may not start now, and True if it is deferred on some of them."""
        if not by_kind:
            return self._too_dear_on(job, current), False
        deferred: list[Growth] = []

        def is_taken_back(start: Growth) -> bool:
            if current.owed and self._evictions.taken_back_with(job, start, current):
                return True
            if current.to_come and self._evictions.taken_back_later(job, current, start):
                deferred.append(start)
                return True
            return False

        any_owed = bool(current.owed or current.to_come)
        closed = beyond_by_kind(self._books, job, any_owed=any_owed, taken_back=is_taken_back)
        return closed, bool(deferred)

    def _note_owed(self, job: JobEntry, current: Pass) -> None:
        """Note a blocked unit that may take room: units of other groups must check whether they would be stopped for
        it.
        """
        if job not in current.owed and self._evictions.is_owed(job, current):
            current.owed[job] = None

    def _may_be_ahead(self, blocked: JobEntry, current: Pass) -> bool:
        """Return True if a blocked unit may delay others; note the turn of the first such unit, where units take
        turns.
        """
        if not current.takes_turns:
            return True
        if self._gates.guarantees.find(blocked) is not None:
            return False
        if not current.ahead.jobs:
            due = self._books.turns.note(blocked, current.now)
            if due > current.now:
                current.wake_at(due)
        return True

    def _maybe_drain(self, job: JobEntry, current: Pass) -> None:
        """Keep nodes free for a unit without a known start, once it has waited for ``drain_after``."""
        if drain_due(job, current.now):
            self._reservations.heed_for(job.group, current.ahead, current.now)
        else:
            current.wake_at(job.since + job.group.options.drain_after)

    def _offer_behind(
        self, first: JobEntry, behind: Iterator[JobEntry], due: JobEntry | None, current: Pass
    ) -> tuple[bool, JobEntry | None]:
        """Start the next unit behind ``first`` that fits, as if ``first`` did not wait.

        Return True if one started; else False and the unit that waits for room, or ``None``.
        """
        failed = {first.shape: first.duration}
        for job in behind:
            # A unit with the shape and at least the duration of a failed one fails as well.
            if job is first or (job.shape in failed and failed[job.shape] <= job.duration):
                continue
            if job is not due and self.try_unit(job, current.ahead, current):
                return True, None
            if not self._waits_for_no_room(job, current):
                return False, job
            failed[job.shape] = job.duration
        return False, None

    def _waits_for_no_room(self, job: JobEntry, current: Pass) -> bool:
        """Return True if a unit that failed to start waits for something other than room; then it delays no job of its
        group.

        It waits for nodes to open, for the guarantees of others to shrink, or for advance reservations to end. In the
        last case its foreseen reservation binds others.
        """
        if job in current.deferred:
            return False
        gate = self._gates.refused_without_room(job)
        if gate is self._gates.reserved_nodes and self._may_be_ahead(job, current):
            current.ahead.append(job)
        return gate is not None

    # --- planned starts ----------------------------------------------------------------------------------------

    def _offer_planned(self, group: GroupState, current: Pass) -> bool:
        """Start the first waiting unit whose planned start has come."""
        books, now = self._books, current.now
        self._reservations.heed_others(group, current.ahead, now)
        head = head_of(group)
        if self._reservations.hold_back(group, None if head is None else head.shape):
            group.offered = head
            group.verdict = Verdict.QUOTA
            current.last_blocked = current.ahead.jobs[0]
            return False
        # A delayed start may run into an advance reservation.
        beside_others = bool(self._reservations.kept) or bool(books.advance_reservations)
        unit = books.plans.due(
            group,
            now,
            [job for job in group.policy.looked_at(self._gates.passed_over) if self._is_planned(job, current)],
            beside_others=beside_others,
        )
        if unit is not None and self._is_restricted(group, current):
            rights = _RightsOf(self._books, self._evictions, unit.job, current)
            if not rights.allow(charge_of(self._cluster, unit.job, unit.nodes)):
                group.offered = unit.job
                group.verdict = Verdict.OWED
                current.wake_at(self._gates.rights.note(unit.job, group.held_to))
                if rights.deferred:
                    current.deferred.append(unit.job)
                return False
        if unit is not None and self._rejoining and unit.job.still_running():
            if unit.job.moving:
                unit = None
            elif self._starter.gather(unit.job, now):
                return True
        if unit is None:
            # A unit without a plan, because too many wait before it, must not delay others either.
            jobs = within(group, group.policy.looked_at(self._gates.passed_over))
            group.offered = next((job for job in jobs if self._is_planned(job, current)), None)
            group.verdict = Verdict.PLANNED
            return False
        books.plans.started(group, unit)
        self._starter.start_planned(unit)
        return True

    def _is_planned(self, job: JobEntry, current: Pass) -> bool:
        """Return True if a unit may have a planned start.

        No gate refuses it. If the guarantees of others forbid its start, it must have room now.
        """
        if current.refuses(job):
            return False
        return self._gates.guarantees.find(job) is None or self._fit.has_free(job.shape)


class _RightsOf:
    """The rights of a unit in this round, asked for each choice of nodes: its charge depends on them.

    ``refused``: it was refused somewhere; ``deferred``: only until a unit that comes later has started.
    """

    def __init__(self, books: Books, evictions: Evictions, job: JobEntry, current: Pass) -> None:
        self._books = books
        self._evictions = evictions
        self._job = job
        self._current = current
        self.refused = self.deferred = False

    def allow(self, charge: tuple[int, ...]) -> bool:
        """Return True if the unit may start with this charge, and no unit of another group takes it back then."""
        job, current, rights = self._job, self._current, self._job.group.held_to
        if not is_beyond_quota(job.group, charge):
            return True
        self.refused = True
        if rights is Rights.QUOTA or self._evictions.taken_back_by(job, current, charge=charge) is not None:
            return False
        if rights is not Rights.ANY and not any(
            taker.may_take(charge) for taker in _takers_in(self._books, job, rights)
        ):
            return False
        self.deferred = bool(current.to_come) and self._evictions.taken_back_later(job, current, Growth(charge))
        return not self.deferred


def _takers_in(books: Books, job: JobEntry, rights: Rights) -> list[Taker]:
    """Return the groups that may take room for a unit in a round: with ``Rights.OWN`` only its own."""
    takers = takers_for(books, job)
    return [taker for taker in takers if taker.group is job.group] if rights is Rights.OWN else takers


def _free(group: GroupState, first: JobEntry, current: Pass) -> Iterator[JobEntry]:
    """Yield the jobs of a group behind its ``first`` one that no gate refuses, in the order of its policy."""
    # With several users, the next unit of the same user comes before the first ones of users with a larger share.
    policy = group.policy
    offered = policy.looked_at(current.gates.passed_over) if policy.overtakes else []
    seen = {job.job.id for job in offered}
    # A long queue of a group that cools off has many units that ask alike; the rights of the group refuse all of them.
    beyond: set[Shape] = set()
    for job in chain(offered, (job for job in policy if job.job.id not in seen)):
        if job is first or job.shape in beyond:
            continue
        if not current.refuses(job):
            yield job
        elif current.gates.refused_by.answers_alike(job):
            beyond.add(job.shape)
