"""The time at which a job becomes more urgent than another one: the first microsecond of it, and never now."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from cress.core.kernels.urgency import passes_at
from cress.model.times import NEVER

# Products of these are exact in floats too.
LONG = st.integers(1, 10**7)


@given(LONG, LONG, LONG, LONG)
def test_who_passes_is_ahead_from_that_microsecond_on(longest: int, more: int, slack: int, later: int) -> None:
    # Two jobs in exact fractions: the first one is at least as urgent at 0, and the other one grows faster.
    first, its = longest + more, longest
    left, its_left = first + slack, its + slack + later
    assume(first * its_left >= its * left)
    moment = passes_at(its_left, its, left, first, 0)
    assert moment > 0
    if moment < slack:
        assert its * (left - moment) > first * (its_left - moment)
        assert moment == 1 or its * (left - moment + 1) <= first * (its_left - moment + 1)


def test_one_that_has_passed_already_passes_next() -> None:
    now = 5_467_486_023_505
    moment = passes_at(5_553_487_699_627, 21_600_000_000, 5_725_491_051_873, 64_800_000_000, now)
    assert now < moment < NEVER
