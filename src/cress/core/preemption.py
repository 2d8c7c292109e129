"""Preemption between groups (source G, steps i to k): who yields to a unit of a group below its quota.

Per candidate node: take victims in order until the unit fits, then give back in reverse what is not needed; the
node with the cheapest set wins. What the victims free is kept for the unit by a *claim*.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from cress.core.cluster import Cluster, Ints
from cress.core.groups import GroupState
from cress.core.jobs import Attempt, JobState
from cress.core.kernels.holding import AMOUNTS, FREE, NODE, USABLE
from cress.core.kernels.timeline import B_AMOUNTS, B_NODE
from cress.core.kernels.victims import NO_NODE, ROOM_ALREADY, cheapest_node
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
    """Tasks that go together: one task, or all of a gang; ``order`` is the place in which they are taken."""

    __slots__ = ("attempts", "group", "longest", "loss", "lost_work", "order", "priority")

    def __init__(self, attempts: list[Attempt], now: int, policy: PreemptivePolicy, group_rank: int) -> None:
        first = attempts[0]
        self.attempts = attempts
        self.group = first.job.group
        self.priority = first.job.job.priority
        self.longest = max(now - attempt.start for attempt in attempts)
        self.lost_work = sum(now - attempt.start for attempt in attempts)
        self.loss = [sum(amounts) for amounts in zip(*(attempt.charge for attempt in attempts), strict=True)]
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
    search.look_at(takers, now)
    return search.best()


def _candidates(group: GroupState, now: int) -> list[list[Attempt]]:
    """What may yield in a group: running tasks one by one, gangs as a whole; never databases, nor what just began."""
    latest = now - group.options.min_runtime
    found: list[list[Attempt]] = []
    gangs: dict[int, list[Attempt]] = {}
    for attempt in group.attempts.values():
        if attempt.stopping or attempt.job.job.type is JobType.DATABASE:
            continue
        if attempt.job.job.gang:
            gangs.setdefault(attempt.job.job.id, []).append(attempt)
        elif attempt.start <= latest:
            found.append([attempt])
    for members in gangs.values():
        whole = len(members) == len(members[0].job.attempts)
        if whole and max(attempt.start for attempt in members) <= latest:
            found.append(members)
    return found


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
        self.candidates: list[tuple[int, list[Attempt]]] = []
        self.by_node: dict[int, list[Victim]] = {}

    def look_at(self, groups: list[GroupState], now: int) -> None:
        """Find what may yield among ``groups``, the first of which yields first, on nodes where the unit could go."""
        self.groups = groups
        self.now = now
        candidates = [(rank, members) for rank, group in enumerate(groups) for members in _candidates(group, now)]
        slots = [attempt.slot for _, members in candidates for attempt in members]
        gain = np.zeros_like(self.level)
        np.add.at(gain, self.cluster.leases[slots, NODE], self.cluster.leases[slots, AMOUNTS:])
        self.possible = self.usable & np.all(self.level + gain >= self.request, axis=1)
        likely = self.possible.tolist()
        self.candidates = [entry for entry in candidates if any(likely[attempt.node] for attempt in entry[1])]

    def best(self) -> Plan | None:
        """The cheapest plan for the whole unit."""
        if self.job.shape.size > 1:
            self._name_victims(None)
            return self._gang()
        f = self._best_node()
        if f is None:
            return None
        self._name_victims({f})
        victims = self._take(f, self.request, [])
        return Plan(victims, [(f, 1)]) if victims else None

    def _best_node(self) -> int | None:
        """The node for one task: compiled where every victim is a task of its own, in Python for the other nodes."""
        involved = {
            attempt.node
            for _, members in self.candidates
            if len(members) > 1 or members[0].job.job.minimum
            for attempt in members
        }
        places = [f for f in np.flatnonzero(self.possible).tolist() if f not in involved]
        singles = [(rank, members[0]) for rank, members in self.candidates if members[0].node not in involved]
        f, cost = self._cheapest_of_singles(places, singles)
        if f == ROOM_ALREADY:
            return None
        best = (cost, f) if f != NO_NODE else None
        if involved:
            self._name_victims(involved)
        for f in sorted(involved):
            victims = self._take(f, self.request, []) if self.possible[f] else None
            if victims is None:
                continue
            if not victims:
                return None
            best = min(best, (self._cost(victims), f)) if best else (self._cost(victims), f)
        return None if best is None else best[1]

    def _cheapest_of_singles(self, places: list[int], singles: list[tuple[int, Attempt]]) -> tuple[int, Cost]:
        ranks = np.array([rank for rank, _ in singles], np.int64)
        slots = [attempt.slot for _, attempt in singles]
        ran = self.now - np.array([attempt.start for _, attempt in singles], np.int64)
        by_priority = self.policy is PreemptivePolicy.LOW_PRIORITY_FIRST
        priority = np.array([attempt.job.job.priority for _, attempt in singles], np.int64)
        worth = priority if by_priority else ran
        numbers = np.array([attempt.id for _, attempt in singles], np.int64)
        nodes = self.cluster.leases[slots, NODE]
        order = np.lexsort((-numbers, ran, worth, ranks, nodes))
        measures = max(len(group.quota) for group in self.groups)
        spare = np.full((len(self.groups), measures), -1, np.int64)
        for rank, group in enumerate(self.groups):
            for m, (used, leaving, quota) in enumerate(zip(group.used, group.leaving, group.quota, strict=True)):
                spare[rank, m] = used - leaving - quota
        charges = np.zeros((len(singles), measures), np.int64)
        for i, (_, attempt) in enumerate(singles):
            charges[i, : len(attempt.charge)] = attempt.charge
        f, most, number, lost = cheapest_node(
            np.array(places, np.int64), np.searchsorted(nodes[order], np.arange(len(self.level) + 1)), self.level,
            self.request, self.cluster.leases[slots, AMOUNTS:][order], charges[order], ranks[order], spare,
            worth[order], ran[order],
        )  # fmt: skip
        return int(f), (int(most), int(number), int(lost))

    def _name_victims(self, nodes: set[int] | None) -> None:
        """Make ``by_node`` for these nodes, or for all."""
        victims = [
            Victim(members, self.now, self.policy, rank)
            for rank, members in self.candidates
            if nodes is None or any(attempt.node in nodes for attempt in members)
        ]
        victims.sort(key=lambda victim: victim.order)
        self.by_node = {}
        for victim in victims:
            for f in sorted({attempt.node for attempt in victim.attempts}):
                self.by_node.setdefault(f, []).append(victim)

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
            return all(np.all(self._level(f, rest) >= self.request * count) for f, count in placed.items())

        for victim in reversed(taken.copy()):
            if fits(victim):
                taken.remove(victim)
        return Plan(taken, sorted(placed.items())) if taken else None

    def _cheapest(self, placed: dict[int, int], taken: list[Victim]) -> tuple[list[Victim], int] | None:
        """The node, and the victims beyond ``taken``, for one more copy at the lowest cost."""
        best: tuple[Cost, int, list[Victim]] | None = None
        for f in np.flatnonzero(self.possible).tolist():
            need = self.request * (placed.get(f, 0) + 1)
            victims = self._take(f, need, taken)
            if victims is None:
                continue
            cost = self._cost(victims)
            if best is None or cost < best[0]:
                best = (cost, f, victims)
                if not victims:
                    break
        return None if best is None else (best[2], best[1])

    def _take(self, f: int, need: Ints, taken: list[Victim]) -> list[Victim] | None:
        """Victims on ``f`` beyond ``taken`` so that ``need`` fits: in order, and if that fails, the largest first.

        Small victims that yield first may use up what their group can spare, where one larger one would do.
        """
        victims = self.by_node.get(f, [])
        found = self._take_in_order(f, need, taken, victims)
        if found is None:
            asked = need > 0
            largest = sorted(victims, key=lambda victim: -float((_on(victim, f)[asked] / need[asked]).min()))
            found = self._take_in_order(f, need, taken, largest)
        return found

    def _take_in_order(self, f: int, need: Ints, taken: list[Victim], victims: list[Victim]) -> list[Victim] | None:
        level = self._level(f, taken)
        if np.all(level >= need):
            return []
        loss: dict[str, list[int]] = {}
        for victim in taken:
            _add(loss, victim)
        chosen: list[Victim] = []
        for victim in victims:
            if victim in taken or not _may_yield(victim, loss, [*taken, *chosen]):
                continue
            _add(loss, victim)
            chosen.append(victim)
            level = level + _on(victim, f)
            if np.all(level >= need):
                break
        else:
            return None
        for victim in reversed(chosen.copy()):
            if np.all(level - _on(victim, f) >= need):
                level = level - _on(victim, f)
                chosen.remove(victim)
        return chosen

    def _level(self, f: int, taken: list[Victim]) -> Ints:
        level: Ints = self.level[f]
        for victim in taken:
            level = level + _on(victim, f)
        return level

    def _cost(self, victims: list[Victim]) -> Cost:
        """The policy's cost, then the number of tasks, then the work lost."""
        number = sum(len(victim.attempts) for victim in victims)
        lost = sum(victim.lost_work for victim in victims)
        if not victims:
            return (-(2**62), 0, 0)
        by_priority = self.policy is PreemptivePolicy.LOW_PRIORITY_FIRST
        return (max(victim.priority if by_priority else victim.longest for victim in victims), number, lost)


def _on(victim: Victim, f: int) -> Ints:
    """What a victim would free on node ``f``."""
    amounts: Ints = np.zeros_like(victim.attempts[0].job.shape.request_array)
    for attempt in victim.attempts:
        if attempt.node == f:
            amounts = amounts + attempt.job.shape.request_array
    return amounts


def _add(loss: dict[str, list[int]], victim: Victim) -> None:
    have = loss.setdefault(victim.group.name, [0] * len(victim.loss))
    for i, amount in enumerate(victim.loss):
        have[i] += amount


def _may_yield(victim: Victim, loss: dict[str, list[int]], chosen: list[Victim]) -> bool:
    """Whether the victim's group stays at its quota, and a service at its minimum, when this victim goes too."""
    before = loss.get(victim.group.name, [0] * len(victim.loss))
    if not victim.group.stays_above([have + more for have, more in zip(before, victim.loss, strict=True)]):
        return False
    job = victim.attempts[0].job
    if not job.job.minimum:
        return True
    gone = sum(len(other.attempts) for other in chosen if other.attempts[0].job is job)
    running = sum(not attempt.stopping for attempt in job.attempts.values())
    return running - gone - len(victim.attempts) >= job.job.minimum
