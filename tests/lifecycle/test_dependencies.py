"""Jobs that come after other jobs: when they start, and when they never will."""

from __future__ import annotations

import msgspec
import pytest

from cress.center.committing.expected_starts import ExpectedStarts
from cress.core.answers.forward import Forecast, Forward
from cress.core.openings import EndsBy
from cress.lifecycle import foretelling
from cress.lifecycle.foretelling import foretold, resumes
from cress.lifecycle.inputs import Submit
from cress.lifecycle.machine import Machine
from cress.model.advance import AdvanceReservation
from cress.model.errors import InputError
from cress.model.events import AdvanceReserved
from cress.model.job import Condition
from cress.model.records import JobState
from cress.model.times import HOUR, MINUTE
from cress.model.waits import WaitFor
from tests.lifecycle.builders import World, after, job, launched
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
    assert world.machine.reason(then) == "waiting for job 1 (load)"
    end(world, first, how)
    true = {"succeeds": {Condition.OK, Condition.ANY}, "fails": {Condition.FAILED, Condition.ANY}}.get(
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
