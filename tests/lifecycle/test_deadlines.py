"""Deadlines: the moment that each job gets when it is accepted, what is refused, and what is told of them later."""

from __future__ import annotations

import msgspec
import pytest

from cress.lifecycle.effects import DeadlineAtRisk, DeadlineMissed
from cress.lifecycle.inputs import Reported, Submit
from cress.lifecycle.jobs.deadlines import MOST_LOOKS, shown
from cress.lifecycle.machine import Machine
from cress.model.errors import InputError, NotAccepted
from cress.model.family import Service
from cress.model.job import Job, JobType
from cress.model.options import Options
from cress.model.outlook import Promise
from cress.model.times import HOUR, MINUTE, SECOND
from tests.lifecycle.builders import UTC_AT_START, World, ended, job
from tests.lifecycle.test_dags import dag


def world(late: str = "best_effort") -> World:
    made = World(Options(late=late), followed=True)
    made.join("n1", 4)
    return made


def known(made: World, run: int, name: str = "job of 1") -> None:
    """A job of this name has run for so long: another one is expected to take no less."""
    made.submit(job(name=name))
    made.run_all()
    (attempt,) = made.machine.attempts.values()
    report = ended(attempt.id)
    made.step(Reported(node=attempt.node, reports=(msgspec.structs.replace(report, at=report.started + run),)))


def refusal(made: World, each: Job) -> InputError:
    (error,) = made.step(Submit(jobs=(each,))).replies
    assert isinstance(error, InputError)
    return error


def test_a_time_from_the_submission_on_becomes_a_moment() -> None:
    made = world()
    (number,) = made.submit(job(within=HOUR))
    found = made.machine.jobs[number].job
    assert (found.deadline, found.within) == (made.machine.utc + HOUR, 0)


def test_a_moment_stays_what_it_is() -> None:
    made = world()
    (number,) = made.submit(job(deadline=UTC_AT_START + HOUR))
    assert made.machine.jobs[number].job.deadline == UTC_AT_START + HOUR


def test_a_deadline_that_has_passed_is_refused() -> None:
    error = refusal(world(), job(deadline=UTC_AT_START - HOUR))
    assert isinstance(error, NotAccepted)
    assert str(error) == "deadline: 2023-11-14 21:13 UTC has passed (a later moment, or a time such as 6h)"


def test_what_does_not_end_has_no_deadline() -> None:
    error = refusal(world(), job(name="web", type=JobType.SERVICE, plan=Service(), within=HOUR))
    assert str(error) == "deadline: a service does not end (only jobs that end can have a deadline)"


LIMITS = {"etl.load": 10, "etl.sum": 20, "etl.plot": 5, "etl.mail": 1}


