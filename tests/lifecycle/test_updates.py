"""Rolling updates: so many at once, the sick ones first, back to the last good version when a new one is none."""

from __future__ import annotations

import msgspec
import pytest

from cress.lifecycle.families import rolling_updates
from cress.lifecycle.inputs import Input, Promote, Reported, Scale, Submit, Update
from cress.lifecycle.tables.family_rows import MOST_VERSIONS
from cress.model.errors import InputError
from cress.model.job import Job
from cress.model.options import Options
from cress.model.reports import Cause
from cress.model.times import MINUTE, SECOND
from tests.lifecycle.builders import ended, job, started
from tests.lifecycle.kept import Site, database, service, waits_for_restart

OPTIONS = Options(backoff_most=MINUTE)


def ready_one_by_one(site: Site, number: int, most: int) -> list[list[int]]:
    """Every task that is not ready gets ready, the lowest first; who was not ready each time."""
    found: list[list[int]] = []
    for _ in range(60):
        missing = [index for index in range(site.machine.families[number].job.tasks) if index not in site.up(number)]
        if not missing:
            return found
        assert len(missing) <= most, f"{missing} are not ready at once"
        found.append(missing)
        site.check(number, missing[0])
    raise AssertionError("the update never ends")


@pytest.mark.parametrize(
    ("most", "order"),
    [
        (1, [[0], [1], [2], [3], [4]]),
        (2, [[0, 1], [1, 2], [2, 3], [3, 4], [4]]),
        (9, [[0, 1, 2, 3, 4], [1, 2, 3, 4], [2, 3, 4], [3, 4], [4]]),
    ],
)
def test_members_are_replaced_as_many_at_once_as_may_be(most: int, order: list[list[int]]) -> None:
    site = Site("n1", "n2", cpus=3)
    number = site.begin(service(5, checked=True, max_unavailable=most))
    site.check(number, *range(5))
    new = site.update(number, service(5, checked=True, max_unavailable=most, priority=1))
    assert ready_one_by_one(site, number, most) == order
    assert site.versions(number) == [new] * 5
    assert site.machine.families[number].version == 2
    assert site.machine.reason(number) == ""


def test_an_update_needs_no_room_for_more_than_the_count() -> None:
    site = Site("n1", cpus=3)
    number = site.begin(service(3))
    new = site.update(number, service(3, priority=1))
    assert site.versions(number) == [new] * 3
    assert site.up(number) == [0, 1, 2]


def test_those_that_are_not_ready_go_first() -> None:
    site = Site("n1", cpus=5)
    number = site.begin(service(5, checked=True))
    site.check(number, 0, 1, 2, 3, 4)
    site.check(number, 3, ready=False)
    site.update(number, service(5, checked=True, priority=1))
    assert site.machine.families[number].state.out == (3,)  # type: ignore[union-attr]
    assert site.machine.reason(number) == "update in progress: 4 of 5 tasks left, waiting for task 3 to be ready"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (service(3), service(3)),
        (service(3), service(5)),
        (service(3), service(3, max_unavailable=2, update_timeout=MINUTE, ready_after=SECOND)),
        (service(3), service(3, timetable=(("0 0 1 1 *", 3),))),
        (database(3), database(3, move_after=MINUTE)),
    ],
)
def test_what_does_not_concern_its_tasks_replaces_none(before: Job, after: Job) -> None:
    site = Site("n1", cpus=8)
    number = site.begin(before)
    kept = site.members(number)
    template = site.update(number, after, same=True)
    now = site.members(number)
    assert [now[index].job.id for index in kept] == [member.job.id for member in kept.values()]
    assert len(now) == after.tasks
    assert site.versions(number) == [template] * after.tasks
    assert site.machine.families[number].version == 1


def test_another_run_is_a_new_version_though_the_job_is_the_same() -> None:
    site = Site("n1", cpus=8)
    number = site.begin(service(3))
    new = site.update(number, service(3))
    assert site.versions(number) == [new] * 3


