"""Run history: estimates of how long tasks run, from the ended runs of the same user, job name and group.

Weights and sums are integers, so that the same runs give the same estimate on every machine (design note 0022).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, deque

from cress.model.estimates import RunEstimate
from cress.model.times import NEVER

# A run of age n has weight 0.9^n, in millionths; a tenth of it if its request differs.
MOST_RUNS = 20
WEIGHTS = tuple(10**6 * 9**age // 10**age for age in range(MOST_RUNS))
OTHER_REQUEST = 10
# The time limit counts as one more run, so that one run alone does not decide.
LIMIT_WEIGHT = 500_000
# The runs of a group of which the median is taken.
GROUP_RUNS = 101

# Users' jobs whose runs are remembered; those whose last run is longest ago are forgotten first.
MOST_KEYS = 20_000

# The part of its time limit that a run took is kept in millionths.
PARTS = 10**6

Request = tuple[int, ...]
Key = tuple[str, str, str]


class RunHistory:
    """The last runs per (user, job name, group) with their requests and parts of their limits, and per user and per group for jobs without any.

    Many users give each job a name of its own: their other runs are the next best thing.
    """

    def __init__(self) -> None:
        # By user, name and group; and by user and group, where the name is empty.
        self._runs: OrderedDict[Key, deque[tuple[Request, int, int]]] = OrderedDict()
        # Per group, its last runs in the order of their ends, and sorted.
        self._groups: dict[str, tuple[deque[int], list[int]]] = {}
        # Per size of the limit (powers of two), the sums of runs and of limits.
        self._used: dict[int, tuple[int, int]] = {}

    def add(self, key: Key, request: Request, limit: int, run: int) -> None:
        """Add a run that ended; ``limit`` is the time limit of its job, NEVER without one."""
        part = PARTS if limit >= NEVER else PARTS * min(run, limit) // max(1, limit)
        for each in dict.fromkeys((key, _of_user(key))):
            runs = self._runs.get(each)
            if runs is None:
                runs = self._runs[each] = deque(maxlen=MOST_RUNS)
            else:
                self._runs.move_to_end(each)
            runs.appendleft((request, run, part))
        while len(self._runs) > MOST_KEYS:
            self._runs.popitem(last=False)
        ended, ordered = self._groups.setdefault(key[2], (deque(), []))
        if len(ended) == GROUP_RUNS:
            del ordered[bisect_left(ordered, ended.popleft())]
        ended.append(run)
        insort(ordered, run)
        if limit < NEVER:
            size = limit.bit_length()
            used, limits = self._used.get(size, (0, 0))
            self._used[size] = (used + min(run, limit), limits + limit)

    def estimate(self, key: Key, request: Request, limit: int) -> RunEstimate:
        """Estimate a run of a job with this limit; never above it.

        Without history it is the limit; without a limit the median of the group's runs; without these NEVER.
        """
        likely = min(limit, self._group_median(key[2]) if limit >= NEVER else limit)
        mean = self._share_of(limit) if limit < NEVER else likely
        runs = self._runs.get(self.known(key))
        if runs is None:
            return RunEstimate(likely, mean, likely, likely)
        total = LIMIT_WEIGHT
        product = mean * LIMIT_WEIGHT
        weighted = [(likely, LIMIT_WEIGHT)]
        parts = [(PARTS, LIMIT_WEIGHT)]
        for weight, (asked, run, part) in zip(WEIGHTS, runs, strict=False):
            if asked != request:
                weight //= OTHER_REQUEST
            run = min(run, limit)
            total += weight
            product += run * weight
            weighted.append((run, weight))
            parts.append((part, weight))
        weighted.sort()
        parts.sort()
        optimistic, run, pessimistic = _quantiles(weighted, total)
        least = 0 if limit >= NEVER else max(1, limit * _quantiles(parts, total)[0] // PARTS)
        return RunEstimate(optimistic, product // total, pessimistic, run, least)

    def known(self, key: Key) -> Key:
        """Return the key whose runs count for an estimate: that of the job, or of all jobs of the user if its name is new."""
        return key if key in self._runs else _of_user(key)

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


def _quantiles(weighted: list[tuple[int, int]], total: int) -> tuple[int, int, int]:
    """Return the smallest runs at or below which 10, 50 and 90 % of the weight lie; ``weighted`` is sorted."""
    low = median = below = 0
    for run, weight in weighted:
        before, below = below, below + 10 * weight
        if before < total <= below:
            low = run
        if before < 5 * total <= below:
            median = run
        if below >= 9 * total:
            return low, median, run
    raise AssertionError("the weights are less than their sum")
