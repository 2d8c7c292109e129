"""Services: kept at their task count whatever happens, ready when they say so, stopped when they are ill."""

from __future__ import annotations

import re

import msgspec
import pytest

from cress.lifecycle.explaining import explained_group, explained_node
from cress.lifecycle.inputs import Drain, NodeDead, Scale, Submit
from cress.model.events import GroupsApplied, NodeCordoned, Outcome
from cress.model.family import Service
from cress.model.job import Job
from cress.model.options import Options
from cress.model.records import JobState
from cress.model.reports import Cause
from cress.model.times import HOUR, MINUTE, SECOND
from tests.lifecycle.builders import after, ended, group, job, launched, resolve
from tests.lifecycle.kept import Site, database, service, waits_for_restart


def test_a_service_has_a_member_for_each_task_and_they_go_apart() -> None:
    site = Site("n1", "n2", "n3")
    number = site.begin(service(3))
    assert sorted(site.nodes(number).values()) == ["n1", "n2", "n3"]
    assert [member.job.family for member in site.members(number).values()] == [number] * 3
    assert site.up(number) == [0, 1, 2]
    assert site.machine.reason(number) == ""
    assert site.machine.families[number].started


def test_the_task_of_a_launch_is_the_index() -> None:
    site = Site("n1")
    site.submit(service(3))
    assert [task for _, task, _ in launched(site.last)] == [0, 1, 2]


def without_recovery() -> tuple[Site, int]:
    """A service of two tasks with ``job_failure: false`` that was ready; the one on n1 is lost with it."""
    site = Site("n1", "n2")
    number = site.begin(msgspec.structs.replace(service(2), job_failure=False))
    site.join("n3")
    (lost,) = (index for index, name in site.nodes(number).items() if name == "n1")
    site.leave("n1")
    site.step(NodeDead(name="n1"))
    assert site.machine.reason(number) == (
        f"task {lost} was lost with node n1 and is not replaced (job_failure: false); `cress scale` replaces it"
    )
    return site, number


def test_a_task_that_was_lost_is_not_replaced_if_the_service_says_so() -> None:
    site, number = without_recovery()
    assert list(site.nodes(number).values()) == ["n2"]
    # The other one is still looked after, and survives a restart of the center with that.
    site.machine = type(site.machine).restore(site.machine.export())
    (other,) = site.nodes(number)
    site.die(number, other, 1)
    site.wake()
    assert list(site.nodes(number)) == [other]
    site.step(Scale(job=number, tasks=2))
    assert sorted(site.nodes(number)) == [0, 1]
    assert site.machine.reason(number) == ""


def test_a_task_that_was_drained_is_replaced_although_lost_ones_are_not() -> None:
    site, number = without_recovery()
    site.step(Drain(name="n2", deadline=0))
    (attempt,) = site.machine.attempts.values()
    site.report("n2", ended(attempt.id, None, Cause.STOPPED))
    assert list(site.nodes(number).values()) == ["n3"]


@pytest.mark.parametrize(
    ("code", "cause", "outcome"),
    [
        (1, Cause.EXITED, Outcome.FAILED),
        (0, Cause.EXITED, Outcome.SUCCEEDED),
        (-9, Cause.EXITED, Outcome.FAILED),
        (-9, Cause.MEMORY, Outcome.OUT_OF_MEMORY),
        (None, Cause.FILES, Outcome.FAILED),
        (None, Cause.NOT_STARTED, Outcome.FAILED),
    ],
)
def test_what_ends_by_itself_is_started_again_after_longer_and_longer_waits(
    code: int | None, cause: Cause, outcome: Outcome
) -> None:
    site = Site("n1", options=Options(backoff_most=60 * SECOND))
    number = site.begin(service(backoff=10 * SECOND))
    waits = []
    for _ in range(5):
        (record,) = site.die(number, 0, code, cause).attempts
        assert (record.outcome, record.final) == (outcome, False)
        waits.append(waits_for_restart(site, number))
    assert waits == [10, 20, 40, 60, 60]
    assert site.machine.reason(number) == ""