@pytest.mark.parametrize("moment", [True, False])
def test_a_step_may_end_when_the_longest_chain_behind_it_still_fits(*, moment: bool) -> None:
    made = world()
    whole, *steps = dag("load", "sum: load", "plot: load", "mail: sum plot")
    due = {"deadline": UTC_AT_START + HOUR} if moment else {"within": HOUR}
    limited = [msgspec.structs.replace(step, time_limit=LIMITS[step.name] * MINUTE) for step in steps]
    number, *ids = made.submit(msgspec.structs.replace(whole, **due), *limited)
    end = made.machine.families[number].job.deadline
    assert end == (UTC_AT_START if moment else made.machine.utc) + HOUR
    left = {made.machine.jobs[each].job.name: (end - made.machine.jobs[each].job.deadline) // MINUTE for each in ids}
    assert left == {"etl.load": 21, "etl.sum": 1, "etl.plot": 1, "etl.mail": 0}


def told(made: World) -> list[tuple[str, int, str]]:
    """What the last step told of deadlines."""
    notices = (each for each in made.last.notices if isinstance(each, DeadlineAtRisk | DeadlineMissed))
    return [(type(each).__name__.removeprefix("Deadline"), each.job, each.text) for each in notices]


def all_told(made: World, until: int) -> list[tuple[str, int]]:
    """What is told of deadlines by then, by itself."""
    found: list[tuple[str, int]] = []
    while (wakeup := made.machine.next_wakeup()) is not None and wakeup <= until:
        made.wake()
        found += [(what, number) for what, number, _ in told(made)]
    return found


def test_a_deadline_that_passes_is_told_once() -> None:
    made = world()
    (number,) = made.submit(job(within=HOUR, time_limit=30 * MINUTE))
    made.run_all()
    assert all_told(made, 59 * MINUTE) == []
    assert all_told(made, 3 * HOUR) == [("Missed", number)]
    made.finish(number)
    assert told(made) == []


def test_the_text_says_when_it_should_have_ended() -> None:
    made = world()
    (number,) = made.submit(job(within=HOUR))
    made.step(after=2 * HOUR)
    assert told(made) == [("Missed", number, "it should have ended by 2023-11-14 23:13 UTC")]


def test_a_job_in_time_is_no_news() -> None:
    made = world()
    (number,) = made.submit(job(within=HOUR, time_limit=30 * MINUTE))
    made.step(after=20 * MINUTE)
    made.finish(number)
    assert told(made) == []
    assert all_told(made, 3 * HOUR) == []


@pytest.mark.parametrize(("code", "expected"), [(0, []), (1, ["Missed"])])
def test_a_job_that_fails_has_missed_its_deadline(code: int, expected: list[str]) -> None:
    made = world()
    (number,) = made.submit(job(within=HOUR))
    made.run_all()
    made.finish(number, code)
    assert [what for what, _, _ in told(made)] == expected


def test_a_job_that_is_cancelled_in_time_has_not() -> None:
    made = world()
    (number,) = made.submit(job(5, within=HOUR, hold=True))
    made.cancel(number)
    assert told(made) == []


def test_the_end_and_the_deadline_in_one_step_are_told_once() -> None:
    made = world()
    made.submit(job(within=HOUR))
    made.run_all()
    attempt = next(iter(made.machine.attempts))
    made.step(Reported(node="n1", reports=(ended(attempt),)), after=2 * HOUR)
    assert [what for what, _, _ in told(made)] == ["Missed"]


def test_a_deadline_at_risk_is_told_once_and_soon() -> None:
    made = world()
    known(made, HOUR)
    made.submit(job(time_limit=2 * HOUR, cpus=4, within=9 * HOUR))
    (late,) = made.submit(job(within=110 * MINUTE, time_limit=2 * HOUR, cpus=4))
    found = all_told(made, 10 * MINUTE)
    assert found == [("AtRisk", late)]
    assert all_told(made, 109 * MINUTE) == []


def test_a_limit_alone_raises_no_alarm() -> None:
    made = world()
    (number,) = made.submit(job(within=HOUR, time_limit=2 * HOUR))
    assert all_told(made, 59 * MINUTE) == []
    assert all_told(made, 61 * MINUTE) == [("Missed", number)]


def test_the_text_says_by_which_estimate_a_deadline_is_at_risk() -> None:
    made = world()
    for hours in (1, 3):
        known(made, hours * HOUR)
    made.submit(job(within=90 * MINUTE, time_limit=4 * HOUR))
    made.step(after=2 * SECOND)
    ((_, _, text),) = told(made)
    assert text == "by the mean of earlier runs the job ends at 2023-11-15 00:40 UTC: 76% of such runs miss it"


def test_of_a_run_without_a_limit_that_outlives_all_estimates_no_end_is_told() -> None:
    made = world()
    for minutes in (2, 3):
        known(made, minutes * MINUTE)
    (number,) = made.submit(job(within=HOUR))
    made.run_all()
    assert all_told(made, 59 * MINUTE) == []
    outlook = made.machine.core.outlook(number, made.machine.now)
    assert outlook is not None
    assert (outlook.promise, outlook.likely_end) == (Promise.UNKNOWN, None)
    assert all_told(made, 61 * MINUTE) == [("Missed", number)]


def test_an_end_beyond_all_calendars_is_told_as_such() -> None:
    machine = world().machine
    assert shown(machine, UTC_AT_START + HOUR) == "2023-11-14 23:13 UTC"
    assert shown(machine, 2**60) == "a time after the year 9999"


def test_the_risk_comes_up_while_a_job_waits() -> None:
    made = world()
    known(made, HOUR)
    (held,) = made.submit(job(within=3 * HOUR, time_limit=HOUR, hold=True))
    assert all_told(made, 119 * MINUTE) == []
    assert all_told(made, 130 * MINUTE) == [("AtRisk", held)]


def test_a_dag_is_watched_as_a_whole() -> None:
    made = world()
    whole, *steps = dag("load", "sum: load")
    limited = [msgspec.structs.replace(step, time_limit=2 * HOUR) for step in steps]
    for step in steps:
        known(made, HOUR, step.name)
    number, *_ = made.submit(msgspec.structs.replace(whole, within=110 * MINUTE), *limited)
    assert all_told(made, MINUTE) == [("AtRisk", number)]
    assert all_told(made, 3 * HOUR) == [("Missed", number)]


def test_the_looks_get_rarer_and_are_few() -> None:
    made = world()
    made.submit(job(within=240 * HOUR, time_limit=HOUR, hold=True))
    steps = 0
    while made.machine.now < 230 * HOUR:
        made.wake()
        steps += 1
    assert 230 <= steps <= 260


def test_many_jobs_are_looked_at_by_several_steps() -> None:
    made = world()
    known(made, 2 * HOUR)
    many = 3 * MOST_LOOKS
    numbers = made.submit(*(job(within=HOUR, time_limit=2 * HOUR, hold=True) for _ in range(many)))
    made.step(after=2 * SECOND)
    assert len(told(made)) == MOST_LOOKS
    rest = all_told(made, 10 * SECOND)
    assert len(rest) == many - MOST_LOOKS
    assert {number for _, number in rest} < set(numbers)


def test_the_deadline_follows_the_clock_on_the_wall() -> None:
    made = world()
    (number,) = made.submit(job(within=10 * HOUR, time_limit=HOUR))
    made.wall += 9 * HOUR
    made.step(after=MINUTE)
    assert told(made) == []
    assert all_told(made, 62 * MINUTE) == [("Missed", number)]


def test_a_machine_that_is_restored_tells_it_too() -> None:
    made = world()
    (number,) = made.submit(job(within=HOUR))
    made.machine = Machine.restore(made.machine.export())
    made.step(after=2 * HOUR)
    assert [(what, each) for what, each, _ in told(made)] == [("Missed", number)]


def test_a_strict_submit_changes_nothing_when_it_is_refused() -> None:
    made = world()
    known(made, 2 * HOUR)
    text = made.refuse(Submit(jobs=(job(), job(within=HOUR, time_limit=3 * HOUR)), strict=True))
    assert text.startswith("jobs[1].deadline: cannot be met: the job ends at 2023-11-15 00:13 UTC at the earliest")
    assert made.machine.jobs == {}
    made.step(Submit(jobs=(job(within=3 * HOUR, time_limit=2 * HOUR),), strict=True))
    assert len(made.machine.jobs) == 1


def test_a_limit_does_not_show_that_a_deadline_cannot_be_met() -> None:
    made = world("cancel")
    whole, *steps = dag("load", "sum: load", place=2)
    limited = [msgspec.structs.replace(step, time_limit=2 * HOUR, hold=True) for step in steps]
    alone, number, *_ = made.submit(
        job(within=HOUR, time_limit=2 * HOUR, hold=True), msgspec.structs.replace(whole, within=HOUR), *limited
    )
    made.step(Submit(jobs=(job(within=HOUR, time_limit=2 * HOUR),), strict=True))
    assert len(made.machine.jobs) == 4, "a strict one too"
    assert cancelled(made, 59 * MINUTE) == []
    assert {alone, number} <= {each for each, _ in cancelled(made, 61 * MINUTE)}


def test_other_jobs_of_a_user_do_not_show_it_either() -> None:
    made = world()
    known(made, 2 * HOUR)
    made.step(Submit(jobs=(job(name="short", within=HOUR, time_limit=3 * HOUR),), strict=True))
    assert len(made.machine.jobs) == 1


def test_a_strict_dag_is_refused_by_the_shortest_runs_on_its_critical_path() -> None:
    """Its limits would leave its first step no time at all."""
    made = world()
    whole, *steps = dag("load", "sum: load")
    steps = [msgspec.structs.replace(step, time_limit=5 * HOUR) for step in steps]
    for step in steps:
        known(made, HOUR, step.name)
    due = [msgspec.structs.replace(whole, within=hours * MINUTE) for hours in (115, 125)]
    text = made.refuse(Submit(jobs=(due[0], *steps), strict=True))
    assert "deadline: cannot be met: the job ends at 2023-11-15 00:13 UTC at the earliest" in text
    made.step(Submit(jobs=(due[1], *steps), strict=True))
    assert len(made.machine.jobs) == 2


def test_a_follower_foresees_it_too() -> None:
    made = world()
    known(made, HOUR)
    numbers = [*made.submit(job(time_limit=2 * HOUR, cpus=4, within=3 * HOUR))]
    numbers += made.submit(job(time_limit=HOUR, cpus=4, within=110 * MINUTE), job(within=90 * MINUTE, hold=True))
    assert made.follower is not None
    found = [made.follower.core.outlook(number) for number in numbers]
    assert found == [made.machine.core.outlook(number) for number in numbers]
    assert [each.promise.value for each in found if each] == ["fine", "cannot_be_met", "unknown"]


# --- late=cancel -----------------------------------------------------------------------------------------------------


def cancelled(made: World, until: int) -> list[tuple[int, str]]:
    """The jobs that are cancelled by themselves by then, and why."""
    while (wakeup := made.machine.next_wakeup()) is not None and wakeup <= until:
        made.wake()
    return [(record.id, record.reason) for record in made.over.values() if record.state.value == "cancelled"]


def test_a_job_that_waits_is_cancelled_when_it_cannot_meet_its_deadline_any_more() -> None:
    made = world("cancel")
    known(made, HOUR)
    (held,) = made.submit(job(within=3 * HOUR, time_limit=2 * HOUR, hold=True))
    assert cancelled(made, 2 * HOUR - MINUTE) == []
    assert cancelled(made, 2 * HOUR + MINUTE) == [(held, "the deadline can no longer be met")]
    assert all_told(made, 4 * HOUR) == []


def test_a_job_that_runs_is_cancelled_when_its_deadline_passes() -> None:
    made = world("cancel")
    (number,) = made.submit(job(within=HOUR, time_limit=30 * MINUTE))
    made.run_all()
    made.step(after=HOUR + SECOND)
    assert [what for what, _, _ in told(made)] == ["Missed"]
    assert made.machine.jobs[number].cancelling
    assert made.machine.jobs[number].reason == "its deadline has passed"


def test_a_dag_is_cancelled_as_a_whole_when_a_step_cannot_be_in_time() -> None:
    made = world("cancel")
    known(made, HOUR)
    whole, *steps = dag("load", "sum: load")
    limited = [msgspec.structs.replace(step, name="job of 1", time_limit=2 * HOUR, hold=True) for step in steps]
    number, *_ = made.submit(msgspec.structs.replace(whole, within=3 * HOUR), *limited)
    assert cancelled(made, 59 * MINUTE) == []
    assert number in [each for each, _ in cancelled(made, 62 * MINUTE)]


@pytest.mark.parametrize("late", ["best_effort", "urgent"])
def test_otherwise_nothing_is_cancelled(late: str) -> None:
    made = world(late)
    made.submit(job(within=3 * HOUR, time_limit=HOUR, hold=True))
    assert cancelled(made, 4 * HOUR) == []


def test_a_task_that_failed_and_waits_again_is_given_up_too() -> None:
    made = world("cancel")
    known(made, HOUR)
    (number,) = made.submit(job(within=2 * HOUR, time_limit=2 * HOUR, retries=9, backoff=HOUR))
    made.run_all()
    made.step(after=70 * MINUTE)
    made.finish(number, 1)
    # It could still fail until the deadline.
    assert cancelled(made, 100 * MINUTE) == [(number, "the deadline can no longer be met")]
