"""Estimates in the lifecycle: learned from attempts that ended, told with jobs, and kept by the log."""

from __future__ import annotations

from typing import Any

from cress.core.jobs import JobEntry
from cress.lifecycle.machine import Machine
from cress.model.events import GroupsApplied
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.job import Condition
from cress.model.reports import Cause, Ended
from cress.model.times import HOUR, SECOND
from tests.lifecycle.builders import UTC_AT_START, World, after, ended, job

PREDICTING = Group(
    name="lab",
    quota=Quota(scalar=4000),
    policy=SchedPolicy.BACKFILL,
    options=(("estimates", "predicted"), ("backfill_order", "expansion_factor")),
)


def lab() -> World:
    """A node of four cores, and a group that works with estimates."""
    world = World(followed=True)
    world.step(GroupsApplied(groups=(PREDICTING,)))
    world.join("n1")
    return world


def ours(name: str, cpus: int = 4, **more: Any) -> Any:
    return job(cpus=cpus, group="lab", name=name, time_limit=HOUR, **more)


def told(world: World, number: int) -> JobEntry:
    return world.machine.core.jobs[number]


def ran(attempt: int, duration: int, code: int = 0) -> Ended:
    """The report of a task that ran for so many microseconds."""
    begin = UTC_AT_START + attempt
    return Ended(attempt=attempt, cause=Cause.EXITED, code=code, started=begin, at=begin + duration)


def test_a_job_is_expected_to_run_as_long_as_the_last_ones_of_its_name_and_user() -> None:
    world = lab()
    first, waiting = world.submit(ours("train"), ours("train"))
    assert told(world, waiting).run == HOUR
    world.report("n1", ran(1, 60 * SECOND))
    assert first in world.over
    # The second one runs by now; it was expected to take an hour when it started, or a minute: nothing depends on it.
    later, other = world.submit(ours("train"), ours("train", user="bob"))
    assert (told(world, later).run, told(world, other).run) == (60 * SECOND, HOUR)
    world.report("n1", ran(2, 20 * SECOND))
    (last,) = world.submit(ours("train"))
    # The median of 20 s, of 60 s, which weighs less, and of half a run to the limit.
    assert told(world, last).run == 60 * SECOND
    # What is stored is enough to go on, although nothing of the history is.
    again = Machine.restore(world.machine.export())
    assert again.core.jobs[last].estimate == told(world, last).estimate


def test_jobs_that_wait_are_estimated_again_when_a_run_of_their_user_ends() -> None:
    world = lab()
    _, _, waiting = world.submit(ours("train"), ours("train"), ours("train"))
    assert told(world, waiting).run == HOUR
    world.report("n1", ran(1, 60 * SECOND))
    assert told(world, waiting).run == 60 * SECOND


def test_a_job_whose_tasks_wait_for_single_tasks_is_estimated_again_too() -> None:
    """One in backoff is not: its own failure would change when its deadline is given up."""
    world = lab()
    load, other = world.submit(ours("load", 1), ours("train", 1))
    (fit, again) = world.submit(
        ours("train", 1, after=after(load, condition=Condition.TASKS)), ours("train", 1, retries=1, backoff=HOUR)
    )
    (failed,) = world.machine.jobs[again].attempts
    (ran_well,) = world.machine.jobs[other].attempts
    world.report("n1", ended(failed, 1))
    world.report("n1", ran(ran_well, 60 * SECOND))
    assert [told(world, number).run for number in (fit, again)] == [60 * SECOND, HOUR]


def test_groups_that_plan_with_limits_are_told_nothing() -> None:
    world = World(followed=True)
    world.join("n1")
    *_, waiting = world.submit(*[job(cpus=4, name="train", time_limit=HOUR)] * 3)
    world.report("n1", ran(1, SECOND))
    assert told(world, waiting).estimate is None


def test_a_task_that_was_stopped_teaches_nothing_and_one_that_failed_does() -> None:
    world = lab()
    world.submit(ours("train"))
    world.cancel(1)
    world.report("n1", ran(1, 60 * SECOND, code=-15))
    world.submit(ours("train"))
    (waiting,) = world.submit(ours("train"))
    assert told(world, waiting).run == HOUR
    world.report("n1", ran(2, 30 * SECOND, code=1))
    (waiting,) = world.submit(ours("train"))
    assert told(world, waiting).run == 30 * SECOND