@pytest.mark.parametrize("keep", [service, database])
def test_a_version_that_is_not_ready_in_time_is_taken_back(keep: type) -> None:
    site = Site("n1", cpus=8)
    number = site.begin(keep(3, checked=True))
    for index in range(3):
        site.check(number, index)
    site.update(number, keep(3, checked=True, update_timeout=MINUTE, priority=1))
    (out,) = set(range(3)) - set(site.up(number))
    site.check(number, out, ready=False, why="503 Service Unavailable")
    site.sleep(59 * SECOND)
    assert site.machine.families[number].version == 2
    site.sleep(2 * SECOND)
    assert site.versions(number) == [number] * 3
    site.check(number, out)
    assert site.up(number) == [0, 1, 2]
    family = site.machine.families[number]
    assert family.job.priority == 0
    assert family.job.plan.update_timeout == MINUTE  # type: ignore[union-attr]
    assert site.machine.reason(number) == (
        f"version 2 was rolled back: task {out} was not ready 1m after its start: 503 Service Unavailable"
    )


@pytest.mark.parametrize(
    ("code", "cause", "error", "why"),
    [
        (3, Cause.EXITED, "", ", at last with exit code 3"),
        (-11, Cause.EXITED, "", ", at last with signal 11"),
        (None, Cause.NOT_STARTED, "no such file", ": no such file"),
        (None, Cause.FILES, "404 Not Found", ": 404 Not Found"),
    ],
)
@pytest.mark.parametrize("keep", [service, database])
def test_a_version_that_fails_three_times_is_taken_back(
    code: int | None, cause: Cause, error: str, why: str, keep: type
) -> None:
    site = Site("n1", "n2", cpus=8, options=OPTIONS)
    number = site.begin(keep(2, checked=True))
    for index in range(2):
        site.check(number, index)
    site.update(number, keep(2, checked=True, priority=1))
    (out,) = set(range(2)) - set(site.up(number))
    for _ in range(3):
        assert site.machine.families[number].version == 2
        site.die(number, out, code, cause, error)
        waits_for_restart(site, number, out)
    site.check(number, out)
    assert site.versions(number) == [number] * 2
    assert site.up(number) == [0, 1]
    assert site.machine.families[number].reason == (
        f"version 2 was rolled back: task {out} failed 3 times before it was ever ready{why}"
    )


def test_the_first_version_has_none_to_go_back_to() -> None:
    site = Site("n1", options=OPTIONS)
    number = site.begin(service(1, checked=True, update_timeout=MINUTE))
    for _ in range(4):
        site.die(number, 0)
        waits_for_restart(site, number)
    site.sleep(5 * MINUTE)
    family = site.machine.families[number]
    assert (family.version, family.reason) == (1, "")
    new = site.update(number, service(1, checked=True, priority=1))
    site.check(number, 0)
    assert site.versions(number) == [new]


def test_a_version_that_waits_for_room_is_not_taken_back() -> None:
    site = Site("n1", cpus=4)
    number = site.begin(service(2))
    site.begin(service(2, "other"))
    site.update(number, service(2, cpus=3))
    site.sleep(20 * MINUTE)
    family = site.machine.families[number]
    assert (family.version, site.up(number)) == (2, [1])
    assert site.machine.reason(number).startswith("task 0: ")


def test_the_count_and_what_it_was_looked_after_by_stay_when_a_version_is_taken_back() -> None:
    site = Site("n1", cpus=8)
    number = site.begin(service(2, checked=True))
    site.check(number, 0, 1)
    site.update(number, service(2, checked=True, max_unavailable=3, update_timeout=MINUTE, priority=1))
    site.scale(number, 4)
    site.sleep(2 * MINUTE)
    family = site.machine.families[number]
    assert (family.job.tasks, family.job.plan.max_unavailable) == (4, 3)  # type: ignore[union-attr]
    site.check(number, *range(4))
    assert site.versions(number) == [number] * 4


def test_a_task_that_came_with_the_bad_version_goes_with_it() -> None:
    site = Site("n1", cpus=8)
    number = site.begin(service(1, checked=True))
    site.check(number, 0)
    site.update(number, service(3, checked=True, update_timeout=MINUTE, priority=1))
    site.check(number, 0)
    site.sleep(2 * MINUTE)
    for _ in range(3):
        site.check(number, 0, 1, 2)
    assert site.versions(number) == [number] * 3


