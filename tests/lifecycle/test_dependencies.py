"""Jobs that come after other jobs: when they start, and when they never will."""

from __future__ import annotations

import msgspec
import pytest

from cress.center.committing.expected_starts import ExpectedStarts
from cress.core.answers.forward import Forecast, Forward
from cress.core.openings import EndsBy
from cress.lifecycle import foretelling
from cress.lifecycle.foretelling import foretold, resumes
from cress.lifecycle.inputs import Reported, Submit
from cress.lifecycle.jobs.task_by_task import MOST_AT_ONCE
from cress.lifecycle.machine import Machine
from cress.model.advance import AdvanceReservation
from cress.model.errors import InputError
from cress.model.events import AdvanceReserved
from cress.model.job import Condition, Job
from cress.model.records import JobState
from cress.model.task_dependencies import MOST_WAITING
from cress.model.times import HOUR, MINUTE
from cress.model.waits import WaitFor
from tests.lifecycle.builders import UTC_AT_START, World, after, ended, job, launched
from tests.lifecycle.kept import service
from tests.lifecycle.test_dags import dag

ENDS = ("succeeds", "fails", "is cancelled")


def end(world: World, number: int, how: str) -> None:
    if how == "is cancelled":
        world.cancel(number)
    world.finish(number, 0 if how == "succeeds" else 1)


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("condition", list(Condition))
def test_a_job_starts_when_its_condition_comes_true_and_is_cancelled_when_it_cannot(
    condition: Condition, how: str
) -> None:
    world = World()
    world.join("n1")
    first, then = world.submit(job(name="load"), job(after=after(-1, condition=condition)))
    assert launched(world.last) == [(first, 0, "n1")]
    waits = "the same tasks of job 1 (load) to succeed" if condition is Condition.TASKS else "job 1 (load)"
    assert world.machine.reason(then) == f"waiting for {waits}"
    end(world, first, how)
    true = {"succeeds": {Condition.OK, Condition.ANY, Condition.TASKS}, "fails": {Condition.FAILED, Condition.ANY}}.get(
        how, {Condition.ANY}
    )
    if condition in true:
        assert launched(world.last) == [(then, 0, "n1")]
    else:
        (record,) = [each for each in world.last.jobs if each.id == then]
        assert record.state is JobState.CANCELLED
        assert record.reason.startswith("dependency failed")
        ends = {"succeeds": "did not fail", "fails": "did not succeed", "is cancelled": "was cancelled"}
        assert record.reason.endswith(ends[how])


TASKS = Condition.TASKS


def finish_task(world: World, number: int, task: int, code: int = 0) -> None:
    """A running task of a job ends with this exit code."""
    (attempt,) = [each for each in world.machine.jobs[number].attempts.values() if each.task == task]
    world.report(attempt.node, ended(attempt.id, code))


def running(world: World, number: int) -> list[int]:
    return sorted(each.task for each in world.machine.jobs[number].attempts.values())


def test_each_task_starts_when_the_same_task_of_the_other_job_has_succeeded() -> None:
    world = World(followed=True)
    world.join("n1", 4)
    load, fit, plot = world.submit(
        job(4, name="load", retries=1),
        job(4, name="fit", after=after(-1, condition=TASKS)),
        job(3, name="plot", after=after(-2, condition=TASKS)),
    )
    finish_task(world, load, 2)
    assert (running(world, load), running(world, fit)) == ([0, 1, 3], [2])
    assert world.machine.reason(plot) == "waiting for the same tasks of job 2 (fit) to succeed"
    finish_task(world, fit, 2)
    assert running(world, plot) == [2]
    # A failure that is retried decides nothing; one that is final drops the task, and that of the third job.
    finish_task(world, load, 0, code=1)
    world.machine = Machine.restore(world.machine.export())
    world.wake()
    assert (running(world, load), running(world, fit)) == ([0, 1, 3], [])
    finish_task(world, load, 0, code=1)
    why = "dependency failed: task 0 of job 1 did not succeed"
    assert (world.machine.jobs[fit].cancelled, world.machine.jobs[fit].reason) == (1, why)
    assert world.machine.jobs[plot].reason == "dependency failed: task 0 of job 2 did not succeed"
    # A job that comes later starts the tasks whose counterparts have succeeded, and drops the others.
    (late,) = world.submit(job(3, name="late", after=after(load, condition=TASKS)))
    assert (running(world, late), world.machine.jobs[late].cancelled) == ([2], 1)
    world.hold(fit)
    finish_task(world, load, 1)
    finish_task(world, load, 3)
    assert (running(world, fit), running(world, late)) == ([], [1, 2])
    finish_task(world, plot, 2)
    world.hold(fit, held=False)
    assert running(world, fit) == [1, 3]
    world.finish(fit)
    world.finish(plot)
    world.finish(late)
    counts = {number: (over.state.value, over.succeeded, over.cancelled) for number, over in world.over.items()}
    assert counts[fit] == ("cancelled", 3, 1)
    assert counts[plot] == counts[late] == ("cancelled", 2, 1)


