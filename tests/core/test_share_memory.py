"""Fair share with memory (design note 0030): yesterday's heavy borrower is behind today."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.passing_time import advance
from cress.core.tree import memory as memory_module
from cress.core.tree.memory import ShareMemory, TickClock
from cress.model.times import DAY, HOUR, MINUTE, SECOND
from tests.core.builders import World, group, job, nodes
from tests.core.promises import promised_state


def day(**options: object) -> World:
    """Two groups with a third of the cluster each; a borrows the rest for a day, then both want everything."""
    world = World(group("a", 10), group("b", 10), nodes=nodes(1, cpu=30), preemption="off", **options)  # type: ignore[arg-type]
    world.run(job("yesterday").tasks(30).group("a"))
    world.wait(24 * 3600)
    world.submit(job("today").tasks(1000).group("a"), job("own").tasks(1000).group("b"))
    for task in range(30):
        world.finish("yesterday", task)
    return world


def test_without_memory_both_have_as_much() -> None:
    world = day()
    assert (world.used("a"), world.used("b")) == (15, 15)


def test_yesterdays_borrower_is_behind_today() -> None:
    world = day(share_half_life=DAY)
    # a borrowed 20 for a day, of which half counts: 10 more, so b has all that is lent.
    memory = world.group("a").memory
    assert memory is not None
    assert memory.past()[0] / 256 == pytest.approx(10_000, rel=0.01)
    assert (world.used("a"), world.used("b")) == (10, 20)


def test_it_is_forgiven_after_some_days() -> None:
    """What b borrows counts as well: after a while a is even again, and ahead."""
    world = day(share_half_life=DAY)
    rng = Random(1)
    for _ in range(300):
        world.wait(1800)
        for start in rng.sample(sorted(world.running.values(), key=lambda each: each.attempt), 3):
            world.finish(world.names[start.job], start.task)
    # Both borrow 5 on the average then, give or take.
    assert abs(world.used("a") - 15) <= 3
    past = [world.group(name).memory.past()[0] for name in "ab"]  # type: ignore[union-attr]
    assert past[0] == pytest.approx(past[1], rel=0.15)


def test_what_is_guaranteed_is_not_touched() -> None:
    world = day(share_half_life=DAY)
    assert world.used("a") == 10, "its quota at least"
    for task in range(5):
        world.finish("today", task)
        assert world.used("a") == 10, "below its quota it is first, whatever it borrowed"


def test_a_tick_is_named_only_while_it_may_change_an_order() -> None:
    world = World(group("a", 1), group("b", 1), nodes=nodes(1, cpu=4), share_half_life=256 * MINUTE, preemption="off")
    world.run(job("a").tasks(2).group("a"))
    assert world.core.next_wakeup() is None, "nothing waits"
    world.submit(job("a waits").tasks(9).group("a"), job("b waits").tasks(9).group("b")).decide()
    assert (world.used("a"), world.used("b")) == (2, 2)
    assert world.core.next_wakeup() == MINUTE
    world.wake()
    assert world.core.next_wakeup() == 2 * MINUTE


def test_a_follower_that_sleeps_and_a_copy_agree() -> None:
    world = day(share_half_life=HOUR)
    copy = world.core.restore(world.core.export())
    world.wait(7 * 3600 + 11)
    world.finish("own", 0)
    assert world.core.validate() == []
    advance(copy.books, world.now - 3 * SECOND)
    advance(copy.books, world.now)
    for name in "ab":
        mine, its = world.group(name).memory, copy.groups.get(name).memory
        assert mine is not None
        assert its is not None
        assert mine.past() == its.past() or name == "b"
    assert promised_state(world.follower).borrowed == world.core.export().borrowed


# --- the mean itself -------------------------------------------------------------------------------------------------

CHANGES = st.lists(st.tuples(st.integers(0, 400 * SECOND), st.integers(0, 10**6)), min_size=1, max_size=20)


@given(changes=CHANGES, half_life=st.sampled_from((SECOND, 20 * SECOND, HOUR)), asked=st.integers(1, 50))
def test_the_mean_is_that_of_fractions_and_does_not_depend_on_who_asks(
    changes: list[tuple[int, int]], half_life: int, asked: int
) -> None:
    clock, other_clock = TickClock(half_life), TickClock(half_life)
    memory, other = ShareMemory(clock, 1), ShareMemory(other_clock, 1)
    length, now, borrowed, mean, total = clock.length, 0, 0, Fraction(0), Fraction(0)
    kept = Fraction(clock.kept(1), 1 << 62)
    for wait, amount in [*changes, (10 * length, 0)]:
        # Tick by tick, by the book.
        end = now + wait
        while now < end:
            step = min(end, (now // length + 1) * length) - now
            total += borrowed * step
            now += step
            if now % length == 0:
                mean, total = mean * kept + (1 - kept) * total / length, Fraction(0)
        for part in range(1, asked):
            other_clock.advance(now - wait + wait * part // asked)
            other.past()
        for each, its_clock in ((memory, clock), (other, other_clock)):
            its_clock.advance(now)
            each.past()
            each.follow([amount], [0])
        borrowed = amount
        assert memory.past() == other.past()
        assert memory.export() == other.export()
        assert memory.past()[0] / 256 == pytest.approx(float(mean), abs=0.02)


def test_an_amount_that_changes_back_at_the_same_moment_has_not_changed() -> None:
    """A leader may count what it started and stopped at one moment, its follower only what is left of it."""
    states = []
    for counted in (True, False):
        clock = TickClock(HOUR)
        memory = ShareMemory(clock, 1)
        for moment, used in ((SECOND, 5), (7 * MINUTE, 9), (7 * MINUTE, 5), (20 * MINUTE, 0), (HOUR, 3)):
            clock.advance(moment)
            if counted or used != 9:
                memory.follow([used], [0])
            if counted:
                memory.past()
        clock.advance(2 * HOUR)
        states.append((memory.export(), memory.past()))
    assert states[0] == states[1]


def test_each_measure_has_a_mean_of_its_own() -> None:
    clock = TickClock(HOUR)
    both, alone = ShareMemory(clock, 2), ShareMemory(clock, 1)
    tick = clock.length
    # It borrows for a second of the first tick; then for a whole tick, so that at its end only the mean is left.
    for moment, used in (
        (0, 9000),
        (SECOND, 0),
        (2 * SECOND, 0),
        (9 * tick, 0),
        (100 * tick, 5),
        (101 * tick, 0),
        (200 * tick, 0),
    ):
        clock.advance(moment)
        assert both.past() == [*alone.past(), 0]
        assert both.changes() == alone.changes()
        both.follow([used, 0], [0, 0])
        alone.follow([used], [0])
        assert both.changes() == alone.changes()


def test_a_mean_comes_to_its_amount_exactly_and_stays_there() -> None:
    clock = TickClock(SECOND)
    memory = ShareMemory(clock, 1)
    for begins, used in ((0, 3), (HOUR, 7), (2 * HOUR, 0)):
        clock.advance(begins)
        memory.follow([used], [0])
        for moment in (begins + HOUR // 2, begins + HOUR - SECOND):
            clock.advance(moment)
            assert not memory.changes()
            assert memory._at(clock.tick) == [used << memory_module._PLACES]