@pytest.mark.parametrize("cause", [Cause.SHUTDOWN, Cause.TERM, Cause.UNKNOWN])
def test_what_its_node_ended_is_started_again_at_once(cause: Cause) -> None:
    site = Site("n1")
    number = site.begin(service())
    step = site.die(number, 0, None, cause)
    assert len(step.launches) == 1
    assert not site.machine.families[number].state.failures  # type: ignore[union-attr]


def test_a_service_never_gives_up_and_says_when_it_tries_again() -> None:
    site = Site("n1", options=Options(backoff_most=MINUTE))
    number = site.begin(service(backoff=SECOND))
    for _ in range(30):
        site.die(number, 0, None, Cause.NOT_STARTED, "no such file")
        waits_for_restart(site, number)
    site.die(number, 0, 1)
    assert site.machine.reason(number) == "task 0: ended (exit code 1) and is restarted in 1m"


@pytest.mark.parametrize(
    ("ready_for", "wait"), [(30 * SECOND, 40), (59 * SECOND, 40), (100 * SECOND, 40), (200 * SECOND, 10)]
)
def test_who_was_ready_for_long_begins_again_with_short_waits(ready_for: int, wait: float) -> None:
    site = Site("n1")
    number = site.begin(service(backoff=10 * SECOND))
    for _ in range(2):
        site.die(number, 0)
        waits_for_restart(site, number)
    site.sleep(ready_for)
    site.die(number, 0)
    assert waits_for_restart(site, number) == wait


def test_who_was_ready_for_long_and_then_ill_has_got_over_it_too() -> None:
    site = Site("n1")
    number = site.begin(service(backoff=10 * SECOND, checked=True))
    for _ in range(2):
        site.die(number, 0)
        waits_for_restart(site, number)
    site.check(number, 0)
    site.sleep(5 * MINUTE)
    site.check(number, 0, ready=False)
    site.die(number, 0)
    assert waits_for_restart(site, number) == 10


def test_ready_is_who_says_so_and_only_they_are_found_by_name() -> None:
    site = Site("n1", "n2")
    number = site.begin(service(2, checked=True))
    assert site.up(number) == []
    assert resolve(site.machine, "web") == []
    site.check(number, 1)
    assert [(place.job, place.task) for place in resolve(site.machine, "web")] == [(number, 1)]
    site.check(number, 0)
    assert [place.task for place in resolve(site.machine, "web", "default")] == [0, 1]
    site.check(number, 1, ready=False, why="connection refused")
    assert [place.task for place in resolve(site.machine, "web")] == [0]
    assert site.attempt(number, 1).unwell == "connection refused"


def test_without_a_check_a_task_is_ready_some_time_after_its_start() -> None:
    site = Site("n1")
    number = site.begin(service(ready_after=5 * SECOND))
    site.sleep(4 * SECOND)
    assert site.up(number) == []
    site.sleep(SECOND)
    assert site.up(number) == [0]
    site.die(number, 0)
    waits_for_restart(site, number)
    assert site.up(number) == []


def test_who_is_not_alive_is_halted_and_has_failed() -> None:
    site = Site("n1")
    number = site.begin(service(backoff=10 * SECOND, checked=True))
    site.check(number, 0)
    attempt = site.attempt(number, 0)
    site.check(number, 0, ready=False, alive=False, why="no answer")
    assert attempt.id not in site.machine.attempts
    assert site.machine.families[number].state.failures == {0: 1}  # type: ignore[union-attr]
    assert waits_for_restart(site, number) > 9


def test_a_check_of_life_alone_does_not_say_that_it_is_ready() -> None:
    site = Site("n1")
    number = site.begin(service(ready_after=5 * SECOND))
    site.check(number, 0, ready=True)
    assert site.up(number) == []