def test_a_newer_version_takes_the_place_of_one_that_is_not_ready_at_once() -> None:
    site = Site("n1", cpus=8)
    number = site.begin(service(3, checked=True))
    site.check(number, 0, 1, 2)
    site.update(number, service(3, checked=True, priority=1))
    newest = site.update(number, service(3, checked=True, priority=2))
    assert site.versions(number) == [newest, number, number]
    assert ready_one_by_one(site, number, 1) == [[0], [1], [2]]
    assert site.versions(number) == [newest] * 3


def test_a_task_of_the_new_version_that_falls_ill_stops_the_update() -> None:
    site = Site("n1", cpus=8, options=OPTIONS)
    number = site.begin(service(3, checked=True))
    site.check(number, 0, 1, 2)
    site.update(number, service(3, checked=True, priority=1))
    site.check(number, 0)
    site.die(number, 0)
    site.check(number, 1)
    assert site.up(number) == [1, 2]
    assert site.versions(number)[2] == number
    waits_for_restart(site, number, 0)
    site.check(number, 0)
    assert site.up(number) == [0, 1]


def test_held_an_update_waits() -> None:
    site = Site("n1", cpus=8)
    number = site.begin(service(3))
    site.hold(number)
    new = site.update(number, service(3, priority=1))
    assert site.versions(number) == [number] * 3
    site.hold(number, held=False)
    site.obey()
    assert site.versions(number) == [new] * 3


def test_tasks_without_room_do_not_keep_an_update_from_what_would_give_them_room() -> None:
    site = Site("n1", cpus=4)
    number = site.begin(service(4, cpus=2))
    assert site.up(number) == [0, 1]
    new = site.update(number, service(4, cpus=1))
    assert site.versions(number) == [new] * 4
    assert site.up(number) == [0, 1, 2, 3]


def test_no_more_tasks_are_out_than_may_be_and_the_update_gained() -> None:
    """Two replaced tasks wait since a guest has their room; one that had no room before is ready now: one more goes."""
    site = Site("n1", cpus=4)
    number = site.begin(service(5, checked=True, max_unavailable=2))
    site.check(number, 0, 1, 2, 3)
    site.begin(job(name="guest"))
    site.update(number, service(5, checked=True, max_unavailable=2, priority=1))
    assert site.up(number) == [2, 3]
    site.check(number, 4)
    assert site.up(number) == [3, 4]
    assert site.machine.families[number].state.out == (0, 1, 2)  # type: ignore[union-attr]


def test_an_update_and_a_count_in_one_step() -> None:
    site = Site("n1", cpus=8)
    number = site.begin(service(2))
    step = site.step(Update(job=number, spec=service(2, priority=1)), Scale(job=number, tasks=4))
    site.obey()
    assert site.versions(number) == [step.replies[0][0]] * 4  # type: ignore[index]


def test_an_update_that_can_never_run_is_refused() -> None:
    site = Site("n1")
    number = site.begin(service(2))
    assert "larger than every node" in site.refuse(Update(job=number, spec=service(2, cpus=9)))
    assert "too small for the service" in site.refuse(Update(job=number, spec=service(5, gang=True)))
    assert "it cannot become a database" in site.refuse(Update(job=number, spec=database(2, "web")))
    assert "cannot change name or group" in site.refuse(Update(job=number, spec=service(2, group="default", name="x")))
    assert site.machine.families[number].version == 1
    site.cancel(number)
    assert "is ending" in site.refuse(Update(job=number, spec=service(2)))
    site.obey()
    assert "has ended (only waiting or running" in site.refuse(Update(job=number, spec=service(2)))
    assert isinstance(site.step(Submit(jobs=(service(2),))).replies[0], tuple)


def test_a_database_is_updated_from_the_highest_down() -> None:
    site = Site("n1", "n2", "n3")
    number = site.begin(database(3, checked=True))
    for index in range(3):
        site.check(number, index)
    homes = site.nodes(number)
    new = site.update(number, database(3, checked=True, priority=1))
    assert ready_one_by_one(site, number, 1) == [[2], [1], [0]]
    assert site.versions(number) == [new] * 3
    assert site.nodes(number) == homes


