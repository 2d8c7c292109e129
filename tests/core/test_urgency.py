"""The policy Urgency: deadlines against what is left, which changes with time."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cress.core.groups.policies import most_urgent
from cress.core.groups.policies.edf import EdfPolicy
from cress.core.groups.policies.urgency import UrgencyPolicy
from cress.core.kernels.urgency import first_by_score
from cress.core.placing.shape import Shape
from cress.model.events import ClockSet
from cress.model.job import Job
from cress.model.times import HOUR, MINUTE, NEVER, SECOND
from tests.core.builders import World, group, job, nodes

GAP = 2**62
# Deadline, pessimistic and optimistic run.
JOBS = st.lists(
    st.tuples(
        st.sampled_from([NEVER, 30, 60, 61, 100, 400]), st.sampled_from([1, 10, 30, 60, 90, NEVER]), st.integers(1, 60)
    ),
    min_size=1,
    max_size=6,
)


def plain(rows: list[tuple[int, int, int]], late: int, now: int, *, by_deadline: bool = False) -> int:
    """The place of the first job, exactly."""

    def nearness(deadline: int, _: int, shortest: int) -> int:
        if deadline == NEVER:
            return 0
        return 0 if not late and shortest > deadline - now else NEVER - deadline

    def urgency(deadline: int, longest: int, shortest: int) -> Fraction:
        if NEVER in (deadline, longest):
            return Fraction(0)
        left = deadline - now
        if shortest > left:
            return Fraction(late)
        return Fraction(1) if longest >= left else Fraction(longest, left)

    measure = nearness if by_deadline else urgency
    return max(range(len(rows)), key=lambda i: (measure(*rows[i]), -i))


@given(
    rows=JOBS, late=st.sampled_from([0, 1]), now=st.integers(0, 120), after=st.integers(0, 400), by_deadline=st.booleans(),
)  # fmt: skip
def test_the_head_is_the_first_job_until_the_time_that_is_named(
    rows: list[tuple[int, int, int]], late: int, now: int, after: int, by_deadline: bool
) -> None:
    rows = [
        (
            deadline * SECOND if deadline < NEVER else NEVER,
            run * SECOND if run < NEVER else NEVER,
            min(least, run) * SECOND,
        )
        for deadline, run, least in rows
    ]
    deadlines, longest, shortest = (np.array(each, np.int64) for each in zip(*rows, strict=True))
    limits = np.ones(len(rows), np.int64)
    head, change = first_by_score(
        by_deadline, limits, GAP, deadlines, longest, shortest, float(late), 0, len(rows), now * SECOND
    )
    assert head == plain(rows, late, now * SECOND, by_deadline=by_deadline)
    assert change > now * SECOND
    moment = now * SECOND + after * SECOND
    if moment < change:
        assert plain(rows, late, moment, by_deadline=by_deadline) == head


def urgent(**options: str) -> World:
    world = World(group("g", 99, "Urgency").with_options(**options), nodes=nodes(1, cpu=4), drain_after=24 * HOUR)
    world.observe([ClockSet(0)])
    world.run(job("runs").cpu(4).limit("1h").group("g"))
    return world


def test_the_job_that_has_least_time_left_in_relation_to_what_it_takes_goes_first() -> None:
    world = urgent()
    world.submit(
        job("no deadline").cpu(4).limit("1min").group("g"),
        job("soon but short").cpu(4).limit("1min").deadline(2 * HOUR).group("g"),
        job("later but long").cpu(4).limit("3h").deadline(5 * HOUR).group("g"),
    ).decide()
    world.wait(60).finish("runs")
    assert world.started() == ["runs", "later but long"]


def test_a_short_job_near_its_deadline_passes_a_long_one_at_the_time_that_is_named() -> None:
    world = urgent()
    world.submit(
        job("long").cpu(4).limit("1h").deadline(3 * HOUR).group("g"),
        job("short").cpu(4).limit("1min").deadline(HOUR).group("g"),
    ).decide()
    # 60 / (180 - t) = 1 / (60 - t) in minutes.
    named = world.core.next_wakeup()
    assert named is not None
    assert 57 * MINUTE < named < 58 * MINUTE
    world.now = named
    world.decide()
    world.finish("runs")
    assert world.started() == ["runs", "short"]


def test_a_deadline_that_cannot_be_met_counts_for_nothing_or_for_all() -> None:
    for late, expected in (("best_effort", "in time"), ("urgent", "lost")):
        world = urgent(late=late)
        world.submit(
            job("lost").cpu(4).limit("1h").deadline(30 * MINUTE).group("g"),
            job("in time").cpu(4).limit("1h").deadline(3 * HOUR).group("g"),
        ).decide()
        world.finish("runs")
        assert world.started() == ["runs", expected]


def test_by_deadline_a_job_is_late_only_when_such_jobs_take_too_much_of_their_limits() -> None:
    for least, expected in ((120, "in time"), (20, "asks for too much")):
        world = World(group("g", 99, "EDF"), nodes=nodes(1, cpu=4), drain_after=24 * HOUR)
        world.observe([ClockSet(0)])
        world.run(job("runs").cpu(4).limit("1h").group("g"))
        world.submit(
            job("asks for too much").cpu(4).limit("2h").deadline(HOUR).expected(60 * least).group("g"),
            job("in time").cpu(4).limit("1h").deadline(3 * HOUR).group("g"),
        ).decide()
        world.finish("runs")
        assert world.started() == ["runs", expected]


def test_without_backfill_nothing_starts_beside_a_head_that_does_not_fit() -> None:
    for policy in ("EDF", "Urgency", "BackFill"):
        for backfill, expected in (("easy", ["runs", "small"]), ("off", ["runs"])):
            world = World(group("g", 99, policy).with_options(backfill=backfill), nodes=nodes(1, cpu=4))
            world.observe([ClockSet(0)])
            world.run(job("runs").cpu(3).limit("1h").group("g"))
            world.submit(
                job("wide").cpu(4).limit("1h").deadline(3 * HOUR).group("g"),
                job("small").cpu(1).limit("1min").deadline(9 * HOUR).group("g"),
            ).decide()
            assert world.started() == expected, (policy, backfill)
            assert world.core.validate() == []


def test_deadlines_follow_the_wall_clock() -> None:
    world = urgent()
    world.submit(
        job("a").cpu(4).limit("1h").deadline(3 * HOUR).group("g"), job("b").cpu(4).limit("1h").group("g")
    ).decide()
    world.observe([ClockSet(4 * HOUR)])
    world.submit(job("c").cpu(4).limit("1h").deadline(8 * HOUR).group("g"))
    world.finish("runs")
    assert world.started() == ["runs", "c"]


def test_the_largest_jobs_have_their_place_too() -> None:
    for policy in ("Urgency", "EDF"):
        world = World(group("g", 99, policy), nodes=nodes(1, cpu=4), drain_after=24 * HOUR)
        world.observe([ClockSet(0)])
        world.run(job("runs").cpu(4).limit("1h").group("g"))
        world.submit(
            job("huge").cpu(4).tasks(1_000_000).at_once(1).limit("365d").deadline(2 * HOUR).group("g"),
            job("wide").cpu(4).tasks(1_000_000).limit("365d").deadline(2 * HOUR).group("g"),
            job("small").cpu(4).limit("1h").deadline(3 * HOUR).group("g"),
        ).decide()
        world.finish("runs")
        assert world.started() == ["runs", "small"]
        assert world.core.outlook(world.ids["small"]) is None or world.core.validate() == []


# --- many jobs, looked at in blocks ----------------------------------------------------------------------------------


@dataclass
class Queued:
    """A job as policies see it."""

    job: Job
    submitted: int
    deadline: int
    longest: int
    shortest: int
    shape: Shape = field(default_factory=lambda: Shape((1, 1), 1))
    limit: int = 1
    work: int = 0
    run: int = 1
    key: tuple[int, int] = (0, 0)

    def longest_left(self) -> int:
        return self.longest

    def shortest_left(self) -> int:
        return self.shortest

    def limit_left(self) -> int:
        return self.longest

    def least_left(self) -> int:
        return self.shortest

    def waiting_work(self) -> int:
        return 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 60), st.integers(1, 300), st.integers(1, 100)),
        st.tuples(st.just("remove"), st.integers(0, 99), st.just(0), st.just(0)),
        st.tuples(st.just("revalue"), st.integers(0, 99), st.integers(1, 300), st.integers(1, 100)),
        st.tuples(st.just("pass"), st.integers(0, 40), st.just(0), st.just(0)),
        st.tuples(st.just("fill"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(
    steps=STEPS, late=st.sampled_from([0.0, 1.0]), after=st.integers(1, 100), kind=st.sampled_from([UrgencyPolicy, EdfPolicy]),
)  # fmt: skip
def test_the_head_found_in_blocks_is_the_head_of_all(
    steps: list[tuple[str, int, int, int]], late: float, after: int, kind: type[UrgencyPolicy[Any]]
) -> None:
    """Jobs come, also in the middle, go and are estimated anew; the head and the time of its change are those of a plain search."""
    now, jobs = 0, list[Queued]()
    policy = kind(World().core.fit, 0, late)

    def first(moment: int) -> Queued | None:
        ordered = sorted(jobs, key=lambda each: each.key)
        rows = [(each.deadline, each.longest, each.shortest) for each in ordered]
        return ordered[plain(rows, int(late), moment, by_deadline=kind.by_deadline)] if rows else None

    with patch.object(most_urgent, "_BLOCK", 3):
        for number, (what, count, due, run) in enumerate(steps):
            if what == "add":
                job = Job(id=number + 1, group="g", request=(1, 1))
                jobs.append(Queued(job, count * SECOND, now + due * SECOND, run * SECOND, run * SECOND // 2))
                policy.add(jobs[-1])
            elif what == "pass":
                now += count * SECOND
                policy.pass_time(now)
            elif what == "fill":
                policy.fill(jobs)
            elif jobs and what == "remove":
                policy.remove(jobs.pop(count % len(jobs)))
            elif jobs:
                other = jobs[count % len(jobs)]
                other.deadline, other.longest, other.shortest = now + due * SECOND, run * SECOND, run * SECOND // 2
                policy.revalued(other)
            head = policy.head()
            assert head is first(now)
            assert next(iter(policy), None) is head
            change = policy.next_change()
            assert change > now
            if now + after * SECOND < change:
                assert first(now + after * SECOND) is head
