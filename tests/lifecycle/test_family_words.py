"""What people say about families at awkward moments: names, groups, holding, scaling and cancelling in the midst of
others.
"""

from __future__ import annotations

from typing import Any

from cress.lifecycle.inputs import Drain, Hold, NodeDead, NodeJoined, Restarted, Scale, Submit, Update
from cress.model.errors import InputError
from cress.model.events import GroupsApplied
from cress.model.job import Condition
from cress.model.reports import Cause
from cress.model.times import HOUR, MINUTE, SECOND
from tests.lifecycle.builders import after, group, job, node
from tests.lifecycle.kept import Site, database, service


def test_a_name_is_free_while_its_last_owner_ends_and_taken_by_the_next_one() -> None:
    site = Site("n1")
    first = site.begin(service())
    site.cancel(first)
    assert site.machine.families[first].cancelling
    (second,) = site.submit(service())
    assert f"already, job {second}" in site.refuse(Submit(jobs=(service(),)))
    site.obey()
    assert list(site.machine.families) == [second]
    assert f"already, job {second}" in site.refuse(Submit(jobs=(service(),)))


def test_two_families_of_one_name_are_not_moved_into_one_group() -> None:
    site = Site("n1")
    site.step(GroupsApplied(groups=(group("a", 2), group("b", 2))))
    site.begin(service(group="a"))
    other = site.begin(service(group="b"))
    before = site.machine.export()
    refused = site.refuse(GroupsApplied(groups=(group("b", 2),), moves=(("a", "b"),)))
    assert "groups a and b both have a web" in refused
    assert site.machine.families.keys() == type(site.machine).restore(before).families.keys()
    site.cancel(other)
    site.obey()
    site.step(GroupsApplied(groups=(group("b", 2),), moves=(("a", "b"),)))
    (family,) = site.machine.families.values()
    assert family.job.group == "b"
    assert "a service web in group b already" in site.refuse(Submit(jobs=(service(group="b"),)))


def test_tasks_of_moved_services_are_started_again_in_their_new_group() -> None:
    site = Site("n1")
    site.step(GroupsApplied(groups=(group("a", 2), group("b", 2))))
    number = site.begin(service(2, group="a", backoff=SECOND))
    site.step(GroupsApplied(groups=(group("b", 2),), moves=(("a", "b"),)))
    site.die(number, 0)
    site.sleep(MINUTE)
    site.scale(number, 3)
    assert site.up(number) == [0, 1, 2]
    assert {member.job.group for member in site.members(number).values()} == {"b"}


def test_a_task_of_a_service_is_not_held_alone() -> None:
    site = Site("n1")
    number = site.begin(service(2))
    member = site.members(number)[1].job.id
    assert f"job {member} is task 1 of service {number}" in site.refuse(Hold(job=member, held=True))
    assert f"`cress release {number}`" in site.refuse(Hold(job=member, held=False))
    site.hold(number)
    assert all(each.held for each in site.members(number).values())


def test_a_task_that_is_cancelled_alone_is_made_anew() -> None:
    site = Site("n1")
    for number in (site.begin(service(2)), site.begin(database(2))):
        old = site.members(number)[1].job.id
        site.cancel(old)
        site.obey()
        assert site.members(number)[1].job.id != old
        assert site.up(number) == [0, 1]


def test_what_is_cancelled_in_the_midst_of_an_update_ends_as_a_whole() -> None:
    site = Site("n1")
    number = site.begin(service(3, checked=True))
    site.check(number, 0, 1, 2)
    site.update(number, service(3, checked=True, priority=1))
    site.cancel(number)
    site.obey()
    assert number in site.over
    assert not site.machine.jobs
    assert not site.machine.timers.times
    assert not site.machine.replica_indices


def test_an_update_takes_the_place_of_one_that_is_under_way() -> None:
    site = Site("n1")
    number = site.begin(service(3, checked=True))
    site.check(number, 0, 1, 2)
    site.update(number, service(3, checked=True, priority=1))
    site.check(number, 0)
    newest = site.update(number, service(3, checked=True, priority=2))
    for _ in range(4):
        site.check(number, 0, 1, 2)
    assert site.versions(number) == [newest] * 3
    assert site.up(number) == [0, 1, 2]


def test_an_update_while_a_bad_one_is_taken_back_goes_on_from_what_was_good() -> None:
    site = Site("n1")
    number = site.begin(service(2, checked=True, backoff=SECOND))
    site.check(number, 0, 1)
    good = site.machine.families[number].template
    bad = site.update(number, service(2, checked=True, backoff=SECOND, priority=1))
    for _ in range(3):
        site.die(number, 0)
        site.sleep(5 * SECOND)
    family = site.machine.families[number]
    assert (family.template, bad in site.versions(number)) == (good, False)
    assert "was rolled back" in family.reason
    third = site.update(number, service(2, checked=True, backoff=SECOND, priority=2))
    assert not site.machine.families[number].reason
    for _ in range(3):
        site.check(number, 0, 1)
    assert site.versions(number) == [third, third]


