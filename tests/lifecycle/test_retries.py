"""What becomes of tasks that fail: tried again after a while, as often as their job says."""

from __future__ import annotations

import pytest

from cress.lifecycle.inputs import NodeDead, Restarted
from cress.lifecycle.jobs.outcomes import backoff
from cress.model.events import GroupsApplied, Outcome
from cress.model.options import Options
from cress.model.records import JobState
from cress.model.reports import Cause
from cress.model.times import HOUR, MINUTE, SECOND
from tests.lifecycle.builders import World, ended, group, ids, job, launched


def test_a_failed_task_is_tried_again_with_a_wait_that_doubles() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(retries=3, backoff=10 * SECOND))
    waits = []
    for attempt in (1, 2, 3):
        step = world.report("n1", ended(attempt, 1))
        assert [(each.outcome, each.final) for each in step.attempts] == [(Outcome.FAILED, False)]
        failed_at = world.now
        assert launched(world.wake()) == [(number, 0, "n1")]
        waits.append((world.now - failed_at) // SECOND)
    assert waits == [10, 20, 40]
    step = world.report("n1", ended(4, 1))
    assert [each.final for each in step.attempts] == [True]
    assert [(each.state, each.failed) for each in step.jobs] == [(JobState.FAILED, 1)]


def test_success_at_the_second_try_is_a_success() -> None:
    world = World()
    world.join("n1")
    world.submit(job(retries=1))
    world.report("n1", ended(1, 1))
    world.wake()
    assert [each.state for each in world.report("n1", ended(2)).jobs] == [JobState.SUCCEEDED]


@pytest.mark.parametrize(
    ("cause", "code", "state"),
    [
        (Cause.EXITED, 1, JobState.FAILED),
        (Cause.TIME_LIMIT, 0, JobState.TIMED_OUT),
        (Cause.MEMORY, -9, JobState.OUT_OF_MEMORY),
        (Cause.FILES, None, JobState.FAILED),  # the program was not started
        (Cause.OUTPUTS, 0, JobState.FAILED),  # the program succeeded, which is not enough
    ],
)
def test_exit_codes_limits_and_files_that_do_not_come_or_go_use_up_a_retry(
    cause: Cause, code: int | None, state: JobState
) -> None:
    world = World()
    world.join("n1")
    world.submit(job(retries=1))
    assert not world.report("n1", ended(1, code, cause)).jobs
    world.wake()
    assert [each.state for each in world.report("n1", ended(2, code, cause)).jobs] == [state]


def test_without_a_backoff_a_failed_task_is_tried_again_at_once() -> None:
    world = World()
    world.join("n1")
    world.submit(job(retries=1, backoff=0))
    assert ids(world.report("n1", ended(1, 1)).launches) == [2]


def test_tasks_are_tried_again_each_on_its_own() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(2, retries=1))
    world.report("n1", ended(1, 1))
    assert [attempt.task for attempt in world.machine.jobs[number].attempts.values()] == [1]
    world.report("n1", ended(2, 1))
    world.wake()
    assert len(world.machine.attempts) == 1
    world.wake()
    assert len(world.machine.attempts) == 2


@pytest.mark.parametrize(("code", "cause"), [(-15, Cause.STOPPED), (-9, Cause.SHUTDOWN), (None, Cause.UNKNOWN)])
def test_what_the_task_is_not_to_blame_for_costs_no_retry(code: int | None, cause: Cause) -> None:
    world = World()
    world.join("n1")
    world.submit(job(retries=1))
    for attempt in (1, 2, 3):
        assert ids(world.report("n1", ended(attempt, code, cause)).launches) == [attempt + 1]
    assert not world.report("n1", ended(4, 1)).jobs, "its first failure"
    world.wake()
    assert world.report("n1", ended(5, 1)).jobs


def test_a_job_of_which_a_task_waits_for_its_time_says_so() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(retries=1, backoff=90 * SECOND))
    world.report("n1", ended(1, 1))
    assert world.machine.reason(number) == "a task failed and is retried in 1m30s"
    assert world.machine.reason(number, world.now + 80 * SECOND) == "a task failed and is retried in 10s"


def test_a_gang_with_a_failed_task_starts_again_as_a_whole() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(3, gang=True, retries=1, backoff=10 * SECOND))
    step = world.report("n1", ended(1, 1))
    assert ids(step.halts) == [2, 3]
    step = world.report("n1", ended(2, -15, Cause.STOPPED), ended(3, 1))
    assert [each.outcome for each in step.attempts] == [Outcome.PREEMPTED] * 2, "they were told to stop"
    assert not step.launches
    assert len(world.wake().launches) == 3
    # It has been tried again as often as it may be, whichever task fails.
    world.report("n1", ended(5, 1))
    assert world.machine.jobs[number].failed == 1


