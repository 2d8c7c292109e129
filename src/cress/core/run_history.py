"""Run history: estimates of the length of runs, from ended runs of the same user, job name and group.

Weights and sums are integers, so that equal runs give equal estimates on every machine (design note 0022).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, deque

import numpy as np

from cress.core.kernels.runs import PLACES, add_run, estimate_run
from cress.core.tables.arrays import Ints, grown
from cress.model.estimates import RunEstimate
from cress.model.times import NEVER

# A run of age n has weight 0.9^n, in millionths; a tenth of that if its request differs.
MOST_RUNS = 20
WEIGHTS: Ints = np.array([10**6 * 9**age // 10**age for age in range(MOST_RUNS)], np.int64)
OTHER_REQUEST = 10
# The time limit counts as one more run, so that one run alone does not decide.
LIMIT_WEIGHT = 500_000
# The number of runs of a group from which the median is taken.
GROUP_RUNS = 101

# The number of keys with remembered runs; beyond it, the key with the oldest last run is dropped first.
MOST_KEYS = 20_000
# The number of distinct requests; beyond it, the least recently used ones count as different from all.
MOST_REQUESTS = 100_000

# Parts of time limits are kept in millionths.
PARTS = 10**6

Request = tuple[int, ...]
Key = tuple[str, str, str]


class RunHistory:
    """The last runs per (user, job name, group), with their requests and the parts of their limits.

    Also per user and group, for jobs whose name has no runs: many users name each job anew, and their other runs are
    the best substitute.
    """

    def __init__(self) -> None:
        # Rows of the table of runs, by user, name and group; the name is empty for all jobs of the user.
        self._rows: OrderedDict[Key, int] = OrderedDict()
        self._table: Ints = np.zeros((16, PLACES + 3 * MOST_RUNS), np.int64)
        self._numbers: OrderedDict[Request, int] = OrderedDict()
        self._next_number = 0
        # The last runs per group, in the order of their ends, and sorted.
        self._groups: dict[str, tuple[deque[int], list[int]]] = {}
        # Sums of runs and of limits, by size of the limit (powers of two).
        self._used: dict[int, tuple[int, int]] = {}

    def add(self, key: Key, request: Request, limit: int, run: int) -> None:
        """Add an ended run of ``run`` µs; ``limit`` is the time limit of its job (µs), NEVER without one."""
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
        """Return the row of a key with a newly ended run.

        A new key takes the row of the key with the oldest last run if the table is full.
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
        """Return the number that identifies equal requests."""
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
        """Estimate a run of a job with this limit (µs); never above it.

        Without history the estimate is the limit; without a limit it is the median of the group's runs, and without
        those NEVER. Only runs with the same name give a lower bound; without any, a run may take no time at all.
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
        """Return the key whose runs count: that of the job, or that of all jobs of the user if the job name is new."""
        return key if key in self._rows else _of_user(key)

    def _group_median(self, group: str) -> int:
        ordered = self._groups[group][1] if group in self._groups else []
        return ordered[(len(ordered) - 1) // 2] if ordered else NEVER

    def _share_of(self, limit: int) -> int:
        """Return the mean part of the limit used by jobs with a limit of the same size."""
        used, limits = self._used.get(limit.bit_length(), (1, 1))
        return limit * used // limits


def _of_user(key: Key) -> Key:
    user, _, group = key
    return user, "", group
