"""Values that steps hand on, conditions of steps, and runs of cron jobs that are dags."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from cress.lifecycle.families.step_values import values_of
from cress.lifecycle.inputs import Awaited, Reported, Submit, Trigger
from cress.lifecycle.machine import Machine
from cress.model.family import Cron, Dag, Overlap, StepEnd
from cress.model.job import Job, JobType
from cress.model.records import JobState
from cress.model.step_values import MOST_OF_DAG, Values
from cress.model.times import MINUTE, SECOND
from cress.model.waits import WaitFor
from tests.lifecycle.builders import UTC_AT_START, World, ended, job
from tests.lifecycle.test_dags import dag


def conditioned(jobs: tuple[Job, ...], **conditions: str) -> tuple[Job, ...]:
    """The jobs of a dag with conditions of its steps."""
    return tuple(msgspec.structs.replace(one, when=conditions.get(one.name.rpartition(".")[2], "")) for one in jobs)


def ends(world: World, number: int, values: Values = (), code: int = 0) -> None:
    """All running tasks of a job end, and hand on values."""
    for attempt in list(world.machine.jobs[number].attempts.values()):
        world.step(
            Reported(node=attempt.node, reports=(msgspec.structs.replace(ended(attempt.id, code), values=values),))
        )


def world_with(nodes: int = 1) -> World:
    world = World(followed=True)
    for number in range(nodes):
        world.join(f"n{number}", 64)
    return world


STEPS = ("check", "train: check", "report: train", "tidy: train?", "skip: check")
CONDITIONS = {"train": "check.rows > 10", "skip": "check.rows <= 10 || check.state != succeeded"}


def test_a_step_runs_if_its_condition_holds() -> None:
    world = world_with()
    number, check, train, report, tidy, skip = world.submit(*conditioned(dag(*STEPS), **CONDITIONS))
    ends(world, check, (("rows", "12"),))
    assert {attempt.job for attempt in world.machine.attempts.values()} == {train}
    assert list(values_of(world.machine.families[number])) == [("check", (("rows", "12"),))]
    assert world.over[skip].state is JobState.CANCELLED
    assert world.over[skip].reason == f"left out: {CONDITIONS['skip']} does not hold"
    for step in (train, report, tidy):
        ends(world, step)
    assert world.over[check].reason == 'values {"rows":"12"}'
    assert world.over[number].state is JobState.SUCCEEDED


def test_what_follows_a_step_that_is_left_out_is_left_out_too_unless_it_takes_any_end() -> None:
    world = world_with()
    number, check, train, report, tidy, skip = world.submit(*conditioned(dag(*STEPS), **CONDITIONS))
    ends(world, check, (("rows", "3"),))
    assert {attempt.job for attempt in world.machine.attempts.values()} == {tidy, skip}
    assert world.over[train].state is world.over[report].state is JobState.CANCELLED
    again = Machine.restore(world.machine.export())
    assert again.families[number] == world.machine.families[number]
    ends(world, tidy)
    ends(world, skip)
    assert world.over[number].state is JobState.SUCCEEDED


def test_only_the_last_successful_attempt_of_the_first_task_hands_on() -> None:
    world = world_with()
    jobs = dag("load", "report: load")
    jobs = (jobs[0], msgspec.structs.replace(jobs[1], tasks=2, retries=1), *jobs[2:])
    number, load, _ = world.submit(*jobs)
    first, second = world.machine.jobs[load].attempts.values()
    world.step(Reported(node="n0", reports=(msgspec.structs.replace(ended(second.id), values=(("x", "of task 1"),)),)))
    world.step(Reported(node="n0", reports=(msgspec.structs.replace(ended(first.id, 1), values=(("x", "failed"),)),)))
    while not world.machine.jobs[load].attempts:
        world.wake()
    ends(world, load, (("x", "good"),))
    assert list(values_of(world.machine.families[number])) == [("load", (("x", "good"),))]


def test_a_dag_hands_on_a_bounded_amount() -> None:
    world = world_with()
    number, a, b = world.submit(*dag("a", "b: a"))
    ends(world, a, (("x", "y" * MOST_OF_DAG),))
    assert world.over[a].state is JobState.FAILED
    assert "at most 65,536 bytes of values, with this one it would be 65,537" in world.over[a].reason
    assert world.over[b].state is JobState.CANCELLED
    assert world.over[number].state is JobState.FAILED


def test_a_resumed_dag_knows_what_its_steps_handed_on_before() -> None:
    world = world_with()
    whole, report = conditioned(dag("report"), report="check.rows > 10 && check.state = succeeded")
    assert isinstance(whole.plan, Dag)
    before = (StepEnd("check", "succeeded", (("rows", "12"),)),)
    plan = msgspec.structs.replace(whole.plan, before=before)
    number, step = world.submit(msgspec.structs.replace(whole, plan=plan), report)
    assert {attempt.job for attempt in world.machine.attempts.values()} == {step}
    assert list(values_of(world.machine.families[number])) == [("check", (("rows", "12"),))]
    plan = msgspec.structs.replace(plan, before=(StepEnd("check", "succeeded"),))
    other, left_out = world.submit(msgspec.structs.replace(whole, plan=plan), report)
    assert world.over[left_out].reason.startswith("left out: ")
    assert world.over[other].state is JobState.SUCCEEDED


def nightly(*steps: str, overlap: Overlap = Overlap.FORBID, **more: object) -> Job:
    """A cron job whose runs are dags."""
    members = dag(*steps, name="nightly")[1:]
    plan = Cron(when="*/10 * * * *", overlap=overlap)
    return job(name="nightly", type=JobType.CRON, plan=plan, steps=members, **more)  # type: ignore[arg-type]


def test_each_run_of_a_cron_job_may_be_a_dag() -> None:
    world = world_with()
    (cron,) = world.submit(nightly("load", "report: load"))
    world.wake()
    (run,) = world.machine.families[cron].members.values()
    dag_run = world.machine.families[run]
    load, report = dag_run.members.values()
    moment = dag_run.scheduled[1]
    assert dag_run.scheduled == (moment - 10 * MINUTE, moment)
    assert (dag_run.job.name, dag_run.job.type, dag_run.template) == ("nightly", JobType.DAG, cron)
    live = world.machine.jobs[load]
    assert (live.job.name, live.template, live.index, live.scheduled) == ("nightly.load", cron, 0, dag_run.scheduled)
    again = Machine.restore(world.machine.export())
    assert again.families == world.machine.families
    ends(world, load, (("rows", "1"),))
    assert {attempt.job for attempt in world.machine.attempts.values()} == {report}
    ends(world, report)
    assert (world.over[run].state, world.over[run].family, world.over[run].index) == (JobState.SUCCEEDED, cron, 0)
    state = world.machine.families[cron]
    assert (state.succeeded, state.members, state.state.last_job) == (1, {}, run)  # type: ignore[union-attr]
    world.wake()
    assert list(world.machine.families[cron].members) == [1]


def test_runs_that_are_dags_do_not_overlap() -> None:
    world = world_with()
    (cron,) = world.submit(nightly("load", "report: load"))
    world.wake()
    world.wake()
    assert world.machine.families[cron].state.skipped == 1  # type: ignore[union-attr]
    reply = world.step(Trigger(job=cron, moments=(1, 2))).replies[0]
    assert isinstance(reply, tuple)
    first, second = reply
    assert world.machine.families[second].unmet[0][0] == first
    (running,) = {attempt.job for attempt in world.machine.attempts.values()}
    world.cancel(world.machine.families[cron].members[0])
    ends(world, running)
    assert {world.machine.jobs[one.job].job.family for one in world.machine.attempts.values()} == {first}


def test_a_run_that_is_replaced_ends_with_all_its_steps() -> None:
    world = world_with()
    (cron,) = world.submit(nightly("load", "report: load", overlap=Overlap.REPLACE))
    world.wake()
    (old,) = world.machine.families[cron].members.values()
    (load,) = {attempt.job for attempt in world.machine.attempts.values()}
    world.wake()
    ends(world, load, code=1)
    assert world.over[old].state is JobState.CANCELLED
    assert world.over[old].reason == "the next run of its cron job replaced it"
    (new,) = world.machine.families[cron].members.values()
    assert {world.machine.jobs[one.job].job.family for one in world.machine.attempts.values()} == {new}


def test_its_runs_are_held_and_cancelled_with_it() -> None:
    world = world_with()
    (cron,) = world.submit(nightly("load", "report: load"))
    world.wake()
    (run,) = world.machine.families[cron].members.values()
    load, report = world.machine.families[run].members.values()
    world.hold(cron)
    assert world.machine.families[run].held
    ends(world, load)
    assert not world.machine.attempts
    world.hold(cron, held=False)
    assert {attempt.job for attempt in world.machine.attempts.values()} == {report}
    world.cancel(cron)
    ends(world, report, code=1)
    assert {number: world.over[number].state for number in (run, report, cron)} == dict.fromkeys(
        (run, report, cron), JobState.CANCELLED
    )
    assert not world.machine.families


def test_a_step_that_can_never_run_is_refused_with_its_name() -> None:
    world = world_with()
    large = nightly("load")
    steps = (
        msgspec.structs.replace(large.steps[0], request=tuple(1000 * amount for amount in large.steps[0].request)),
    )
    assert "steps.load" in world.refuse(Submit(jobs=(msgspec.structs.replace(large, steps=steps),)))


CSV = WaitFor("path", "/shared/in.csv", timeout=60 * SECOND)
PAGE = WaitFor("url", "https://example.org/ready")


def test_a_job_waits_for_things_outside_and_holds_nothing() -> None:
    world = world_with()
    (number,) = world.submit(job(wait_for=(CSV, PAGE)))
    assert world.machine.reason(number) == "waiting for path /shared/in.csv, and 1 more"
    assert world.machine.awaiting == {number: None}
    world.step(Awaited(job=number, what=CSV))
    world.step(Awaited(job=number, what=CSV))
    assert not world.machine.attempts
    assert world.machine.reason(number) == "waiting for url https://example.org/ready"
    again = Machine.restore(world.machine.export())
    assert again.awaiting == {number: None}
    world.step(Awaited(job=number, what=PAGE))
    assert [attempt.job for attempt in world.machine.attempts.values()] == [number]
    assert not world.machine.awaiting
    world.finish(number)
    world.step(Awaited(job=number, what=PAGE))  # old news


def test_a_step_begins_to_wait_once_its_turn_has_come() -> None:
    world = world_with()
    jobs = conditioned(dag("check", "load: check", "skip: check"), load="check.x = 1", skip="check.x = 2")
    jobs = (*jobs[:2], *(msgspec.structs.replace(one, wait_for=(CSV,)) for one in jobs[2:]))
    number, check, load, skip = world.submit(*jobs)
    assert not world.machine.awaiting
    world.step(Awaited(job=load, what=CSV))  # nobody looked for it yet
    ends(world, check, (("x", "1"),))
    assert world.machine.awaiting == {load: None}
    assert world.over[skip].state is JobState.CANCELLED
    world.step(Awaited(job=load, what=CSV))
    ends(world, load)
    assert world.over[number].state is JobState.SUCCEEDED


def test_a_job_waits_no_longer_than_its_timeout_and_not_for_what_is_forbidden() -> None:
    world = world_with()
    (late,) = world.submit(job(wait_for=(PAGE, CSV)))
    (forbidden,) = world.submit(job(wait_for=(PAGE,)))
    (cancelled,) = world.submit(job(wait_for=(CSV,)))
    world.cancel(cancelled)
    world.step(Awaited(job=forbidden, what=PAGE, problem="not allowed (--wait-host)"))
    assert world.over[forbidden].state is JobState.FAILED
    assert world.over[forbidden].reason == "url https://example.org/ready: not allowed (--wait-host)"
    world.wake()
    record = world.over[late]
    assert (record.state, record.reason) == (JobState.TIMED_OUT, "path /shared/in.csv was not there within 1m")
    assert not world.machine.awaiting
    assert not world.machine.jobs


def test_a_job_waits_for_a_length_or_a_moment_and_a_moment_in_the_past_has_come() -> None:
    world = world_with()
    moments = [f"{datetime.fromtimestamp((UTC_AT_START + at * SECOND) / SECOND, UTC):%F %T}" for at in (-5, 3600)]
    past, late = (WaitFor("time", moment) for moment in moments)
    begun, held, both, zoned = world.submit(
        job(wait_for=(past,)),
        job(wait_for=(past,), hold=True),
        job(wait_for=(WaitFor("time", "2m"), CSV)),
        job(wait_for=(msgspec.structs.replace(late, name=f"{late.name} Z"), past)),
    )
    assert [attempt.job for attempt in world.machine.attempts.values()] == [begun]
    assert world.machine.reason(zoned) == f"waiting for time {late.name} Z"
    end = datetime.fromtimestamp((UTC_AT_START + 120 * SECOND) / SECOND, UTC)
    assert world.machine.reason(both) == f"waiting for time 2m, until {end:%F %H:%M} UTC, and 1 more"
    assert world.machine.reason(held).startswith("held by ann")
    world.step(Awaited(job=both, what=CSV))
    world.wake()
    assert world.now // SECOND == 120
    assert {attempt.job for attempt in world.machine.attempts.values()} == {begun, both}
    assert not world.machine.awaiting  # nobody has to look for a time
    assert world.machine.jobs[zoned].awaits
    world.wake()
    assert world.now // SECOND == 3600
    assert zoned in {attempt.job for attempt in world.machine.attempts.values()}
    assert not world.machine.awaiting


def test_a_moment_follows_the_clock_on_the_wall_and_a_length_does_not() -> None:
    world = world_with()
    at = datetime.fromtimestamp((UTC_AT_START + 3600 * SECOND) / SECOND, UTC)
    moment, length = world.submit(
        job(wait_for=(WaitFor("time", f"{at:%F %T} Z"),)), job(wait_for=(WaitFor("time", "2h"),))
    )
    world.wall = -1800 * SECOND  # it was half an hour fast
    world.step()
    world.wake()
    assert world.now // SECOND == 5400
    assert [attempt.job for attempt in world.machine.attempts.values()] == [moment]
    world.wall = 10 * 3600 * SECOND
    world.step()
    assert world.machine.jobs[length].awaits
    (early,) = world.submit(job(wait_for=(WaitFor("time", f"{at.replace(year=at.year + 1):%F %T} Z"),)))
    world.wall += 366 * 86_400 * SECOND
    world.step()
    assert early in {attempt.job for attempt in world.machine.attempts.values()}


def test_runs_of_cron_jobs_wait_too() -> None:
    world = world_with()
    plan = Cron(when="*/10 * * * *")
    (cron,) = world.submit(job(name="hourly", type=JobType.CRON, plan=plan, wait_for=(CSV,)))
    world.wake()
    (run,) = world.machine.families[cron].members.values()
    assert world.machine.awaiting == {run: None}
    world.step(Awaited(job=run, what=CSV))
    assert [attempt.job for attempt in world.machine.attempts.values()] == [run]