def test_scaling_adds_at_the_end_and_takes_from_the_end() -> None:
    site = Site("n1", "n2")
    number = site.begin(service(2))
    kept = {index: member.job.id for index, member in site.members(number).items()}
    site.scale(number, 4)
    assert site.up(number) == [0, 1, 2, 3]
    site.scale(number, 1)
    assert {index: member.job.id for index, member in site.members(number).items()} == {0: kept[0]}
    site.scale(number, 0)
    assert not site.members(number)
    site.scale(number, 2)
    assert site.up(number) == [0, 1]
    assert "-1 tasks" in site.refuse(Scale(job=number, tasks=-1))


def test_who_is_taken_away_and_wanted_again_before_it_has_ended_is_made_anew() -> None:
    site = Site("n1")
    number = site.begin(service(2))
    old = site.members(number)[1].job.id
    site.step(Scale(job=number, tasks=1), Scale(job=number, tasks=2))
    assert site.members(number)[1].job.id == old
    assert site.members(number)[1].cancelling
    site.obey()
    assert site.members(number)[1].job.id != old
    assert site.up(number) == [0, 1]


def test_held_nothing_new_starts_and_what_runs_goes_on() -> None:
    site = Site("n1")
    number = site.begin(service(2))
    site.hold(number)
    site.die(number, 0, cause=Cause.UNKNOWN)
    site.scale(number, 3)
    assert site.up(number) == [1]
    assert site.machine.reason(number) == f"held by eve until it is released (cress release {number})"
    site.hold(number, held=False)
    site.obey()
    assert site.up(number) == [0, 1, 2]


def test_a_lost_node_is_replaced_and_a_drained_one_emptied() -> None:
    site = Site("n1", "n2")
    number = site.begin(service(2))
    site.leave("n1")
    site.step(NodeDead(name="n1"))
    site.obey()
    assert list(site.nodes(number).values()) == ["n2", "n2"]
    site.join("n1")
    site.step(NodeCordoned(name="n1", cordoned=False), Drain(name="n2", deadline=0))
    site.obey()
    assert list(site.nodes(number).values()) == ["n1", "n1"]
    assert not site.machine.families[number].state.failures  # type: ignore[union-attr]


def test_a_task_without_room_says_why() -> None:
    site = Site("n1", cpus=2)
    number = site.begin(service(3))
    assert site.machine.reason(number).startswith("task 2: ")


def test_cancelled_it_ends_with_all_its_members() -> None:
    site = Site("n1")
    number = site.begin(service(2, ready_after=MINUTE))
    site.cancel(number)
    assert number in site.machine.families
    site.obey()
    assert site.over[number].state is JobState.CANCELLED
    assert site.over[number].cancelled == site.over[number].tasks == 2
    assert not site.machine.jobs
    assert not site.machine.timers.times
    assert sorted(site.over) == [number, number + 1, number + 2]
    assert [site.over[number + 1 + index].index for index in range(2)] == [0, 1]
    assert [site.over[number + 1 + index].template for index in range(2)] == [number, number]


def test_what_comes_after_another_job_has_no_members_until_then() -> None:
    site = Site("n1")
    first, number = site.submit(*_first_and(service(2)))
    assert not site.members(number)
    assert site.machine.reason(number) == f"waiting for job {first} (job of 1)"
    site.finish(first)
    site.obey()
    assert site.up(number) == [0, 1]


def _first_and(second: Job) -> tuple[Job, Job]:

    return job(), msgspec.structs.replace(second, after=after(-1))