def _least_ready(site: Site, number: int, spec: Job) -> list[int]:
    """The numbers of ready tasks during an update, step by step, until it is done."""
    found = []
    assert not isinstance(site.step(Update(job=number, spec=spec)).replies[0], InputError)
    for _ in range(100):
        found.append(len(site.up(number)))
        words: list[Input] = []
        for attempt in site.machine.attempts.values():
            if attempt.halted:
                words.append(Reported(node=attempt.node, reports=(ended(attempt.id, -15, Cause.STOPPED),)))
            elif not attempt.started:
                words.append(Reported(node=attempt.node, reports=(started(attempt.id),)))
        if not words:
            break
        site.step(*words[:1])
    return found


@pytest.mark.parametrize("surge", [1, 2])
def test_with_surge_no_ready_task_is_missing_during_an_update(surge: int) -> None:
    site = Site("n1", "n2")
    spec = service(3, max_unavailable=0, surge=surge)
    number = site.begin(spec)
    first = site.versions(number)
    counts = _least_ready(site, number, msgspec.structs.replace(spec, priority=1))
    assert min(counts) == 3
    assert max(counts) <= 3 + surge
    assert sorted(site.members(number)) == [0, 1, 2]
    assert set(site.versions(number)).isdisjoint(first)


def test_with_surge_a_version_that_is_never_ready_takes_no_task_away() -> None:
    site = Site("n1", "n2")
    spec = service(2, max_unavailable=0, surge=1)
    number = site.begin(spec)
    first = site.versions(number)
    site.step(Update(job=number, spec=msgspec.structs.replace(spec, priority=1)))
    for _ in range(rolling_updates.UNFIT_FAILURES):
        while 2 not in site.members(number) or not site.members(number)[2].attempts:
            site.wake()
        site.die(number, 2)
    site.obey()
    assert "was rolled back" in site.machine.families[number].reason
    assert site.versions(number) == first
    assert site.up(number) == [0, 1]


def test_max_unavailable_0_needs_a_surge() -> None:
    site = Site("n1")
    assert "0 needs surge: 1" in site.refuse(Submit(jobs=(service(2, max_unavailable=0),)))


def test_an_update_waits_after_its_canaries_until_it_is_promoted() -> None:
    site = Site("n1", "n2")
    spec = service(4, max_unavailable=2, canary=1)
    number = site.begin(spec)
    first = site.versions(number)
    new = site.update(number, msgspec.structs.replace(spec, priority=1))
    site.sleep(10 * MINUTE)
    assert sorted(site.versions(number)) == sorted([*first[:3], new])
    why = site.machine.reason(number)
    assert why == f"1 of 4 tasks have version 2; the others follow after `cress promote {number}`"
    site.step(Promote(job=number, by="eve"))
    site.obey()
    assert site.versions(number) == [new] * 4
    assert "no update that waits for a promotion" in site.refuse(Promote(job=number))


def test_canaries_that_fail_are_rolled_back_and_the_others_never_stop() -> None:
    site = Site("n1", "n2")
    spec = service(3, canary=1, checked=True)
    number = site.begin(spec)
    site.check(number, 0, 1, 2)
    first = site.versions(number)
    site.step(Update(job=number, spec=msgspec.structs.replace(spec, priority=1)))
    (canary,) = [index for index, member in site.members(number).items() if member.ending]
    for _ in range(rolling_updates.UNFIT_FAILURES):
        site.obey()
        while not site.members(number)[canary].attempts:
            site.wake()
        site.die(number, canary)
    site.sleep(MINUTE)
    assert site.versions(number) == first
    assert [entry.number for entry in site.machine.families[number].versions] == [1, 2, 3]


def test_a_restart_replaces_equal_tasks_and_each_version_is_listed() -> None:
    site = Site("n1")
    spec = service(2)
    number = site.begin(spec)
    first = site.versions(number)
    family = site.machine.families[number]
    site.step(Update(job=number, spec=family.job, same_as=0, anew=True))
    site.obey()
    assert set(site.versions(number)).isdisjoint(first)
    family = site.machine.families[number]
    assert [(entry.number, entry.template) for entry in family.versions] == [(1, first[0]), (2, family.template)]


def test_only_the_last_versions_are_listed() -> None:
    site = Site("n1")
    number = site.begin(service(1))
    for priority in range(MOST_VERSIONS + 3):
        site.update(number, service(1, priority=priority + 1))
    listed = [entry.number for entry in site.machine.families[number].versions]
    assert listed == list(range(5, MOST_VERSIONS + 5))