def test_tasks_whose_counterparts_will_never_run_are_dropped_with_the_end_of_their_job() -> None:
    world = World(followed=True)
    world.join("n1", 2)
    (load,) = world.submit(job(4, name="load", max_running=1))
    fit, behind = world.submit(
        job(4, after=after(load, condition=TASKS)), job(after=after(-1, condition=Condition.ANY))
    )
    finish_task(world, load, 0)
    assert running(world, fit) == [0]
    world.cancel(load)
    # The running task of the other job may still succeed, but its end as a whole decides.
    finish_task(world, load, 1)
    assert (running(world, fit), world.machine.jobs[fit].cancelled) == ([0], 3)
    assert world.machine.jobs[fit].reason == "dependency failed: job 1 was cancelled"
    world.finish(fit)
    assert (world.over[fit].succeeded, world.over[fit].cancelled) == (1, 3)
    assert running(world, behind) == [0]
    # A job that has ended already counts as a whole.
    world.finish(behind)
    known = ((load, world.over[load].state), (behind, world.over[behind].state))
    jobs = (job(1, after=after(behind, condition=TASKS)), job(2, after=after(load, condition=TASKS)))
    world.step(Submit(jobs=jobs, known=known))
    done, never = behind + 1, behind + 2
    assert running(world, done) == [0]
    assert world.over[never].reason == "dependency failed: job 1 was cancelled"


@pytest.mark.parametrize(
    ("first", "then", "what"),
    [
        (job(2), job(3), "has 2 tasks, and this job 3: the others would never start"),
        (job(2, gang=True), job(2), "is a gang, whose tasks succeed together"),
        (job(2), job(2, gang=True), "the tasks of a gang start together; they cannot wait for single tasks"),
        (job(2), dag("a"), "a dag cannot wait for single tasks"),
        (service(2), job(2), "is a service; only tasks of a batch job can be waited for"),
    ],
)
def test_tasks_that_cannot_wait_for_single_tasks_are_refused(first: Job, then: Job, what: str) -> None:
    world = World()
    world.join("n1", 8)
    firsts, thens = first if isinstance(first, tuple) else (first,), then if isinstance(then, tuple) else (then,)
    made = world.submit(*firsts)
    before = len(world.machine.jobs) + len(world.machine.families)
    head = msgspec.structs.replace(thens[0], after=after(made[0], condition=TASKS))
    assert what in world.refuse(Submit(jobs=(head, *thens[1:])))
    assert len(world.machine.jobs) + len(world.machine.families) == before