@pytest.mark.parametrize(
    ("timetable", "zone", "hours", "counts"),
    [
        ((("0 8 * * *", 4), ("0 20 * * *", 1)), "UTC", (9, 1, 12), [1, 1, 4, 1]),
        ((("0 0 * * *", 3),), "UTC", (1, 1), [3, 3, 3]),
        ((("0 23 14 11 *", 2), ("30 23 14 11 *", 0)), "UTC", (1, 1), [0, 2, 0]),
        ((("0 8 * * *", 4), ("0 20 * * *", 1)), "Asia/Shanghai", (1, 1, 12), [1, 1, 4, 1]),
        ((("30 22 * * *", 4), ("30 22 * * *", 5)), "UTC", (1,), [5, 5]),
        ((("30 22 * * *", 4),), "UTC", (1,), [4, 4]),
    ],
)
def test_the_count_follows_the_timetable(
    timetable: tuple[tuple[str, int], ...], zone: str, hours: tuple[int, ...], counts: list[int]
) -> None:
    """It begins on Tuesday, 14 November 2023, at 22:13 UTC, which is 6:13 in Shanghai."""
    site = Site("n1", cpus=8)
    number = site.begin(service(2, timetable=timetable, zone=zone))
    found = [len(site.up(number))]
    for each in hours:
        site.sleep(each * HOUR)
        found.append(len(site.up(number)))
    assert found == counts


def test_the_timetable_goes_by_the_wall_clock_when_that_is_set() -> None:
    site = Site("n1", cpus=8)
    number = site.begin(service(2, timetable=(("0 8 * * *", 4), ("0 20 * * *", 1))))
    assert len(site.up(number)) == 1
    site.wall += 10 * HOUR
    site.step()
    site.sleep(SECOND)
    assert len(site.up(number)) == 4


def test_a_count_by_hand_holds_until_the_next_moment() -> None:
    site = Site("n1", cpus=8)
    number = site.begin(service(2, timetable=(("0 * * * *", 3),)))
    site.scale(number, 6)
    site.sleep(30 * MINUTE)
    assert len(site.up(number)) == 6
    site.sleep(30 * MINUTE)
    assert len(site.up(number)) == 3


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ({"timetable": (("0 25 * * *", 3),)}, "25"),
        ({"timetable": (("0 2 * * *", -3),)}, "-3 tasks"),
        ({"timetable": (("0 2 * * *", 3),), "zone": "Atlantis"}, "Atlantis"),
        ({"max_unavailable": 0}, "max_unavailable 0"),
        ({"ready_after": -1}, "-1 µs"),
    ],
)
def test_plans_that_make_no_sense_are_refused(plan: dict[str, object], sentence: str) -> None:
    site = Site("n1")
    assert sentence in site.refuse(Submit(jobs=(service(**plan),)))  # type: ignore[arg-type]


def test_a_service_that_starts_nowhere_does_not_keep_others_off_the_nodes_for_ever() -> None:
    site = Site("n1", "n2", options=Options(start_backoff=SECOND, start_tries=3, backoff_most=MINUTE))
    number = site.begin(service(backoff=SECOND))
    for _ in range(12):
        site.die(number, 0, None, Cause.NOT_STARTED, "no such file")
        waits_for_restart(site, number)
    site.die(number, 0, None, Cause.NOT_STARTED, "no such file")
    site.sleep(30 * SECOND)
    assert not any(node.rest for node in site.machine.nodes.values())


def test_members_keep_the_group_that_its_family_is_moved_to() -> None:
    site = Site("n1")
    site.step(GroupsApplied(groups=(group("a", 2), group("b", 2))))
    number = site.begin(service(1, group="a"))
    site.step(GroupsApplied(groups=(group("b", 2),), moves=(("a", "b"),)))
    site.scale(number, 2)
    assert {member.job.group for member in site.members(number).values()} == {"b"}
    assert isinstance(site.machine.families[number].job.plan, Service)


def test_reasons_name_a_service_by_its_own_number() -> None:
    site = Site("n1", cpus=2)
    first = site.begin(service(3))
    then = site.begin(database())
    assert site.machine.reason(then) == f"task 0: the policy of group default puts job {first} first"
    told = explained_group(site.machine, "default")
    node = explained_node(site.machine, "n1")
    assert told is not None
    numbers = {
        int(found) for each in (told, node) for one in each.reasons for found in re.findall(r"job (\d+)", one.text)
    }
    assert numbers == {first, then}
