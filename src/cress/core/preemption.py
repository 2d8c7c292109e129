"""Preemption between groups (source G, steps i to k): who yields to a unit of a group below its quota.

Per candidate node: take victims in order until the unit fits, then give back in reverse what is not needed; the
node with the cheapest set wins. What the victims free is kept for the unit by a *claim*.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import add, ge, sub
from typing import TypeAlias

import numpy as np

from cress.core.cluster import Cluster, Ints
from cress.core.groups import GroupState
from cress.core.jobs import Attempt, JobState
from cress.core.kernels.holding import AMOUNTS, FREE, NODE, USABLE
from cress.core.kernels.timeline import B_AMOUNTS, B_NODE
from cress.core.kernels.victims import NO_NODE, ROOM_ALREADY, cheapest_node, room_with
from cress.core.timeline import Reservation, Timeline
from cress.model.group import PreemptivePolicy
from cress.model.job import JobType

Cost: TypeAlias = tuple[int, int, int]


class Claim:
    """A unit for which ``victims`` make room: its tasks, taken out of the queue, and the reservation of their nodes.

    Its bookings are in force from the beginning and count what the victims still hold as theirs. ``expected`` is when
    the victims' grace is over.
    """

    __slots__ = ("charge", "expected", "job", "reservation", "tasks", "tried", "victims")

    def __init__(
        self, job: JobState, tasks: list[int], reservation: Reservation, charge: tuple[int, ...], victims: list[int],
        expected: int,
    ) -> None:  # fmt: skip
        self.job = job
        self.tasks = tasks
        self.reservation = reservation
        self.charge = charge
        self.victims = victims
        self.expected = expected
        # ``cluster.loosened`` when it was last tried.
        self.tried = -1


class Victim:
    """Tasks that go together: one task, or all of a gang; ``order`` is the place in which they are taken.

    ``on`` is what they would free on each of their nodes, ``loss`` what their group gets back.
    """

    __slots__ = ("attempts", "group", "longest", "loss", "lost_work", "on", "order", "priority")

    def __init__(self, attempts: list[Attempt], now: int, policy: PreemptivePolicy, group_rank: int) -> None:
        first = attempts[0]
        job = first.job
        self.attempts = attempts
        self.group = job.group
        self.priority = job.job.priority
        self.on: dict[int, tuple[int, ...]] = {first.node: job.shape.request}
        if len(attempts) == 1:
            self.longest = self.lost_work = now - first.start
            self.loss = first.charge
        else:
            ran = [now - attempt.start for attempt in attempts]
            self.longest = max(ran)
            self.lost_work = sum(ran)
            self.loss = tuple(sum(amounts) for amounts in zip(*(attempt.charge for attempt in attempts), strict=True))
            for attempt in attempts[1:]:
                here = self.on.get(attempt.node)
                request = attempt.job.shape.request
                self.on[attempt.node] = request if here is None else _plus(here, request)
        rank = self.priority if policy is PreemptivePolicy.LOW_PRIORITY_FIRST else self.longest
        # The group furthest above its quota first, then the policy's rank; the latest attempt among equals.
        self.order = (group_rank, rank, self.longest, -first.id)


class Plan:
    """The cheapest way found: victims in the order in which they were taken, and where the unit will go."""

    __slots__ = ("nodes", "victims")

    def __init__(self, victims: list[Victim], nodes: list[tuple[int, int]]) -> None:
        self.victims = victims
        self.nodes = nodes

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts that have to end."""
        return [attempt for victim in self.victims for attempt in victim.attempts]


def find_plan(
    job: JobState, groups: Iterable[GroupState], cluster: Cluster, timeline: Timeline, claims: Iterable[Claim],
    leaving: Iterable[Attempt], now: int,
) -> Plan | None:  # fmt: skip
    """Victims for one unit of ``job``, or ``None`` if no allowed set makes it fit.

    ``leaving`` are the attempts that were told to stop, for whatever reason.
    """
    takers = [group for group in groups if group is not job.group and group.can_be_preempted()]
    if not takers:
        return None
    takers.sort(key=lambda group: (-group.excess(), group.name))
    search = _Search(job, cluster, timeline, claims, leaving)
    if not search.look_at(takers, now):
        return None
    return search.best()


