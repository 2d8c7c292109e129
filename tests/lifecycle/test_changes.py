"""Changes of submitted jobs: what may be changed when, all or none; and running tasks that wait again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cress.core.kernels.holding import END
from cress.lifecycle.effects import DeadlineMissed, NewLimit
from cress.lifecycle.inputs import ChangeJobs, Hold, Requeue
from cress.lifecycle.machine import Machine
from cress.model.changeable import CHANGEABLE
from cress.model.errors import InputError
from cress.model.events import GroupsApplied, Outcome
from cress.model.group import SchedPolicy
from cress.model.job import Job
from cress.model.jobfile.keys import KEYS
from cress.model.reports import Cause
from cress.model.times import HOUR, MINUTE, NEVER
from cress.model.vectors import parse_vector
from tests.lifecycle.builders import DIMENSIONS, UTC_AT_START, World, ended, group, ids, job, launched, started
from tests.lifecycle.kept import service


def changes(number: int | tuple[int, ...], /, **values: Any) -> ChangeJobs:
    """The change of jobs to these values of fields of ``Job``."""
    keys = tuple(row.key for row in CHANGEABLE.values() if row.field in values)
    numbers = number if isinstance(number, tuple) else (number,)
    return ChangeJobs(jobs=numbers, values=msgspec.structs.replace(job(), **values), keys=keys, by="eve")


def changed(world: World, number: int, **values: Any) -> Job:
    """The description of a job after a change, which must be accepted; the scheduler has the same."""
    reply = world.step(changes(number, **values)).replies[0]
    assert not isinstance(reply, InputError), reply
    new = world.machine.jobs[number].job
    assert world.machine.core.jobs[number].job == new
    assert all(getattr(new, field) == value for field, value in values.items())
    return new


def full_world(cpus: int = 2) -> World:
    """A followed world with one node that job 1 fills."""
    world = World(followed=True)
    world.join("n1", cpus=cpus)
    world.submit(job(cpus=cpus, time_limit=HOUR))
    world.run_all()
    return world


def test_the_table_names_keys_of_job_files_and_fields_of_jobs() -> None:
    assert set(CHANGEABLE) <= set(KEYS)
    assert {row.field for row in CHANGEABLE.values()} <= set(Job.__struct_fields__)


def test_a_task_that_failed_more_often_than_its_new_retries_has_one_more_try() -> None:
    world = World(followed=True)
    world.join("n1", cpus=1)
    (number,) = world.submit(job(retries=5))
    for _ in range(3):
        world.run_all()
        (attempt,) = world.machine.attempts
        world.report("n1", ended(attempt, code=1))
        world.step(after=HOUR)
    assert world.machine.jobs[number].failures == {0: 3}
    changed(world, number, retries=1)
    assert world.machine.jobs[number].failures == {0: 1}
    world.run_all()
    (attempt,) = world.machine.attempts
    world.report("n1", ended(attempt, code=1))
    assert number not in world.machine.jobs


def test_a_waiting_job_with_a_higher_priority_starts_first() -> None:
    world = World(followed=True)
    world.step(GroupsApplied(groups=(msgspec.structs.replace(group("web", 2), policy=SchedPolicy.PRIORITY),)))
    world.join("n1", cpus=1)
    first, second, third = world.submit(*(job(group="web") for _ in range(3)))
    changed(world, third, priority=7)
    assert launched(world.finish(first)) == [(third, 0, "n1")]
    assert launched(world.finish(third)) == [(second, 0, "n1")]


def test_less_resources_let_a_waiting_job_start_at_once() -> None:
    world = World(followed=True)
    world.join("n1", cpus=2)
    (first,) = world.submit(job())
    (large,) = world.submit(job(cpus=2))
    assert not world.last.launches
    changed(world, large, request=parse_vector("<1, 1G>", DIMENSIONS))
    assert launched(world.last) == [(large, 0, "n1")]
    assert world.finish(first).jobs


def test_another_requirement_lets_a_waiting_job_start_elsewhere() -> None:
    world = World(followed=True)
    world.join("n1")
    world.join("n2")
    (number,) = world.submit(job(requirement='Name = "n1"', hold=True))
    changed(world, number, requirement='Name = "n2"', rank="CPU")
    assert launched(world.hold(number, held=False)) == [(number, 0, "n2")]


def test_a_job_moves_to_another_group() -> None:
    world = World(followed=True)
    world.step(GroupsApplied(groups=(group("web", 1), group("lab", 4))))
    world.join("n1", cpus=4)
    (first, second) = world.submit(job(group="web", cpus=2), job(group="web", cpus=2))
    waiting = [number for number in (first, second) if not world.machine.jobs[number].attempts]
    for number in waiting:
        changed(world, number, group="lab")
    assert [world.machine.jobs[number].running for number in (first, second)] == [1, 1]
    lab = world.machine.core.groups.get("lab")
    assert lab.jobs == len(waiting) == len(lab.attempts)
    assert world.machine.group_load.of("lab") == len(waiting)


def test_the_time_limit_of_a_running_task_reaches_its_node_now_and_after_a_break() -> None:
    world = full_world()
    changed(world, 1, time_limit=2 * HOUR)
    limit = NewLimit(1, 1, "n1", 2 * HOUR)
    assert world.last.limits == [limit]
    world.leave("n1")
    assert world.join("n1", cpus=2, reports=(started(1),)).limits == [limit]


@pytest.mark.parametrize("limit", [2 * HOUR, 10 * MINUTE, None])
def test_the_scheduler_expects_the_end_of_a_running_task_by_its_new_limit(limit: int | None) -> None:
    world = full_world()
    changed(world, 1, time_limit=limit)
    core = world.machine.core
    (attempt,) = core.jobs[1].attempts.values()
    end = NEVER if limit is None else attempt.start + limit
    assert attempt.last_end == attempt.expected == end == int(core.cluster.leases[attempt.slot, END])


def test_more_tasks_of_an_array_run_when_the_bound_is_raised() -> None:
    world = World(followed=True)
    world.join("n1")
    (number,) = world.submit(job(4, max_running=1))
    assert len(world.last.launches) == 1
    changed(world, number, max_running=3)
    assert len(world.last.launches) == 2
    changed(world, number, max_running=1)
    assert not world.last.halts
    assert not world.report("n1", ended(1)).launches


def test_a_deadline_is_watched_from_its_change_on() -> None:
    world = full_world()
    changed(world, 1, deadline=UTC_AT_START + world.now + 10 * MINUTE)
    changed(world, 1, deadline=0)
    assert not [key for key in world.machine.timers.times if key[1] == "1"]
    changed(world, 1, deadline=UTC_AT_START + world.now + 5 * MINUTE)
    told = []
    while world.now < 6 * MINUTE and world.machine.next_wakeup() is not None:
        world.wake()
        told += world.last.notices
    assert [notice.job for notice in told if isinstance(notice, DeadlineMissed)] == [1]
    changed(world, 1, deadline=0)
    assert not [key for key in world.machine.timers.times if key[1] == "1"]


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("running", {"group": "lab"}, "job 1 runs, and its group may be changed only while no task of the job runs"),
    ("running", {"requirement": "CPU >= 1"}, "job 1 runs, and its requirement may be changed only"),
    ("waiting", {"group": "nobody"}, "group: there is no group 'nobody'"),
    ("waiting", {"request": parse_vector("<64, 1G>", DIMENSIONS)}, "resource: one task is larger than every node"),
    ("waiting", {"requirement": 'Name = "n9"'}, "no node that is large enough could ever satisfy"),
    ("waiting", {"deadline": 1}, "deadline: "),
    ("gang", {"max_running": 2}, "a gang at once"),
]


@pytest.mark.parametrize(("state", "values", "why"), REFUSED)
def test_what_cannot_be_changed_is_refused_and_nothing_changes(state: str, values: dict[str, Any], why: str) -> None:
    world = full_world()
    (number,) = world.submit(job(2, gang=True) if state == "gang" else job())
    number = 1 if state == "running" else number
    before = world.machine.jobs[number].job
    assert why in world.refuse(changes(number, **values))
    assert world.machine.jobs[number].job == before


def test_several_jobs_are_changed_all_or_none() -> None:
    world = full_world()
    (second, third) = world.submit(job(), job())
    text = world.refuse(changes((second, 1, third), group="default", priority=3))
    assert "job 1 runs" in text
    assert "none was changed" in text
    assert world.machine.jobs[second].job.priority == 0
    world.step(changes((1, second, third), priority=3))
    assert {live.job.priority for live in world.machine.jobs.values()} == {3}


@pytest.mark.parametrize("word", [changes(1, priority=1), Requeue(jobs=(1,))])
def test_only_jobs_of_their_own_are_changed(word: ChangeJobs | Requeue) -> None:
    world = World()
    world.join("n1")
    (web,) = world.submit(service())
    (member,) = world.machine.families[web].members.values()
    what = "changed" if isinstance(word, ChangeJobs) else "requeued"
    for number, why in ((web, f"job 1 is a service and cannot be {what}"), (member, "is task 0 of service 1"),
                        (99, "there is no job 99")):  # fmt: skip
        assert why in world.refuse(msgspec.structs.replace(word, jobs=(number,)))
    world.submit(job())
    world.finish(3)
    assert "job 3 has ended" in world.refuse(msgspec.structs.replace(word, jobs=(3,)))


def test_a_new_run_gets_an_id_for_each_job_and_none_is_used_twice() -> None:
    world = full_world()
    word = msgspec.structs.replace(changes(1, time_limit=2 * HOUR), new_runs=True)
    reply = world.step(word).replies[0]
    assert isinstance(reply, tuple)
    (run,) = reply
    assert world.machine.jobs[1].template == run == 2
    assert world.submit(job()) == (3,)


def test_a_requeued_job_waits_again_without_a_failure_and_runs_again() -> None:
    world = full_world()
    step = world.step(Requeue(jobs=(1,), by="eve"))
    assert ids(step.halts) == [1]
    step = world.report("n1", ended(1, -15, Cause.STOPPED))
    assert [(record.outcome, record.error) for record in step.attempts] == [(Outcome.PREEMPTED, "requeued by eve")]
    assert launched(step) == [(1, 0, "n1")]
    # Each attempt knows how often its program ran before; one that has not begun does not count.
    assert [launch.restarts for launch in step.launches] == [1]
    world.step(Requeue(jobs=(1,), by="eve"))
    step = world.report("n1", ended(step.launches[0].attempt, -15, Cause.STOPPED, ran=False))
    assert [launch.restarts for launch in step.launches] == [1]
    for ran in (2, 3):
        world.report("n1", started(step.launches[0].attempt))
        world.step(Requeue(jobs=(1,), by="eve"))
        step = world.report("n1", ended(step.launches[0].attempt, -15, Cause.STOPPED))
        assert [launch.restarts for launch in step.launches] == [ran]


def test_a_requeued_job_may_be_held_and_then_changed() -> None:
    world = full_world()
    world.step(Requeue(jobs=(1,), hold=True, by="eve"))
    assert not launched(world.report("n1", ended(1, -15, Cause.STOPPED)))
    assert changed(world, 1, request=parse_vector("<1, 1G>", DIMENSIONS)).hold is False
    assert launched(world.step(Hold(job=1, held=False))) == [(1, 0, "n1")]


def test_only_running_jobs_are_requeued_all_or_none() -> None:
    world = full_world()
    (waiting,) = world.submit(job())
    assert "no task of job 2 runs; none was requeued" in world.refuse(Requeue(jobs=(1, waiting)))
    assert not world.machine.attempts[1].halted


def test_changes_are_in_what_is_stored() -> None:
    world = full_world()
    world.submit(job())
    changed(world, 2, priority=4, request=parse_vector("<1, 512M>", DIMENSIONS))
    twin = Machine.restore(world.machine.export())
    assert twin.jobs[2].job == twin.core.jobs[2].job == world.machine.jobs[2].job
    assert twin.export() == world.machine.export()
