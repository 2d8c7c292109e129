"""Run history: estimates of how long tasks run, from the ended runs of the same user, job name and group.

Weights and sums are integers, so that the same runs give the same estimate on every machine (design note 0022).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, deque

import numpy as np

from cress.core.kernels.runs import PLACES, add_run, estimate_run
from cress.core.tables.arrays import Ints, grown
from cress.model.estimates import RunEstimate
from cress.model.times import NEVER

# A run of age n has weight 0.9^n, in millionths; a tenth of it if its request differs.
MOST_RUNS = 20
WEIGHTS: Ints = np.array([10**6 * 9**age // 10**age for age in range(MOST_RUNS)], np.int64)
OTHER_REQUEST = 10
# The time limit counts as one more run, so that one run alone does not decide.
LIMIT_WEIGHT = 500_000
# The runs of a group of which the median is taken.
GROUP_RUNS = 101

# Users' jobs whose runs are remembered; those whose last run is longest ago are forgotten first.
MOST_KEYS = 20_000
# Requests that are told apart; of more, those that were last used longest ago count as different from all.
MOST_REQUESTS = 100_000

# The part of its time limit that a run took is kept in millionths.
PARTS = 10**6

Request = tuple[int, ...]
Key = tuple[str, str, str]


class RunHistory:
    """The last runs per (user, job name, group) with their requests and parts of their limits, and per user and per
    group for jobs without any.

    Many users give each job a name of its own: their other runs are the next best thing.
    """

    def __init__(self) -> None:
        # The rows of the table of runs, by user, name and group; and by user and group, where the name is empty.
        self._rows: OrderedDict[Key, int] = OrderedDict()
        self._table: Ints = np.zeros((16, PLACES + 3 * MOST_RUNS), np.int64)
        self._numbers: OrderedDict[Request, int] = OrderedDict()
        self._next_number = 0
        # Per group, its last runs in the order of their ends, and sorted.
        self._groups: dict[str, tuple[deque[int], list[int]]] = {}
        # Per size of the limit (powers of two), the sums of runs and of limits.
        self._used: dict[int, tuple[int, int]] = {}

    def add(self, key: Key, request: Request, limit: int, run: int) -> None:
        """Add a run that ended; ``limit`` is the time limit of its job, NEVER without one."""
        part = PARTS if limit >= NEVER else PARTS * min(run, limit) // max(1, limit)
        row, of_user = self._row(key), self._row(_of_user(key))
        add_run(self._table, row, of_user, MOST_RUNS, self._number(request), run, part)
        ended, ordered = self._groups.setdefault(key[2], (deque(), []))
        if len(ended) == GROUP_RUNS:
            del ordered[bisect_left(ordered, ended.popleft())]
        ended.append(run)
        insort(ordered, run)
        if limit < NEVER:
            size = limit.bit_length()
            used, limits = self._used.get(size, (0, 0))
            self._used[size] = (used + min(run, limit), limits + max(1, limit))

    def _row(self, key: Key) -> int:
        """Return the row of a key, of which a run has ended; a new one is that of the key whose last run is longest ago
        if there are too many.
        """
        row = self._rows.get(key)
        if row is not None:
            self._rows.move_to_end(key)
            return row
        row = len(self._rows)
        if row >= MOST_KEYS:
            _, row = self._rows.popitem(last=False)
            self._table[row] = 0
        elif row == len(self._table):
            self._table = grown(self._table, 2 * row)
        self._rows[key] = row
        return row

    def _number(self, request: Request) -> int:
        """Return the number of a request, by which runs of the same one are known."""
        number = self._numbers.get(request)
        if number is None:
            number = self._numbers[request] = self._next_number
            self._next_number += 1
            if len(self._numbers) > MOST_REQUESTS:
                self._numbers.popitem(last=False)
        else:
            self._numbers.move_to_end(request)
        return number

    def estimate(self, key: Key, request: Request, limit: int) -> RunEstimate:
        """Estimate a run of a job with this limit; never above it.

        Without history it is the limit; without a limit the median of the group's runs; without these NEVER. Only runs
        of the same name show how short a run can be: without any, it may take no time at all.
        """
        likely = limit if limit < NEVER else self._group_median(key[2])
        mean = self._share_of(limit) if limit < NEVER else likely
        row = self._rows.get(self.known(key))
        if row is None:
            return RunEstimate(0, mean, likely, likely)
        optimistic, mean, pessimistic, run, part = estimate_run(
            self._table,
            row,
            WEIGHTS,
            OTHER_REQUEST,
            self._numbers.get(request, -1),
            limit,
            likely,
            mean,
            LIMIT_WEIGHT,
            PARTS,
        )
        least = 0 if limit >= NEVER else max(1, limit * part // PARTS)
        return RunEstimate(optimistic if key in self._rows else 0, mean, pessimistic, run, least)

    def known(self, key: Key) -> Key:
        """Return the key whose runs count for an estimate: that of the job, or of all jobs of the user if its name is
        new.
        """
        return key if key in self._rows else _of_user(key)

    def _group_median(self, group: str) -> int:
        ordered = self._groups[group][1] if group in self._groups else []
        return ordered[(len(ordered) - 1) // 2] if ordered else NEVER

    def _share_of(self, limit: int) -> int:
        """Return the part of the limit that jobs with one of the same size used, on the mean."""
        used, limits = self._used.get(limit.bit_length(), (1, 1))
        return limit * used // limits


def _of_user(key: Key) -> Key:
    user, _, group = key
    return user, "", group