def _whole_gang(job: JobState, latest: int) -> list[Attempt] | None:
    """The tasks of a gang that may yield: all of them, or none if one leaves already or began after ``latest``."""
    members = list(job.attempts.values())
    return None if any(attempt.stopping or attempt.start > latest for attempt in members) else members


class _Search:
    """Free amounts per node as they will be, and the victims that could add to them."""

    def __init__(
        self, job: JobState, cluster: Cluster, timeline: Timeline, claims: Iterable[Claim], leaving: Iterable[Attempt],
    ) -> None:  # fmt: skip
        self.job = job
        self.request = job.shape.request_array
        self.cluster = cluster
        self.policy = job.group.spec.preemptive
        n = cluster.node_count
        self.level = cluster.nodes[:n, FREE : FREE + cluster.k_count].copy()
        # Claims own what leaving tasks will free: count both, so that nothing is promised twice.
        for attempt in leaving:
            self.level[attempt.node] += attempt.job.shape.request_array
        for claim in claims:
            for row in claim.reservation.rows:
                self.level[timeline.table[row, B_NODE]] -= timeline.table[row, B_AMOUNTS:]
        self.usable = cluster.nodes[:n, USABLE] == 1
        self.possible = self.usable
        self.groups: list[GroupState] = []
        self.now = 0
        # Tasks that go alone, with the rank of their group; gangs, and tasks of services with a minimum.
        self.singles: list[Attempt] = []
        self.single_ranks: Ints = np.zeros(0, np.int64)
        self.linked: list[tuple[int, list[Attempt]]] = []
        self.by_node: dict[int, list[Victim]] = {}
        # Per group, what it may lose in each measure and still be at its quota there.
        self.spare: dict[str, list[int]] = {}
        self.rows: list[list[int]] = []

    def look_at(self, groups: list[GroupState], now: int) -> bool:
        """Find what may yield among ``groups``, the first of which yields first, on nodes where the unit could go.

        Running tasks go one by one, gangs as a whole; never databases, nor what just began. Returns whether there
        would be room for the unit if everything yielded.
        """
        self.groups = groups
        self.now = now
        self.spare = {
            group.name: [u - leaving - q for u, leaving, q in zip(group.used, group.leaving, group.quota, strict=True)]
            for group in groups
        }
        attempts = [attempt for group in groups for attempt in group.attempts.values()]
        sizes = [len(group.attempts) for group in groups]
        ranks = np.repeat(np.arange(len(groups)), sizes)
        slots = np.array([attempt.slot for attempt in attempts], np.int64)
        starts = np.array([attempt.start for attempt in attempts], np.int64)
        old = starts <= np.repeat(np.array([now - group.options.min_runtime for group in groups], np.int64), sizes)
        leases = self.cluster.leases
        # An upper bound of the room: also with what turns out below not to yield.
        room = room_with(self.level, slots[old], leases)
        self.possible = self.usable & np.all(room >= self.request, axis=1)
        if not self._enough(room):
            return False
        singles: list[int] = []
        seen: set[int] = set()
        self.linked = []
        for i in np.flatnonzero(old & self.possible[leases[slots, NODE]]).tolist():
            attempt = attempts[i]
            job = attempt.job.job
            if attempt.stopping or job.type is JobType.DATABASE:
                continue
            if job.gang:
                if job.id not in seen:
                    seen.add(job.id)
                    rank = int(ranks[i])
                    members = _whole_gang(attempt.job, now - groups[rank].options.min_runtime)
                    if members is not None:
                        self.linked.append((rank, members))
            elif job.minimum:
                self.linked.append((int(ranks[i]), [attempt]))
            else:
                singles.append(i)
        self.singles = [attempts[i] for i in singles]
        self.single_ranks = ranks[singles] if singles else np.zeros(0, np.int64)
        return True

    def _enough(self, room: Ints) -> bool:
        """Whether all copies of the unit fit into ``room`` on the possible nodes."""
        asked = self.request > 0
        if self.job.shape.size == 1 or not asked.any():
            return bool(self.possible.any())
        copies = (room[self.possible][:, asked] // self.request[asked]).min(axis=1)
        return int(copies.sum()) >= self.job.shape.size

    def best(self) -> Plan | None:
        """The cheapest plan for the whole unit."""
        if self.job.shape.size > 1:
            self._name_victims(None)
            return self._gang()
        f = self._best_node()
        if f is None:
            return None
        self._name_victims({f})
        victims = self._take(f, self.job.shape.request, [], {})
        return Plan(victims, [(f, 1)]) if victims else None

    def _best_node(self) -> int | None:
        """The node for one task: compiled where every victim is a task of its own, in Python for the other nodes."""
        involved = {attempt.node for _, members in self.linked for attempt in members if self.possible[attempt.node]}
        alone = self.possible.copy()
        alone[list(involved)] = False
        f, cost = self._cheapest_of_singles(np.flatnonzero(alone))
        if f == ROOM_ALREADY:
            return None
        best = (cost, f) if f != NO_NODE else None
        if involved:
            self._name_victims(involved)
        for f in sorted(involved):
            victims = self._take(f, self.job.shape.request, [], {})
            if victims is None:
                continue
            if not victims:
                return None
            best = min(best, (self._cost(victims), f)) if best else (self._cost(victims), f)
        return None if best is None else best[1]

    def _cheapest_of_singles(self, places: Ints) -> tuple[int, Cost]:
        """The cheapest of the nodes ``places``, on which nothing but tasks that go alone may yield."""
        singles, ranks, leases = self.singles, self.single_ranks, self.cluster.leases
        slots = np.array([attempt.slot for attempt in singles], np.int64)
        ran = self.now - np.array([attempt.start for attempt in singles], np.int64)
        worth = ran
        if self.policy is PreemptivePolicy.LOW_PRIORITY_FIRST:
            worth = np.array([attempt.job.job.priority for attempt in singles], np.int64)
        numbers = np.array([attempt.id for attempt in singles], np.int64)
        nodes = leases[slots, NODE]
        order = np.lexsort((-numbers, ran, worth, nodes * len(self.groups) + ranks))
        measures = max(len(group.quota) for group in self.groups)
        spare = np.full((len(self.groups), measures), -1, np.int64)
        for rank, group in enumerate(self.groups):
            spare[rank, : len(group.quota)] = self.spare[group.name]
        if any(len(group.quota) != measures for group in self.groups):
            charges = np.zeros((len(singles), measures), np.int64)
            for i, attempt in enumerate(singles):
                charges[i, : len(attempt.charge)] = attempt.charge
        else:
            charges = np.array([amount for attempt in singles for amount in attempt.charge], np.int64)
            charges = charges.reshape(-1, measures)
        f, most, number, lost = cheapest_node(
            places, np.searchsorted(nodes[order], np.arange(len(self.level) + 1)), self.level,
            self.request, leases[slots, AMOUNTS:][order], charges[order], ranks[order], spare,
            worth[order], ran[order],
        )  # fmt: skip
        return int(f), (int(most), int(number), int(lost))

    def _name_victims(self, nodes: set[int] | None) -> None:
        """Make ``by_node`` for these nodes, or for all."""
        victims = [
            Victim(members, self.now, self.policy, rank)
            for rank, members in self.linked
            if nodes is None or any(attempt.node in nodes for attempt in members)
        ]
        victims.extend(
            Victim([attempt], self.now, self.policy, rank)
            for attempt, rank in zip(self.singles, self.single_ranks.tolist(), strict=True)
            if nodes is None or attempt.node in nodes
        )
        victims.sort(key=lambda victim: victim.order)
        self.by_node = {}
        for victim in victims:
            for f in victim.on:
                self.by_node.setdefault(f, []).append(victim)
        self.rows = self.level.tolist()

    def _gang(self) -> Plan | None:
        """One copy after the other, each where it costs least; then what turned out not to be needed is given back."""
        placed: dict[int, int] = {}
        taken: list[Victim] = []
        for _ in range(self.job.shape.size):
            found = self._cheapest(placed, taken)
            if found is None:
                return None
            more, f = found
            taken.extend(more)
            placed[f] = placed.get(f, 0) + 1

        def fits(without: Victim) -> bool:
            rest = [victim for victim in taken if victim is not without]
            return all(_covers(self._level(f, rest), self._need(count)) for f, count in placed.items())

        for victim in reversed(taken.copy()):
            if fits(victim):
                taken.remove(victim)
        return Plan(taken, sorted(placed.items())) if taken else None

    def _cheapest(self, placed: dict[int, int], taken: list[Victim]) -> tuple[list[Victim], int] | None:
        """The node, and the victims beyond ``taken``, for one more copy at the lowest cost."""
        best: tuple[Cost, int, list[Victim]] | None = None
        loss: dict[str, list[int]] = {}
        for victim in taken:
            _add(loss, victim)
        for f in np.flatnonzero(self.possible).tolist():
            victims = self._take(f, self._need(placed.get(f, 0) + 1), taken, loss)
            if victims is None:
                continue
            cost = self._cost(victims)
            if best is None or cost < best[0]:
                best = (cost, f, victims)
                if not victims:
                    break
        return None if best is None else (best[2], best[1])

    def _need(self, count: int) -> tuple[int, ...]:
        return tuple(amount * count for amount in self.job.shape.request)

    def _take(
        self, f: int, need: tuple[int, ...], taken: list[Victim], loss: dict[str, list[int]]
    ) -> list[Victim] | None:
        """Victims on ``f`` beyond ``taken`` so that ``need`` fits: in order, and if that fails, the largest first.

        ``loss`` is what the groups lose by ``taken``. Small victims that yield first may use up what their group can
        spare, where one larger one would do.
        """
        level = self._level(f, taken)
        if _covers(level, need):
            return []
        gone = set(taken)
        victims = [victim for victim in self.by_node.get(f, ()) if victim not in gone]
        room = level
        for victim in victims:
            room = _plus(room, victim.on[f])
        if not _covers(room, need):
            return None
        found = self._take_in_order(f, need, level, taken, loss, victims)
        if found is None:
            asked = [(k, float(amount)) for k, amount in enumerate(need) if amount > 0]
            victims.sort(key=lambda victim: -min(float(victim.on[f][k]) / amount for k, amount in asked))
            found = self._take_in_order(f, need, level, taken, loss, victims)
        return found

    def _take_in_order(
        self, f: int, need: tuple[int, ...], level: tuple[int, ...], taken: list[Victim], loss: dict[str, list[int]],
        victims: list[Victim],
    ) -> list[Victim] | None:  # fmt: skip
        loss = {name: amounts.copy() for name, amounts in loss.items()}
        chosen: list[Victim] = []
        for victim in victims:
            if not self._may_yield(victim, loss, taken, chosen):
                continue
            _add(loss, victim)
            chosen.append(victim)
            level = _plus(level, victim.on[f])
            if _covers(level, need):
                break
        else:
            return None
        for victim in reversed(chosen.copy()):
            less = tuple(map(sub, level, victim.on[f]))
            if _covers(less, need):
                level = less
                chosen.remove(victim)
        return chosen

    def _may_yield(self, victim: Victim, loss: dict[str, list[int]], taken: list[Victim], chosen: list[Victim]) -> bool:
        """Whether the victim's group stays at its quota, and a service at its minimum, when this victim goes too."""
        spare = self.spare[victim.group.name]
        before = loss.get(victim.group.name)
        after = victim.loss if before is None else map(add, before, victim.loss)
        # A group is at its quota while it is so in one measure.
        if not any(map(ge, spare, after)):
            return False
        job = victim.attempts[0].job
        if not job.job.minimum:
            return True
        gone = sum(len(other.attempts) for other in (*taken, *chosen) if other.attempts[0].job is job)
        running = sum(not attempt.stopping for attempt in job.attempts.values())
        return running - gone - len(victim.attempts) >= job.job.minimum

    def _level(self, f: int, taken: list[Victim]) -> tuple[int, ...]:
        level = tuple(self.rows[f])
        for victim in taken:
            if f in victim.on:
                level = _plus(level, victim.on[f])
        return level

    def _cost(self, victims: list[Victim]) -> Cost:
        """The policy's cost, then the number of tasks, then the work lost."""
        number = sum(len(victim.attempts) for victim in victims)
        lost = sum(victim.lost_work for victim in victims)
        if not victims:
            return (-(2**62), 0, 0)
        by_priority = self.policy is PreemptivePolicy.LOW_PRIORITY_FIRST
        return (max(victim.priority if by_priority else victim.longest for victim in victims), number, lost)


def _plus(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(add, first, second))


def _covers(level: tuple[int, ...], need: tuple[int, ...]) -> bool:
    return all(map(ge, level, need))


def _add(loss: dict[str, list[int]], victim: Victim) -> None:
    before = loss.get(victim.group.name)
    loss[victim.group.name] = list(victim.loss if before is None else map(add, before, victim.loss))
