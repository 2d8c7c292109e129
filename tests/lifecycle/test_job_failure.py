"""Jobs whose tasks are not to run again when their node is lost (``job_failure: false``)."""

from __future__ import annotations

import pytest

from cress.lifecycle.inputs import Drain, NodeDead
from cress.model.events import Outcome
from cress.model.records import JobState
from cress.model.reports import Cause
from tests.lifecycle.builders import World, ended, job, launched

LOST = "a task was lost with node n1; tasks of this job are not restarted"


def running(**more: object) -> tuple[World, int]:
    """A world with a job of one task on n1, and another node where it could run."""
    world = World()
    world.join("n1")
    (number,) = world.submit(job(**more))  # type: ignore[arg-type]
    world.run_all()
    world.join("n2")
    return world, number


def test_a_task_that_is_lost_with_its_node_has_failed() -> None:
    world, _ = running(job_failure=False)
    world.leave("n1")
    (record,) = world.step(NodeDead(name="n1")).jobs
    assert (record.state, record.failed, record.reason) == (JobState.LOST, 1, LOST)
    (attempt,) = world.last.attempts
    assert (attempt.outcome, attempt.final, attempt.error) == (Outcome.LOST, True, "its node is dead")
    assert not world.last.launches


def test_without_a_word_about_it_the_task_runs_elsewhere() -> None:
    world, number = running()
    world.leave("n1")
    assert launched(world.step(NodeDead(name="n1"))) == [(number, 0, "n2")]


@pytest.mark.parametrize("cause", [Cause.UNKNOWN, Cause.TERM, Cause.SHUTDOWN])
def test_the_node_itself_may_tell_of_it(cause: Cause) -> None:
    world, _ = running(job_failure=False)
    (record,) = world.report("n1", ended(1, None, cause)).jobs
    assert (record.state, record.reason) == (JobState.LOST, LOST)


def test_a_node_without_room_has_not_failed() -> None:
    world, number = running(job_failure=False)
    assert launched(world.report("n1", ended(1, None, Cause.NODE, ran=False))) == [(number, 0, "n2")]


def test_one_that_was_to_stop_for_others_runs_again_although_its_node_is_lost_meanwhile() -> None:
    world, number = running(job_failure=False)
    world.step(Drain(name="n1", deadline=0))
    assert world.machine.attempts[1].halted == "drained"
    world.leave("n1")
    assert launched(world.step(NodeDead(name="n1"))) == [(number, 0, "n2")]


def test_the_other_tasks_go_on_and_the_job_fails_at_its_end() -> None:
    world = World()
    world.join("n1", cpus=1)
    world.join("n2", cpus=1)
    (number,) = world.submit(job(2, job_failure=False))
    world.run_all()
    world.leave("n1")
    assert not world.step(NodeDead(name="n1")).jobs
    (record,) = world.finish(number).jobs
    assert (record.state, record.succeeded, record.failed, record.reason) == (JobState.LOST, 1, 1, LOST)


def test_what_is_cancelled_is_not_called_lost() -> None:
    world, number = running(job_failure=False)
    world.cancel(number)
    world.leave("n1")
    (record,) = world.step(NodeDead(name="n1")).jobs
    assert (record.state, record.reason) == (JobState.CANCELLED, "")
