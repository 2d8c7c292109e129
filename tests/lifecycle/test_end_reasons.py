"""How tasks ended, for people: a state of its own for each kind of end, and a sentence that says why."""

from __future__ import annotations

import msgspec
import pytest

from cress.lifecycle.attempts.end_reasons import without_rule
from cress.lifecycle.inputs import Cancel, Drain, NodeDead
from cress.lifecycle.machine import Machine
from cress.model.events import GroupsApplied, Outcome
from cress.model.job import Condition
from cress.model.options import Options
from cress.model.records import JobState
from cress.model.reports import Cause, Usage
from cress.model.times import MINUTE
from tests.lifecycle.builders import World, after, ended, group, job


def test_a_time_limit_leaves_its_trace_in_attempt_and_job() -> None:
    world = World(followed=True)
    world.join("n1")
    (number,) = world.submit(job(time_limit=10 * MINUTE))
    step = world.report("n1", ended(1, -15, Cause.TIME_LIMIT))
    (attempt,) = step.attempts
    assert (attempt.outcome, attempt.code, attempt.error) == (Outcome.TIMED_OUT, -15, "time limit of 10m exceeded")
    record = world.over[number]
    assert (record.state, record.failed, record.reason) == (JobState.TIMED_OUT, 1, "time limit of 10m exceeded")


def test_memory_says_the_limit_and_what_was_used() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job())
    killed = "out of memory: it used more than the 64M that it may"
    report = msgspec.structs.replace(ended(1, -9, Cause.MEMORY), error=killed, usage=Usage(0, 64 * 2**20))
    (attempt,) = world.report("n1", report).attempts
    assert (attempt.outcome, attempt.error) == (Outcome.OUT_OF_MEMORY, f"{killed} (peak 64M)")
    assert (world.over[number].state, world.over[number].reason) == (JobState.OUT_OF_MEMORY, attempt.error)


@pytest.mark.parametrize(
    ("causes", "state"),
    [
        ((Cause.TIME_LIMIT, Cause.TIME_LIMIT), JobState.TIMED_OUT),
        ((Cause.TIME_LIMIT, Cause.MEMORY), JobState.FAILED),
        ((Cause.EXITED, Cause.TIME_LIMIT), JobState.FAILED),
        ((Cause.MEMORY, None), JobState.OUT_OF_MEMORY),
    ],
)
def test_a_job_has_the_state_that_all_its_failed_tasks_have_in_common(
    causes: tuple[Cause | None, ...], state: JobState
) -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(2, time_limit=MINUTE))
    for attempt, cause in enumerate(causes, 1):
        world.report("n1", ended(attempt) if cause is None else ended(attempt, 1, cause))
    assert world.over[number].state is state


def test_the_kind_of_failure_outlasts_a_restart_of_the_center() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(2, time_limit=MINUTE))
    world.report("n1", ended(1, 1, Cause.TIME_LIMIT))
    world.machine = Machine.restore(world.machine.export())
    world.report("n1", ended(2, 1, Cause.TIME_LIMIT))
    assert world.over[number].state is JobState.TIMED_OUT


def test_what_timed_out_did_not_succeed_and_did_fail() -> None:
    world = World()
    world.join("n1")
    first, ok, failed = world.submit(
        job(time_limit=MINUTE), job(after=after(-1)), job(after=after(-1, condition=Condition.FAILED))
    )
    world.report("n1", ended(1, 1, Cause.TIME_LIMIT))
    assert world.over[ok].reason == f"dependency failed: job {first} timed out"
    assert world.machine.jobs[failed].running == 1


def test_who_cancelled_a_job_stands_with_it_and_its_tasks() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(6))
    world.step(Cancel(job=number, by="bob"))
    for attempt in range(1, 5):
        (record,) = world.report("n1", ended(attempt, -15, Cause.STOPPED)).attempts
        assert (record.outcome, record.error) == (Outcome.CANCELLED, "cancelled by bob")
    assert (world.over[number].state, world.over[number].reason) == (JobState.CANCELLED, "cancelled by bob")


def test_a_preempted_task_says_for_whom() -> None:
    world = World(Options(preemption="on"))
    world.join("n1", 4)
    world.step(GroupsApplied(groups=(group("lab", 2), group("web", 2))))
    world.submit(job(4, group="lab"))
    world.run_all()
    (number,) = world.submit(job(2, group="web", name="shop"))
    victims = [halt.attempt for halt in world.last.halts]
    assert victims
    (record,) = world.report("n1", ended(victims[0], -15, Cause.STOPPED)).attempts
    rule = "group web is owed its quota (uses 0 of 2 cores), and group lab uses 4 of 2 cores"
    why = f"preempted for job {number} (shop) of group web"
    assert (record.outcome, record.error) == (Outcome.PREEMPTED, f"{why}: {rule}")
    assert without_rule(record.error) == (why, rule)


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (Cause.TERM, "node n1 did not hear from the center for longer than a term, and stopped it"),
        (Cause.SHUTDOWN, "the executor of node n1 was stopped, and its tasks with it"),
    ],
)
def test_a_lost_task_names_its_node_and_what_happened(cause: Cause, why: str) -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(job_failure=False))
    (record,) = world.report("n1", ended(1, -9, cause)).attempts
    assert (record.outcome, record.error) == (Outcome.LOST, why)
    over = world.over[number]
    assert (over.state, over.failed) == (JobState.LOST, 1)
    assert over.reason == "a task was lost with node n1; tasks of this job are not restarted"


def test_a_dead_node_and_a_drained_one_are_told() -> None:
    world = World()
    world.join("n1")
    world.join("n2")
    world.submit(job(2, max_per_node=1))
    world.run_all()
    world.leave("n1")
    (lost,) = world.step(NodeDead(name="n1")).attempts
    assert (lost.outcome, lost.error) == (Outcome.LOST, "its node is dead")
    world.step(Drain(name="n2", deadline=0, reason="new disks", by="eve"))
    drained = next(each for each in world.machine.attempts.values() if each.node == "n2")
    (record,) = world.report("n2", ended(drained.id, -15, Cause.STOPPED)).attempts
    assert (record.outcome, record.error) == (Outcome.PREEMPTED, "node n2 was drained by eve: new disks")


def test_a_gang_that_starts_again_says_so() -> None:
    world = World()
    world.join("n1")
    world.submit(job(2, gang=True, retries=1))
    world.run_all()
    world.report("n1", ended(1, 1))
    (record,) = world.report("n1", ended(2, -15, Cause.STOPPED)).attempts
    assert (record.outcome, record.error) == (
        Outcome.PREEMPTED,
        "another task of its gang ended; the gang starts again as a whole",
    )
