"""Trials: the course of a cluster with a change and without it, and the comparison of the two (design note 0052)."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.lifecycle.inputs import Configure, Drain, Input, NodeDead, NodeJoined, NodeLeft, Submit
from cress.lifecycle.machine import Machine
from cress.lifecycle.trials.compare import compare
from cress.lifecycle.trials.course import CourseRun
from cress.model.course import Consequences, Course
from cress.model.errors import InputError
from cress.model.events import GroupsApplied
from cress.model.job import Job, JobType
from cress.model.options import Options
from cress.model.records import JobState
from cress.model.times import HOUR, MINUTE
from cress.model.waits import WaitFor
from tests.examples import examples
from tests.lifecycle.builders import World, after, group, job, node
from tests.lifecycle.kept import service
from tests.lifecycle.test_crons import cron
from tests.lifecycle.test_dags import dag
from tests.lifecycle.test_machine_properties import OPTIONS, Executors


def course(world: World, *change: Input, moments: int = 10_000) -> tuple[Course, frozenset[int]]:
    """The course of a copy of a world, and the jobs that the change submits."""
    left = [moments]

    def patient() -> bool:
        left[0] -= 1
        return left[0] >= 0

    twin = Machine.restore(world.machine.export())
    run = CourseRun(twin, patient)
    replies = run.begin(world.now, world.machine.utc, change)
    found = run.run()
    assert twin.validate() == []
    return found, frozenset(number for reply in replies for number in reply or ())


def consequences(world: World, *change: Input) -> Consequences:
    after_it, submitted = course(world, *change)
    return compare(course(world)[0], after_it, submitted)


def starts(found: Course, world: World) -> dict[int, int]:
    """Minutes from now until each job that waited starts."""
    return {
        one.job: round((one.start - world.machine.utc) / MINUTE)
        for one in found.jobs
        if one.waited and one.start is not None
    }


def busy(*, limit: int = HOUR, options: Options | None = None) -> World:
    """Two full nodes, and two jobs that wait: each job takes a node for an hour."""
    world = World(options)
    world.join("n1")
    world.join("n2")
    world.submit(*(job(cpus=4, time_limit=limit) for _ in range(2)))
    world.run_all()
    world.submit(*(job(cpus=4, time_limit=limit) for _ in range(2)))
    return world


def test_without_a_change_the_queue_runs_down() -> None:
    world = busy()
    found, _ = course(world)
    assert starts(found, world) == {3: 60, 4: 60}
    assert (found.finished, found.unending, found.stopped) == (True, 0, ())
    assert round((found.until - found.begin) / MINUTE) == 120
    assert found.use["cpu"] == pytest.approx(1, abs=0.001)
    assert (found.total.waited, found.total.started) == (2, 2)


def test_the_world_itself_is_not_touched() -> None:
    world = busy()
    before = world.machine.export()
    consequences(world, Drain(name="n1", deadline=MINUTE))
    assert world.machine.export() == before


def test_a_job_more_starts_last_and_delays_nobody() -> None:
    world = busy()
    found = consequences(world, Submit(jobs=(job(cpus=4, time_limit=HOUR),)))
    (planned,) = found.submitted
    assert planned.start is not None
    assert round((planned.start - world.machine.utc) / MINUTE) == 120
    assert (found.later, found.earlier, found.stopped) == (0, 0, ())


def test_a_planned_job_without_a_start_says_what_it_waits_for() -> None:
    world = busy()
    (web,) = world.submit(service(cpus=1))
    short = job(cpus=1, time_limit=MINUTE)
    whole, *steps = dag("check", "big: check", "end: big")
    conditions = "", "check.rows > 9", ""
    steps = [
        msgspec.structs.replace(step, when=when, time_limit=MINUTE)
        for step, when in zip(steps, conditions, strict=True)
    ]
    plans = {
        Submit(jobs=(msgspec.structs.replace(short, hold=True),)): [
            "held by ann until it is released (cress release 7)"
        ],
        Submit(jobs=(msgspec.structs.replace(short, after=after(web)),)): [f"waiting for job {web} (web)"],
        Submit(jobs=(msgspec.structs.replace(short, wait_for=(WaitFor("path", "/x"),)),)): ["waiting for path /x"],
        Submit(jobs=(msgspec.structs.replace(short, after=after(99)),), known=((99, JobState.FAILED),)): [
            "dependency failed: job 99 did not succeed"
        ],
        Submit(jobs=(cron(),)): ["next run at 2023-11-14 23:00 UTC"],
        Submit(jobs=(whole, *steps)): [
            "",
            "it starts only if check.rows > 9, which is not foreseen",
            "dependency failed: job 9 was cancelled",
        ],
    }
    for plan, reasons in plans.items():
        planned = consequences(world, plan).submitted
        assert [one.reason for one in planned if one.reason or one.start is not None] == reasons, plan


def test_a_node_less_loses_its_task_and_delays_the_others() -> None:
    world = busy()
    found = consequences(world, NodeLeft(name="n1"), NodeDead(name="n1", forget=True))
    (lost,) = found.stopped
    assert (lost.job, lost.node, lost.why) == (1, "n1", "lost")
    assert (found.later, found.earlier) == (2, 0)
    assert {one.job for one in found.shifts} == {3, 4}
    assert found.after.until > found.before.until


def test_a_node_more_lets_one_start_now() -> None:
    world = busy()
    found = consequences(world, NodeJoined(node=node("n3"), boot="b"))
    (shift,) = found.shifts
    assert shift.job == 3
    assert shift.after == world.machine.utc
    assert found.after.total.mean_wait < found.before.total.mean_wait


def test_a_drain_stops_at_its_deadline() -> None:
    world = busy()
    found = consequences(world, Drain(name="n1", deadline=10 * MINUTE))
    (stopped,) = found.stopped
    assert (stopped.job, stopped.why) == (1, "drained")
    assert round((stopped.at - world.machine.utc) / MINUTE) == 10
    assert round(stopped.done / MINUTE) == 10


def test_a_drain_that_is_long_enough_stops_nothing() -> None:
    world = busy()
    found = consequences(world, Drain(name="n1", deadline=2 * HOUR))
    assert found.stopped == ()
    assert found.later == 1


def test_the_planned_job_preempts_for_its_quota_and_says_whom() -> None:
    world = World()
    world.join("n1", 4)
    world.step(GroupsApplied(groups=(group("lab", 2), group("web", 2))))
    world.submit(job(4, group="lab", time_limit=HOUR))
    world.run_all()
    found = consequences(world, Submit(jobs=(job(2, group="web", time_limit=HOUR),)))
    (planned,) = found.submitted
    assert {(one.why, one.by, one.job) for one in found.stopped} == {("preempted", planned.job, 1)}
    assert len(found.stopped) == 2
    assert found.after.total.stopped == 2


def test_other_options_decide_otherwise() -> None:
    world = World()
    world.join("n1", 4)
    world.step(GroupsApplied(groups=(group("lab", 2), group("web", 2))))
    world.submit(job(4, group="lab", time_limit=HOUR))
    world.run_all()
    world.submit(job(2, group="web", time_limit=HOUR, hold=True))
    groups = world.machine.core.groups.configured
    off = Configure(options=Options(preemption="off"), licences=(), groups=groups)
    found = consequences(world, off, Submit(jobs=(job(2, group="web", time_limit=HOUR),)))
    (planned,) = found.submitted
    assert found.stopped == ()
    assert planned.start is not None
    assert round((planned.start - world.machine.utc) / MINUTE) == 60


def test_jobs_behind_others_follow_and_a_missed_deadline_counts() -> None:
    world = busy()
    first, second = job(cpus=4, time_limit=HOUR), job(cpus=4, time_limit=HOUR, after=after(-1), within=3 * HOUR)
    found = consequences(world, Submit(jobs=(first, second)))
    assert [round(((one.start or 0) - world.machine.utc) / MINUTE) for one in found.submitted] == [120, 180]
    assert (found.before.total.missed, found.after.total.missed) == (0, 1)


def test_what_never_ends_is_said_to_be_unending() -> None:
    world = World()
    world.join("n1", 4)
    world.submit(job(cpus=4))
    world.run_all()
    world.submit(job(cpus=4, time_limit=HOUR))
    found, _ = course(world)
    assert (found.finished, found.unending) == (True, 1)
    assert starts(found, world) == {}


def test_a_held_job_is_not_waited_for() -> None:
    world = busy()
    world.submit(job(cpus=4, time_limit=HOUR, hold=True))
    found, _ = course(world)
    assert (found.finished, found.unending, found.total.started) == (True, 0, 2)


def test_services_become_ready_and_go_on() -> None:
    world = World()
    world.join("n1", 4)
    world.submit(service(2, minimum=1))
    world.submit(job(cpus=4, time_limit=HOUR))
    found, _ = course(world)
    assert found.finished
    assert JobType.SERVICE in {live.job.type for live in world.machine.jobs.values()}


def test_a_course_that_is_broken_off_says_so() -> None:
    world = busy()
    found, _ = course(world, moments=1)
    assert not found.finished


def test_a_refused_change_is_an_error_and_says_why() -> None:
    world = busy()
    with pytest.raises(InputError, match="larger than every node"):
        course(world, Submit(jobs=(job(cpus=40),)))


def test_estimates_say_when_runs_end() -> None:
    world = busy(limit=HOUR)
    live = world.machine.jobs[1]
    for _ in range(5):
        world.machine.estimator.ended(live.job, 10 * MINUTE)
    utc, run = world.machine.utc, CourseRun(world.machine, lambda: True)
    run.begin(world.now, utc)
    assert min(one.start or 0 for one in run.run().jobs if one.waited) < utc + 30 * MINUTE


@examples(6)
@given(st.integers(0, 2**32))
def test_a_change_that_changes_nothing_has_no_consequences(seed: int) -> None:
    world = World(OPTIONS)
    world.step(GroupsApplied(groups=(group("a", 4), group("b", 4))))
    executors = Executors(Random(seed))
    for _ in range(20):
        said = executors.next_input(world)
        world.step(said)
        executors.remember(world, said)
        executors.obey(world)
    again = GroupsApplied(groups=world.machine.core.groups.configured)
    one, other = course(world, moments=60)[0], course(world, again, moments=60)[0]
    found = compare(one, other, frozenset())
    assert (found.shifts, found.stopped) == ((), ())
    assert all(moment is None or moment >= one.begin for job in one.jobs for moment in (job.start, job.end))
    assert 0 <= one.total.share <= 1 + 1e-9


@pytest.mark.parametrize(
    ("asked", "smallest"),
    [
        (job(cpus=5), "with cpu of at most 4 it fits"),
        (job(3, cpus=4, gang=True), "with at most 2 tasks it fits"),
    ],
)
def test_a_job_that_can_never_run_is_told_the_smallest_change(asked: Job, smallest: str) -> None:
    world = World()
    world.join("n1")
    world.join("n2")
    assert smallest in world.refuse(Submit(jobs=(asked,)))


def test_the_smallest_change_is_true() -> None:
    world = World()
    world.join("n1")
    world.join("n2")
    assert world.submit(job(cpus=4), job(2, cpus=4, gang=True))


def test_a_drain_stops_what_runs_although_nothing_waits() -> None:
    world = World()
    world.join("n1")
    world.join("n2", 2)
    world.submit(job(cpus=4, time_limit=HOUR))
    world.run_all()
    found = consequences(world, Drain(name="n1", deadline=10 * MINUTE))
    (stopped,) = found.stopped
    assert (stopped.job, stopped.why) == (1, "drained")
    assert found.after.unending == 1, "no other node is large enough"


def test_a_planned_service_is_told_as_one_job_that_counts_nowhere_else() -> None:
    world = World()
    world.join("n3", 1)
    world.join("n4", 1)
    found = consequences(world, Submit(jobs=(service(2, gang=True, max_per_node=1),)))
    (planned,) = found.submitted
    assert (planned.name, planned.start, dict(planned.nodes)) == ("web", world.machine.utc, {"n3": 1, "n4": 1})
    assert found.after.total.waited == 2, "its two tasks"
    # One that does not start is told as well.
    world.submit(job())
    (late,) = consequences(world, Submit(jobs=(service(2, gang=True, max_per_node=1),))).submitted
    assert (late.name, late.start) == ("web", None)
