"""The cheapest moves that let a waiting unit start: node by node, like the search for victims, with a place for each
task.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from cress.core.jobs import Attempt, JobEntry
from cress.core.kernels.holding import EXCLUDED, USABLE
from cress.core.moving.plan import ANY, Budget, Goal
from cress.core.moving.trial import MoveTrial
from cress.core.placing.fit import asked_of, match_caps, rules_of_unit
from cress.core.placing.gangs import GangRoom, by_domains
from cress.core.placing.shape import Shape
from cress.core.placing.together import Levels, filled, joined, places_in, rooms_in
from cress.core.tables import devices
from cress.core.tables.arrays import Ints, copies_in

Place = list[tuple[int, int]]


def make_place(trial: MoveTrial, job: JobEntry, budget: Budget) -> Place | None:
    """Move tasks within a budget until the next unit of a job fits, and return its nodes; ``None``, with no move, if
    it cannot fit.

    Room for copies is made one by one, where the next is cheapest; a task with a needless move stays. Any number of
    tasks of a service may move, because a round moves them one after the other.
    """
    shape = job.shape
    if shape.kinds:
        return _place_by_kind(trial, job, budget)
    if not by_domains(shape):
        return _PlaceSearch(trial, job, budget, shape).place()
    best: tuple[int, int, int] | None = None
    choices = [room.open_copies() for (room,) in rooms_in(trial.core.fit.when_empty(shape))]
    for i, caps in enumerate(choices):
        found = _PlaceSearch(trial, job, budget, shape, caps).place()
        if found is not None:
            cost = sum(move.cost for move in trial.moves()), trial.mark, i
            best = min(best, cost) if best is not None else cost
            trial.unmake(0)
    return None if best is None else _PlaceSearch(trial, job, budget, shape, choices[best[-1]]).place()


def _place_by_kind(trial: MoveTrial, job: JobEntry, budget: Budget) -> Place | None:
    """Return places for a gang of several kinds of tasks, kind after kind; the kind with the largest requests is placed
    first.

    A place that needs another order is missed.
    """
    shape, cluster = job.shape, trial.cluster
    ruled = rooms_in(trial.core.fit.when_empty(shape)) if by_domains(shape) else [None]
    most = np.maximum(1, cluster.capacities().max(axis=0, initial=0))
    order = sorted(range(len(shape.kinds)), key=lambda i: (-float((shape.kinds[i].request_array / most).max()), i))
    for rooms in ruled:
        kept, closed = trial.promised.copy(), trial.closed.copy()
        placed = np.zeros(cluster.node_count, np.int64)
        found: dict[int, Place] = {}
        for i in order:
            kind, room = shape.kinds[i], None if rooms is None else rooms[i]
            caps = None if room is None else room.open_copies()
            place = _PlaceSearch(trial, job, budget, kind, caps, room, placed).place()
            if place is None:
                break
            found[i] = place
            for f, count in place:
                # The room for this kind is neither for the next one nor for moved tasks.
                trial.promised[f] += kind.request_array * count
                trial.closed[f] = True
                placed[f] += count
        if len(found) == len(order):
            return joined([found[i] for i in range(len(order))])
        trial.unmake(0)
        trial.promised, trial.closed = kept, closed
    return None


class _PlaceSearch:
    """A search for the places of the tasks of one kind.

    Their copies are limited by ``caps``, or by their part of a ``room`` of the whole unit; tasks of other kinds have
    the places ``placed`` (int64, per node).
    """

    def __init__(
        self, trial: MoveTrial, job: JobEntry, budget: Budget, shape: Shape, caps: Ints | None = None,
        room: GangRoom | None = None, placed: Ints | None = None,
    ) -> None:  # fmt: skip
        self.trial, self.job, self.budget, self.room = trial, job, budget, room
        self.shape = shape
        self.cluster = trial.cluster
        # The copies allowed by clauses, with any free amounts.
        limit = trial.core.fit.caps(self.shape) if caps is None else caps
        self.limit = limit if len(limit) else np.full(self.cluster.node_count, self.shape.size, np.int64)
        if placed is not None and len(own := match_caps(shape)):
            self.limit = np.minimum(self.limit, np.maximum(own[: len(placed)] - placed, 0))
        self.copies = np.array([self._copies_on(f) for f in range(self.cluster.node_count)], np.int64)

    def _copies_on(self, f: int) -> int:
        """Return the copies of the unit that fit on a node now."""
        cluster, shape = self.cluster, self.shape
        if not cluster.nodes[f, USABLE] or cluster.lack[shape.row, f] & EXCLUDED:
            return 0
        free = cluster.free_now()[f] - self.trial.promised[f]
        room = int(copies_in(free, shape.request_array, shape.size))
        return max(0, min(room, int(self.limit[f]), devices.copies_on(cluster, shape.ask, f)))

    def _found(self) -> Place | None:
        if self.room is not None:
            # Fewer copies may fit now than its part of the room has places.
            now = GangRoom(self.room.of, np.minimum(self.copies, self.room.copies), self.room.left)
            places = now.first(self.shape.size)
            return places if places and sum(count for _, count in places) == self.shape.size else None
        if by_domains(self.shape):
            room = Levels(asked_of(self.shape), [self.copies], self.cluster.capacities(), rules_of_unit(self.shape))
            found = places_in(room)
            return None if found is None else joined(found)
        if self.copies.sum() < self.shape.size:
            return None
        return filled(np.arange(len(self.copies)), self.copies, self.shape.size)

    def place(self) -> Place | None:
        """Run the search; see ``make_place``."""
        # Nodes with room for copies take no moved tasks, because the unit needs all of these copies.
        trial, mark = self.trial, self.trial.mark
        closed = trial.closed.copy()
        trial.closed |= self.copies > 0
        heap = [entry for f in range(self.cluster.node_count) if (entry := self._next(f)) is not None]
        heapify(heap)
        place = self._found()
        while place is None and heap:
            _, _, f = heappop(heap)
            if self._one_more(f):
                entry = self._next(f)
                if entry is not None:
                    heappush(heap, entry)
                place = self._found()
        trial.closed = closed
        if place is None:
            trial.unmake(mark)
        return place

    def _next(self, f: int) -> tuple[int, int, int] | None:
        """Return the least cost of one more copy on a node, its number of tasks, and the node.

        ``None`` if its tasks make no room for one within the budget.
        """
        cluster = self.cluster
        if self.copies[f] >= self.limit[f] or not cluster.nodes[f, USABLE]:
            return None
        if cluster.lack[self.shape.row, f] & EXCLUDED:
            return None
        needs = self.shape.request_array * (self.copies[f] + 1)
        lack = np.where(needs > 0, needs - cluster.free_now()[f] + self.trial.promised[f], 0)
        tasks = self._tasks(f)
        if self.budget.lost < ANY and self._least(tasks, lack) > self.budget.lost - self._spent():
            return None
        lost = count = 0
        for each in tasks:
            if np.all(lack <= 0):
                break
            lack -= each.amounts
            lost += self.trial.lost[each.id]
            count += 1
        return (lost, count, f) if np.all(lack <= 0) else None

    def _spent(self) -> int:
        return sum(move.cost for move in self.trial.moves())

    def _least(self, tasks: list[Attempt], lack: Ints) -> int:
        """Return a lower bound for the work lost by moves that free ``lack`` more on a node.

        For each amount, the tasks count that lose least for it, the last one in part.
        """
        least = 0.0
        for k in np.flatnonzero(lack > 0).tolist():
            left, lost = int(lack[k]), 0.0
            for rate, amount in sorted(
                (self.trial.lost[a.id] / a.amounts[k], a.amounts[k]) for a in tasks if a.amounts[k]
            ):
                lost += rate * min(left, amount)
                left -= amount
                if left <= 0:
                    break
            least = max(least, lost)
        # Rounded down, so that an exact bound does not exceed the true value.
        return int(least)

    def _tasks(self, f: int) -> list[Attempt]:
        found = [each for each in self.trial.core.holders_on(f) if isinstance(each, Attempt) and self._may(each)]
        return sorted(
            found, key=lambda each: (self.trial.lost[each.id], *(-amount for amount in reversed(each.amounts)), each.id)
        )

    def _may(self, attempt: Attempt) -> bool:
        return self.trial.may_move(attempt) and attempt.job is not self.job

    def _one_more(self, f: int) -> bool:
        """Make room for one more copy on a node; return True on success."""
        trial, before = self.trial, int(self.copies[f])
        was, trial.closed[f] = bool(trial.closed[f]), True
        mark = trial.mark
        tasks = self._move(f, self._tasks(f), before)
        if tasks is not None:
            for each in list(reversed(tasks))[1:]:
                # The first moves cost least, but may be too small to help.
                trial.unmake(mark)
                fewer = self._move(f, [other for other in tasks if other is not each], before)
                if fewer is not None:
                    tasks = fewer
                else:
                    trial.unmake(mark)
                    again = self._move(f, tasks, before)
                    assert again is not None
        if tasks is None or len(trial.moves()) > self.budget.moves or self._spent() > self.budget.lost:
            trial.unmake(mark)
            trial.closed[f] = was
            return False
        self.copies[f] = self._copies_on(f)
        return True

    def _move(self, f: int, tasks: list[Attempt], before: int) -> list[Attempt] | None:
        """Move tasks, as far as other nodes have room, until a node has more copies; ``None``, with no move, on
        failure.
        """
        trial, mark = self.trial, self.trial.mark
        made: list[Attempt] = []
        for each in tasks:
            to = trial.fullest(each, trial.places(each))
            if to < 0:
                continue
            trial.make(each, to, Goal.PLACE)
            made.append(each)
            if self._copies_on(f) > before:
                return made
        trial.unmake(mark)
        return None
