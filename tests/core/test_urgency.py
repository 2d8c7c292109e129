"""The policy Urgency: deadlines against what is left, which changes with time."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cress.core.groups.policies import most_urgent
from cress.core.groups.policies.edf import EdfPolicy
from cress.core.groups.policies.urgency import UrgencyPolicy
from cress.core.kernels.holding import FITTING
from cress.core.kernels.urgency import first_by_score
from cress.core.placing.shape import Shape
from cress.model.events import ClockSet
from cress.model.job import Job
from cress.model.times import HOUR, MINUTE, NEVER, SECOND
from tests.core.builders import World, group, job, nodes
from tests.examples import examples

# Deadline, pessimistic and optimistic run.
JOBS = st.lists(
    st.tuples(
        st.sampled_from([NEVER, 30, 60, 61, 100, 400]), st.sampled_from([1, 10, 30, 60, 90, NEVER]), st.integers(1, 60)
    ),
    min_size=1,
    max_size=6,
)


def plain(rows: list[tuple[int, int, int]], late: int, now: int, *, by_deadline: bool = False) -> list[int]:
    """The places of jobs in their order, exactly."""

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
    return sorted(range(len(rows)), key=lambda i: (-measure(*rows[i]), i))


@given(
    rows=JOBS, late=st.sampled_from([0, 1]), now=st.integers(0, 120), after=st.integers(0, 400), by_deadline=st.booleans(),  # noqa: E501
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
    values = np.array([(deadline, 0, least, run) for deadline, run, least in rows], np.int64).T.copy()
    members = np.arange(len(rows))
    head, change = first_by_score(by_deadline, values, float(late), members, 0, len(rows), now * SECOND)
    assert head == plain(rows, late, now * SECOND, by_deadline=by_deadline)[0]
    assert change > now * SECOND
    moment = now * SECOND + after * SECOND
    if moment < change:
        assert plain(rows, late, moment, by_deadline=by_deadline)[0] == head


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
            job("lost").cpu(4).expected(3600).deadline(30 * MINUTE).group("g"),
            job("in time").cpu(4).limit("1h").deadline(3 * HOUR).group("g"),
        ).decide()
        world.finish("runs")
        assert world.started() == ["runs", expected]


def test_a_limit_does_not_make_a_job_late() -> None:
    world = urgent()
    world.submit(
        job("asks for too much").cpu(4).limit("1h").deadline(30 * MINUTE).group("g"),
        job("in time").cpu(4).limit("1h").deadline(3 * HOUR).group("g"),
    ).decide()
    world.finish("runs")
    assert world.started() == ["runs", "asks for too much"]


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
            job("huge")
            .cpu(4)
            .tasks(1_000_000)
            .at_once(1)
            .limit("365d")
            .expected(365 * 86_400)
            .deadline(2 * HOUR)
            .group("g"),
            job("wide").cpu(4).tasks(1_000_000).limit("365d").expected(365 * 86_400).deadline(2 * HOUR).group("g"),
            job("small").cpu(4).limit("1h").deadline(3 * HOUR).group("g"),
        ).decide()
        world.finish("runs")
        assert world.started() == ["runs", "small"]
        assert world.core.outlook(world.ids["small"]) is None or world.core.validate() == []


# --- many jobs, looked at in blocks ----------------------------------------------------------------------------------


ROWS = 5


def shape_in(row: int) -> Shape:
    shape = Shape((1, 1), 1)
    shape.row = row
    return shape


SHAPES = [shape_in(row) for row in range(ROWS)]


@dataclass
class Queued:
    """A job as policies see it."""

    job: Job
    submitted: int
    deadline: int
    longest: int
    shortest: int
    shape: Shape
    limit: int
    run: int
    is_predicted: bool
    work: int = 0
    key: tuple[int, int] = (0, 0)
    most: int = 0
    waiting: int = 1
    attempts: tuple[int, ...] = ()

    @property
    def duration(self) -> int:
        return self.run if self.is_predicted else self.limit

    @property
    def mean(self) -> int:
        return self.longest

    @property
    def least(self) -> int:
        return self.shortest

    def waiting_work(self) -> int:
        return 0


class Story:
    """A policy with small blocks on a cluster where some shapes fit, and the same told plainly."""

    def __init__(self, kind: type[UrgencyPolicy[Any]], late: float, fits: list[bool], *, predicted: bool) -> None:
        core = World().core
        core.cluster.rows = np.zeros((ROWS, core.cluster.rows.shape[1]), np.int64)
        core.cluster.rows[:, FITTING] = fits
        self.policy = kind(core.books.fit, 0, late)
        self.late, self.fits, self.predicted = int(late), fits, predicted
        self.now, self.number = 0, 0
        self.jobs: list[Queued] = []
        # Per row, the shortest duration that failed while the memo is the same.
        self.bounds: dict[int, int] = {}
        self.memo: tuple[int, tuple[int, ...]] | None = None

    def step(self, what: str, count: int, due: int, run: int) -> None:
        self.number += 1
        if what == "add":
            self.jobs.append(
                Queued(
                    Job(id=self.number, group="g", request=(1, 1)),
                    count * SECOND,
                    self.now + due * SECOND,
                    run * SECOND,
                    run * SECOND // 2,
                    SHAPES[(count + run) % ROWS],
                    run + due,
                    run,
                    self.predicted,
                )
            )
            self.policy.add(self.jobs[-1])
        elif what == "pass":
            self.now += count * SECOND
            self.policy.pass_time(self.now)
        elif what == "fill":
            self.policy.fill(self.jobs)
        elif self.jobs:
            other = self.jobs[count % len(self.jobs)]
            if what == "remove":
                self.jobs.remove(other)
                self.policy.remove(other)
            elif what == "come back":
                self.policy.remove(other)
                other.shape = SHAPES[run % ROWS]
                self.policy.add(other)
            elif what == "reshape":
                other.shape = SHAPES[run % ROWS]
                self.policy.reshaped(other)
            elif what == "revalue":
                other.deadline, other.longest = self.now + due * SECOND, run * SECOND
                other.shortest, other.run = run * SECOND // 2, min(other.limit, run)
                self.policy.revalued(other)
            else:
                self.offers(run % 5, None if what == "offer all" else (due, ()))

    def in_order(self, moment: int) -> list[Queued]:
        jobs = sorted(self.jobs, key=lambda each: each.key)
        rows = [(each.deadline, each.longest, each.shortest) for each in jobs]
        return [jobs[i] for i in plain(rows, self.late, moment, by_deadline=self.policy.by_deadline)]

    def offers(self, failing: int, memo: tuple[int, tuple[int, ...]] | None) -> None:
        """So many jobs behind the head fail, and the next one that is offered starts; nobody else is offered."""
        head = self.policy.head()
        assert head is not None
        if memo is None or memo != self.memo:
            self.bounds = {}
        self.memo = memo
        expected = []
        for each in self.in_order(self.now):
            row = each.shape.row
            if each is head or not self.fits[row] or each.duration >= self.bounds.get(row, NEVER):
                continue
            expected.append(each)
            if len(expected) > failing:
                break
            if memo is not None:
                self.bounds[row] = each.duration
        offers = list(islice(self.policy.later(head, memo), failing + 1))
        assert [each.job.id for each in offers] == [each.job.id for each in expected]

    def check_head(self, later: int) -> None:
        first = next(iter(self.in_order(self.now)), None)
        assert self.policy.head() is first
        assert next(iter(self.policy), None) is first
        change = self.policy.next_change()
        assert change > self.now
        if later < change and self.jobs:
            assert self.in_order(later)[0] is first


# Few values, so that many jobs are equally urgent.
DUE, RUN = st.sampled_from([1, 5, 60, 61, 300]), st.sampled_from([1, 2, 3, 10, 45, 99])
ARRIVAL = st.tuples(st.just("add"), st.integers(0, 60), DUE, RUN)
OFFER = st.tuples(st.sampled_from(["offer", "offer all"]), st.just(0), st.integers(0, 1), st.integers(0, 4))
CHANGE = st.tuples(
    st.sampled_from(["remove", "revalue", "reshape", "come back", "fill"]),
    st.integers(0, 99),
    DUE,
    RUN,
)
PASS = st.tuples(st.just("pass"), st.integers(0, 40), st.just(0), st.just(0))
BEGINS = st.lists(ARRIVAL, max_size=20)
STEPS = st.lists(st.one_of(ARRIVAL, OFFER, OFFER, CHANGE, PASS), max_size=50)


@examples(20)
@given(
    begin=BEGINS, steps=STEPS, late=st.sampled_from([0.0, 1.0]), after=st.integers(1, 100), kind=st.sampled_from([UrgencyPolicy, EdfPolicy]),  # noqa: E501
    fits=st.lists(st.booleans(), min_size=ROWS, max_size=ROWS), predicted=st.booleans(),
)  # fmt: skip
def test_what_is_found_in_blocks_is_what_a_plain_search_finds(
    begin: list[tuple[str, int, int, int]],
    steps: list[tuple[str, int, int, int]],
    late: float,
    after: int,
    kind: type[UrgencyPolicy[Any]],
    fits: list[bool],
    predicted: bool,
) -> None:
    """Jobs come, also in the middle, go, are offered and get other shapes and estimates; the head, the time of its
    change and the offers behind it are those of all jobs in order.
    """
    story = Story(kind, late, fits, predicted=predicted)
    with patch.object(most_urgent, "_BLOCK", 3):
        for what, count, due, run in begin + steps:
            story.step(what, count, due, run)
            story.check_head(story.now + after * SECOND)


def test_by_deadline_nothing_changes_by_itself_if_those_that_are_late_stay_in_their_order() -> None:
    for late, wakes in ((1.0, False), (0.0, True)):
        story = Story(EdfPolicy, late, [True] * ROWS, predicted=False)
        story.step("add", 0, 100, 10)
        assert (story.policy.next_change() < NEVER) == wakes


def test_behind_the_head_only_jobs_of_shapes_that_fit_are_looked_at() -> None:
    story = Story(UrgencyPolicy, 0.0, [row == 1 for row in range(ROWS)], predicted=False)
    for number in range(2_000):
        story.step("add", number, 200 + number % 7, 1 + number % ROWS)
    head = story.policy.head()
    assert head is not None
    # If another one were looked at, it would be offered.
    story.policy.queue.rows[:] = 1
    others = [each for each in story.in_order(0) if each.shape.row == 1 and each is not head]
    assert list(story.policy.later(head, None)) == others