def test_many_tasks_behind_single_tasks_are_bounded_and_dropped_in_slices() -> None:
    world = World()
    world.join("n1", 2)
    (load,) = world.submit(job(MOST_WAITING + 1))
    half = job(MOST_WAITING // 2 + 1, after=after(load, condition=TASKS))
    what = "jobs[1].after: 100,002 tasks of this submit wait for single tasks (tasks), and at most 100,000 can"
    assert world.refuse(Submit(jobs=(half, half))).startswith(what)
    assert not world.machine.behind_tasks
    fit, _plot = world.submit(half, job(10, after=after(-1, condition=TASKS)))
    world.cancel(load)
    (_, last) = world.machine.attempts
    finish_task(world, load, 0, code=1)
    world.now += 1000
    pauses, most, left = 0, 0, MOST_WAITING // 2 + 1
    reports = (Reported(node="n1", reports=(ended(last, 1),)),)
    for _ in world.machine.stepping(world.now, UTC_AT_START + world.now, reports):
        now = len(world.machine.core.jobs[fit].later) if fit in world.machine.core.jobs else 0
        pauses, most, left = pauses + 1, max(most, left - now), now
    assert (left, most, not world.machine.jobs) == (0, MOST_AT_ONCE, True)
    assert pauses > MOST_WAITING // 2 // MOST_AT_ONCE


def test_an_ending_job_that_succeeds_after_all_releases_all_tasks_behind_it() -> None:
    world = World(followed=True)
    world.join("n1", 4)
    (load,) = world.submit(job(2))
    (early,) = world.submit(job(1, after=after(load, condition=TASKS)))
    finish_task(world, load, 0)
    world.cancel(load)
    (late,) = world.submit(job(2, after=after(load, condition=TASKS)))
    assert (running(world, early), running(world, late)) == ([0], [])
    # It ends by itself before it is stopped.
    finish_task(world, load, 1)
    assert world.over[load].state is JobState.SUCCEEDED
    assert (running(world, late), world.machine.jobs[late].reason) == ([0, 1], "")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_chain_that_is_submitted_behind_a_failed_task_loses_this_task_only(order: tuple[int, ...]) -> None:
    world = World(followed=True)
    world.join("n1", 8)
    (load,) = world.submit(job(3))
    finish_task(world, load, 0, code=1)
    befores = (load, *(-order.index(i) - 1 for i in range(2)))
    numbers = world.submit(*(job(3 - (i == 2), after=after(befores[i], condition=TASKS)) for i in order))
    chain = [world.machine.jobs[numbers[order.index(i)]] for i in range(3)]
    assert [each.cancelled for each in chain] == [1, 1, 1]
    why = [f"dependency failed: task 0 of job {first} did not succeed" for first in (load, *(j.job.id for j in chain))]
    assert [each.reason for each in chain] == why[:3]
    finish_task(world, load, 1)
    finish_task(world, chain[0].job.id, 1)
    assert running(world, chain[1].job.id) == [1]
    world.cancel(load)
    world.finish(load, code=1)
    assert (world.over[chain[0].job.id].succeeded, chain[1].cancelled, chain[2].cancelled) == (1, 2, 1)


def test_a_task_in_backoff_is_told_before_those_that_are_not_released() -> None:
    world = World(followed=True)
    world.join("n1", 4)
    load, fit = world.submit(job(3), job(3, after=after(-1, condition=TASKS), retries=1, backoff=MINUTE))
    for task in (2, 0):
        finish_task(world, load, task)
        finish_task(world, fit, task, code=1)
    world.machine = Machine.restore(world.machine.export())
    assert world.machine.reason(fit) == "a task failed and is retried in 1m"
    wrong = Machine.restore(world.machine.export())
    later = wrong.core.jobs[fit].later
    later[1] = later.pop(1)
    what = "job 2 has a task that is not released behind one that waits for its time"
    assert any(what in problem for problem in wrong.validate())


def test_tasks_behind_tasks_that_waited_in_vain_have_a_true_reason() -> None:
    world = World(followed=True)
    world.join("n1", 4)
    load, fit, plot = world.submit(
        job(2), job(2, after=after(-1, condition=TASKS)), job(2, after=after(-2, condition=TASKS))
    )
    finish_task(world, load, 0)
    world.cancel(load)
    world.finish(load, code=1)
    assert running(world, fit) == [0]
    assert world.machine.jobs[fit].reason == "dependency failed: job 1 was cancelled"
    assert world.machine.jobs[plot].reason == "dependency failed: task 1 of job 2 did not succeed"


def test_a_chain_of_a_thousand_jobs_from_task_to_task_ends_with_its_first_task() -> None:
    world = World()
    jobs = [job(2, name="j0"), *(job(2, name=f"j{i}", after=after(-i, condition=TASKS)) for i in range(1, 1000))]
    world.join("n1", 2)
    numbers = world.submit(*jobs)
    finish_task(world, numbers[0], 0, code=1)
    assert all(world.machine.jobs[number].cancelled == 1 for number in numbers[1:])
    world.cancel(numbers[0])
    world.finish(numbers[0], code=1)
    assert not world.machine.jobs


def test_what_comes_after_a_cancelled_job_is_cancelled_too_all_along_the_chain() -> None:
    world = World()
    world.join("n1")
    length = 3_000
    chain = [job(name="0"), *(job(name=str(i), after=after(-i)) for i in range(1, length))]
    numbers = world.submit(*chain)
    step = world.finish(numbers[0], 1)
    assert [each.id for each in step.jobs] == list(numbers)
    assert step.jobs[1].reason == "dependency failed: job 1 did not succeed"
    assert step.jobs[2].reason == "dependency failed: job 2 was cancelled"
    assert not world.machine.jobs
    assert not world.machine.behind


def test_a_job_after_several_starts_with_the_last() -> None:
    world = World()
    world.join("n1")
    one, two, then = world.submit(job(), job(), job(after=after(-1, -2)))
    assert world.machine.reason(then) == "waiting for job 1 (job of 1), and 1 more"
    world.finish(one)
    assert world.machine.reason(then) == "waiting for job 2 (job of 1)"
    world.finish(two)
    assert launched(world.last) == [(then, 0, "n1")]


def test_an_order_against_that_of_the_submit_holds_too() -> None:
    world = World()
    world.join("n1")
    then, first = world.submit(job(after=after(-2)), job())
    assert launched(world.last) == [(first, 0, "n1")]
    assert launched(world.finish(first)) == [(then, 0, "n1")]


def test_a_job_may_come_after_one_of_an_earlier_submit() -> None:
    world = World()
    world.join("n1")
    (first,) = world.submit(job())
    (then,) = world.submit(job(after=after(first)))
    assert not world.last.launches
    assert launched(world.finish(first)) == [(then, 0, "n1")]


@pytest.mark.parametrize(("state", "starts"), [(JobState.SUCCEEDED, True), (JobState.FAILED, False)])
def test_how_a_job_that_is_over_ended_is_told_by_the_shell(state: JobState, starts: bool) -> None:
    world = World()
    world.join("n1")
    (old,) = world.submit(job())
    world.finish(old)
    world.step(after=10**9)
    world.submit(job())
    world.finish(old + 1)
    assert old not in world.machine.ended
    step = world.step(Submit(jobs=(job(after=after(old)),), known=((old, state),)))
    assert bool(step.launches) is starts
    assert [each.state for each in step.jobs] == ([] if starts else [JobState.CANCELLED])


def test_a_job_that_ends_while_its_successor_is_submitted_is_not_missed() -> None:
    world = World()
    world.join("n1")
    (first,) = world.submit(job())
    world.finish(first)
    # The shell looked before that step, and saw a job that was alive.
    reply = world.step(Submit(jobs=(job(after=after(first)),))).replies[0]
    assert isinstance(reply, tuple)
    assert launched(world.last) == [(reply[0], 0, "n1")]


@pytest.mark.parametrize(
    ("jobs", "sentence"),
    [
        ([job(after=after(99))], "after: there is no job 99"),
        ([job(), job(after=after(1, 99))], "jobs[1].after: there is no job 1"),
        ([job(), job(after=after(-3))], "jobs[1].after: there is no job -3"),
        ([job(after=after(-1))], "after: the job depends on itself"),
        ([job(), job(after=after(-2))], "jobs[1].after: the job depends on itself"),
        (
            [job(name="a", after=after(-3)), job(name="b", after=after(-1)), job(name="c", after=after(-2))],
            "jobs[0].after: these jobs depend on each other: a → c → b → a",
        ),
        ([job(name="a"), job(after=after(-1, -1))], "jobs[1].after: the job a is named twice"),
    ],
)
def test_an_order_that_is_none_is_refused(jobs: list[object], sentence: str) -> None:
    world = World()
    world.join("n1")
    assert world.refuse(Submit(jobs=tuple(jobs))).startswith(sentence)  # type: ignore[arg-type]
    assert not world.machine.jobs
    with pytest.raises(InputError):
        world.machine.check_submit(jobs)  # type: ignore[arg-type]


def test_cancelling_the_successor_leaves_the_first_alone() -> None:
    world = World()
    world.join("n1")
    first, then = world.submit(job(), job(after=after(-1)))
    assert [each.id for each in world.cancel(then).jobs] == [then]
    assert [each.state for each in world.finish(first).jobs] == [JobState.SUCCEEDED]


def test_a_held_job_whose_turn_has_come_is_held() -> None:
    world = World()
    world.join("n1")
    first, then = world.submit(job(), job(after=after(-1), hold=True))
    assert world.machine.reason(then) == f"held by ann until it is released (cress release {then})"
    assert not world.finish(first).launches
    assert launched(world.hold(then, held=False)) == [(then, 0, "n1")]


def test_the_start_of_a_job_is_foretold_from_the_ends_of_those_before_it() -> None:
    world = World()
    world.join("n1")
    first, web = world.submit(job(cpus=1, time_limit=HOUR), service(cpus=1))
    world.run_all()
    second, third = world.submit(
        job(cpus=1, time_limit=HOUR, after=after(first)), job(cpus=1, time_limit=HOUR, after=after(-1))
    )
    steps = [
        msgspec.structs.replace(step, time_limit=HOUR, when="load.rows > 9" if step.name == "etl.big" else "")
        for step in dag("load", "big: load", "end: load", "tail: big")[1:]
    ]
    whole, load, big, last, tail = world.submit(*dag("load", "big: load", "end: load", "tail: big")[:1], *steps)
    unknown = world.submit(
        job(after=after(web)),
        job(after=after(whole)),
        job(after=after(first, condition=Condition.FAILED)),
        job(after=after(first), wait_for=(WaitFor("path", "/x"),)),
    )
    world.run_all()
    twin = Machine.restore(world.machine.export())
    starts = {number: found.start for number, found in foretold(twin, EndsBy.LIMIT, lambda: True).items()}
    hours = {number: round((start or 0) / HOUR) for number, start in starts.items()}
    # What depends on values, failures, services or things outside of the cluster is not foreseen.
    assert hours == {second: 1, third: 2, last: 1}, (load, big, tail, unknown)


def test_the_start_of_a_job_that_waits_for_times_is_foretold() -> None:
    world = World()
    world.join("n1")
    world.submit(job(cpus=4, time_limit=2 * HOUR))
    early, late, held, outside = world.submit(
        job(cpus=1, time_limit=HOUR, wait_for=(WaitFor("time", "1h"),)),
        job(cpus=1, time_limit=HOUR, wait_for=(WaitFor("time", "1h"), WaitFor("time", "3h"))),
        job(cpus=1, time_limit=HOUR, wait_for=(WaitFor("time", "1h"),), hold=True),
        job(cpus=1, time_limit=HOUR, wait_for=(WaitFor("time", "1h"), WaitFor("path", "/x"))),
    )
    world.run_all()
    found = foretold(Machine.restore(world.machine.export()), EndsBy.LIMIT, lambda: True)
    told = {
        number: (round((one.start or 0) / HOUR), round(one.least / HOUR), one.because) for number, one in found.items()
    }
    # The first one has its time before it has room, and no end lets the other one start.
    assert told == {early: (2, 1, 1), late: (3, 3, None)}, (held, outside)


def test_jobs_after_the_same_dag_share_one_set_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.join("n1")
    whole, *steps = world.submit(*(msgspec.structs.replace(step, time_limit=HOUR) for step in dag("a", "b", "c: b")))
    behind = world.submit(*(job(cpus=1, time_limit=HOUR, after=after(whole, steps[0])) for _ in range(4)))
    world.run_all()
    twin = Machine.restore(world.machine.export())
    found = dict(foretelling._dependencies(twin, behind))
    sets = {id(others): others for each in found.values() for others in each}
    assert (list(found), list(sets.values())) == (list(behind), [frozenset(steps), frozenset(steps[:1])])
    # Neither more jobs than are foretold nor more dependencies than can be followed.
    monkeypatch.setattr(foretelling, "MOST_JOBS", 4)
    starts = foretold(twin, EndsBy.LIMIT, lambda: True)
    assert [(number, round((found.start or 0) / HOUR)) for number, found in starts.items()] == [
        (steps[2], 1), *((number, 2) for number in behind[:3]),
    ]  # fmt: skip
    # A job that is over for the scheduler holds nobody up: between two slices of a step a dag may have no step left.
    ended = 99
    after_ended: dict[int, tuple[frozenset[int], ...]] = {
        behind[0]: (frozenset(), frozenset([ended])), behind[1]: (frozenset([ended, steps[0]]),),
    }  # fmt: skip
    core = Machine.restore(world.machine.export()).core
    found_starts = Forward(core, EndsBy.LIMIT, {}, after=after_ended).until_starts(behind[:2])
    assert [(number, round((found.start or 0) / HOUR)) for number, found in found_starts.items()] == [
        (behind[0], 0), (behind[1], 1),
    ]  # fmt: skip
    monkeypatch.setattr(foretelling, "MOST_DEPENDENCIES", 5)
    assert list(dict(foretelling._dependencies(world.machine, behind))) == list(behind[:2])


def test_a_start_is_not_foretold_before_a_time_that_is_known() -> None:
    world = World()
    world.join("n1")
    failed, soft = world.submit(
        job(cpus=1, time_limit=HOUR, retries=1, backoff=6 * MINUTE),
        job(cpus=1, time_limit=HOUR, requirement='Rack = "r9" && f(x) = (Waittime > 2h)'),
    )
    world.finish(failed, 1)
    world.join("n2")
    begin = world.machine.utc
    world.step(AdvanceReserved(AdvanceReservation(name="fix", start=begin, end=begin + 3 * HOUR, places=(("n2", 1),))))
    (kept,) = world.submit(job(cpus=1, time_limit=HOUR, requirement='Name = "n2"'))
    found = foretold(Machine.restore(world.machine.export()), EndsBy.LIMIT, lambda: True)
    starts = ExpectedStarts()
    starts.foretold(0, found, {}, set())
    for number, minutes in ((failed, 6), (soft, 120), (kept, 180)):
        told = starts.of(number, 0)
        assert told is not None
        assert round((told.earliest or 0) / MINUTE) == round((told.likely or 0) / MINUTE) == minutes
    # A forecast from before the failure does not know of the pause.
    starts.foretold(world.machine.utc, {failed: Forecast(0), soft: Forecast(0)}, {}, set())
    known = [starts.of(number, world.machine.utc, resumes(world.machine, number)) for number in (failed, soft)]
    pauses = [round((((told and told.earliest) or 0) - world.machine.utc) / MINUTE) for told in known]
    assert pauses == [6, 0]


def test_the_first_start_of_tasks_that_wait_for_single_tasks_is_foretold() -> None:
    world = World()
    world.join("n1", 2)
    (load,) = world.submit(job(3, name="load", max_running=1, time_limit=MINUTE))
    (fit,) = world.submit(job(3, name="fit", time_limit=MINUTE, after=after(load, condition=TASKS)))
    starts = foretold(Machine.restore(world.machine.export()), EndsBy.LIMIT, lambda: True)
    # The first task of the other job began a step ago.
    assert starts[fit].start == MINUTE - 1000
    assert resumes(world.machine, fit) == 0
    world.hold(fit)
    assert "held" in world.machine.reason(fit)