def test_when_two_tasks_of_a_gang_fail_at_once_it_has_failed_once() -> None:
    world = World()
    world.join("n1")
    world.submit(job(2, gang=True, retries=1))
    step = world.report("n1", ended(1, 1), ended(2, 1))
    assert [each.outcome for each in step.attempts] == [Outcome.FAILED, Outcome.PREEMPTED]
    assert len(world.wake().launches) == 2


@pytest.mark.parametrize(
    ("code", "cause", "state", "reason"),
    [
        (-9, Cause.EXITED, JobState.FAILED, "task 0: "),
        (0, Cause.TIME_LIMIT, JobState.TIMED_OUT, "task 0: time limit"),
        (-9, Cause.MEMORY, JobState.OUT_OF_MEMORY, "task 0: "),
    ],
)
def test_a_gang_without_retries_left_fails_with_its_first_task_and_the_others_are_stopped(
    code: int, cause: Cause, state: JobState, reason: str
) -> None:
    world = World(followed=True)
    world.join("n1")
    world.submit(job(3, gang=True, time_limit=MINUTE))
    world.report("n1", ended(2))
    step = world.report("n1", ended(1, code, cause))
    assert ids(step.halts) == [3]
    assert not step.jobs, "one of its tasks still runs"
    step = world.report("n1", ended(3, -15, Cause.STOPPED))
    (last,) = step.attempts
    assert (last.outcome, last.final) == (Outcome.CANCELLED, True)
    assert last.error.startswith(f"the job failed: {reason}")
    (record,) = step.jobs
    assert (record.state, record.succeeded, record.failed, record.cancelled) == (state, 1, 2, 0)
    assert record.reason.startswith(reason)
    assert world.machine.next_wakeup() is None


def test_tasks_of_a_gang_that_fail_together_each_have_their_own_end() -> None:
    world = World()
    world.join("n1")
    world.submit(job(3, gang=True))
    step = world.report("n1", ended(1, 1), ended(2, 7), ended(3, -15, Cause.STOPPED))
    assert [(each.outcome, each.code) for each in step.attempts] == [
        (Outcome.FAILED, 1), (Outcome.FAILED, 7), (Outcome.CANCELLED, -15),
    ]  # fmt: skip
    (record,) = step.jobs
    assert (record.state, record.failed, record.reason) == (JobState.FAILED, 3, "task 0: exit code 1")


def test_a_gang_that_is_not_restarted_after_the_failure_of_a_node_is_stopped_elsewhere_too() -> None:
    world = World(followed=True)
    world.join("n1", 1)
    world.join("n2", 1)
    world.submit(job(2, gang=True, job_failure=False))
    world.leave("n1")
    step = world.step(NodeDead("n1"))
    assert [each.outcome for each in step.attempts] == [Outcome.LOST]
    assert ids(step.halts) == [2]
    (record,) = world.report("n2", ended(2, -15, Cause.STOPPED)).jobs
    assert (record.state, record.failed) == (JobState.LOST, 2)


def test_a_gang_of_which_a_program_cannot_be_started_anywhere_is_stopped() -> None:
    world = World(followed=True)
    world.join("n1")
    world.submit(job(3, gang=True))
    step = world.report("n1", ended(1, None, Cause.NOT_STARTED, ran=False))
    assert ids(step.halts) == [2, 3]
    (record,) = world.report("n1", ended(2, -15, Cause.STOPPED), ended(3, -15, Cause.STOPPED)).jobs
    assert record.failed == 3
    assert "could not be started" in record.reason


def test_a_cancelled_job_is_not_tried_again() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(2, retries=5))
    world.report("n1", ended(1, 1))
    world.cancel(number)
    (record,) = world.report("n1", ended(2, -15, Cause.STOPPED)).jobs
    assert (record.state, record.cancelled, record.failed) == (JobState.CANCELLED, 2, 0)
    assert world.machine.next_wakeup() is None


def test_a_wait_outlives_a_restart_and_a_move_to_another_group() -> None:
    world = World()
    world.join("n1")
    world.step(GroupsApplied(groups=(group("old", 2),)))
    (number,) = world.submit(job(group="old", retries=1, backoff=HOUR))
    world.report("n1", ended(1, 1))
    world.step(GroupsApplied(groups=(group("new", 2),), moves=(("old", "new"),)))
    world.step(Restarted(epoch=2, options=Options(grace=SECOND)))
    world.join("n1")
    assert world.machine.next_wakeup() == world.machine.core.next_wakeup()
    assert launched(world.wake()) == [(number, 0, "n1")]
    assert world.finish(number).jobs[0].group == "new"


@pytest.mark.parametrize(
    ("first", "failures", "wait"),
    [(SECOND, 0, SECOND), (SECOND, 3, 8 * SECOND), (7 * MINUTE, 1, 10 * MINUTE), (SECOND, 1000, 10 * MINUTE)],
)
def test_the_wait_has_a_limit(first: int, failures: int, wait: int) -> None:
    assert backoff(first, failures, 10 * MINUTE) == wait