def test_a_service_is_scaled_to_nothing_in_the_midst_of_an_update_and_back() -> None:
    site = Site("n1")
    number = site.begin(service(3))
    site.hold(number)
    newest = site.update(number, service(3, priority=1))
    assert newest not in site.versions(number)
    site.scale(number, 0)
    assert site.members(number) == {}
    site.hold(number, held=False)
    site.scale(number, 2)
    assert site.versions(number) == [newest] * 2
    assert site.up(number) == [0, 1]


def test_a_database_is_scaled_to_nothing_and_back_to_the_nodes_of_its_tasks() -> None:
    site = Site("n1", "n2", "n3", cpus=1)
    number = site.begin(database(3))
    homes = site.nodes(number)
    site.scale(number, 0)
    assert site.members(number) == {}
    site.scale(number, 3)
    assert site.nodes(number) == homes


def test_a_database_on_a_node_that_is_drained_waits_for_it_and_moves_when_it_is_forgotten() -> None:
    site = Site("n1", "n2", cpus=1)
    number = site.begin(database(1))
    home = site.nodes(number)[0]
    other = {"n1": "n2", "n2": "n1"}[home]
    site.step(Drain(name=home, deadline=0))
    site.obey()
    assert site.nodes(number) == {}
    assert f'Name = "{home}"' in site.members(number)[0].job.requirement
    site.leave(home)
    site.step(NodeDead(name=home, forget=True))
    site.obey()
    assert site.nodes(number) == {0: other}
    assert f"has left node {home}" in site.machine.reason(number)


def test_a_job_behind_a_service_waits_until_that_is_cancelled() -> None:
    site = Site("n1")
    number, behind, never = site.submit(
        service(), job(after=after(-1, condition=Condition.ANY)), job(after=after(-1, condition=Condition.OK))
    )
    site.obey()
    assert f"waiting for job {number} (web)" in site.machine.reason(behind)
    site.cancel(number)
    site.obey()
    assert site.machine.jobs[behind].attempts
    assert site.over[never].reason == f"dependency failed: job {number} was cancelled"


def test_a_timetable_that_comes_in_the_midst_of_an_update_gives_tasks_of_the_new_version() -> None:
    site = Site("n1", cpus=8)
    plan: dict[str, Any] = {"checked": True, "timetable": (("*/10 * * * *", 4),), "update_timeout": HOUR}
    site.wall = -((1_700_000_000 * SECOND) % HOUR) + MINUTE  # a minute past the full hour
    number = site.begin(service(2, checked=True))
    site.check(number, 0, 1)
    newest = site.update(number, service(2, **plan))
    site.scale(number, 2)
    site.check(number, 0)
    site.sleep(10 * MINUTE)
    assert site.machine.families[number].job.tasks == 4
    for _ in range(4):
        site.check(number, *site.nodes(number))
    assert site.versions(number) == [newest] * 4


def test_the_center_starts_again_in_the_midst_of_an_update() -> None:
    site = Site("n1", "n2")
    number = site.begin(service(3, checked=True))
    site.check(number, 0, 1, 2)
    newest = site.update(number, service(3, checked=True, priority=1))
    site.step(Restarted(epoch=2))
    assert site.machine.families[number].template == newest
    for name in ("n1", "n2"):
        site.step(NodeJoined(node=node(name), boot="b1"))
    site.obey()
    for _ in range(4):
        site.check(number, *site.nodes(number))
        site.sleep(SECOND)
    assert set(site.versions(number)) == {newest}


def test_all_that_was_said_gives_the_same_state_again() -> None:
    """A replay of the log, with updates, scaling, failures and holds in it."""
    site = Site("n1", "n2")
    web, db = site.begin(service(3, checked=True, backoff=SECOND)), site.begin(database(2))
    site.check(web, 0, 1, 2)
    site.update(web, service(3, checked=True, backoff=SECOND, priority=1))
    site.die(db, 1)
    site.step(Scale(job=web, tasks=5), Hold(job=db, held=True, by="eve"), Update(job=db, spec=database(2, priority=3)))
    site.die(web, 1)
    site.sleep(MINUTE)
    site.step(Hold(job=db, held=False))
    site.obey()
    again = type(site.machine)(site.machine.core.dimensions, site.machine.core.options)
    for now, utc, inputs in site.said:
        replies = again.step(now, utc, inputs).replies
        assert not any(isinstance(each, InputError) for each in replies)
    assert again.export() == site.machine.export()


def test_what_is_said_of_a_task_that_waits_is_about_its_last_end_not_about_one_before() -> None:
    site = Site("n1")
    number = site.begin(service(1, backoff=SECOND))
    site.die(number, 0, code=3)
    assert "(exit code 3)" in site.machine.reason(number)
    site.wake()
    site.die(number, 0, cause=Cause.PORT, error="port 80 is taken")
    assert "(port 80 is taken)" in site.machine.reason(number)
    assert "exit code" not in site.machine.reason(number)
