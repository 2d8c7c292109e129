"""Services with ``gang`` (IssueAsWhole): the tasks of a first start, and those that are added, start together."""

from __future__ import annotations

import msgspec
import pytest

from cress.lifecycle.families import services
from cress.lifecycle.inputs import NodeDead, Submit
from cress.model.reports import Cause
from tests.lifecycle.kept import Site, database, service


def test_it_starts_as_a_whole_or_not_at_all() -> None:
    site = Site("n1", cpus=2)
    site.begin(service(1, "other"))
    site.join("n2", 1)
    number = site.begin(service(3, gang=True))
    assert site.nodes(number) == {}
    assert site.machine.reason(number) == (
        "task 0: not enough nodes have enough free for all tasks of the service; there is room for some of them only"
    )
    site.join("n3", 1)
    site.obey()
    assert sorted(site.nodes(number).values()) == ["n1", "n2", "n3"]
    assert site.up(number) == [0, 1, 2]


def running(nodes: int = 3) -> tuple[Site, int]:
    """A service that runs as a whole, one task on each node."""
    site = Site(*(f"n{i + 1}" for i in range(nodes)), cpus=1)
    return site, site.begin(service(nodes, gang=True))


def test_a_task_that_ends_is_replaced_by_itself() -> None:
    site, number = running()
    site.die(number, 1)
    site.sleep(20_000_000)
    assert site.up(number) == [0, 1, 2]
    # The others went on.
    assert [live.job.starts_with for live in site.members(number).values()] == [2, 2, 2]


def test_tasks_that_were_lost_are_replaced_one_by_one() -> None:
    site, number = running()
    for name in ("n2", "n3"):
        site.leave(name)
        site.step(NodeDead(name=name))
    site.join("n4", 1)
    site.obey()
    assert len(site.up(number)) == 2


def test_those_that_are_added_start_together() -> None:
    site, number = running(2)
    site.scale(number, 4)
    site.join("n3", 1)
    site.obey()
    assert len(site.up(number)) == 2
    site.join("n4", 1)
    site.obey()
    assert len(site.up(number)) == 4


def test_scaled_down_and_up_again_the_added_ones_start_together() -> None:
    site, number = running(3)
    site.scale(number, 1)
    (kept,) = site.nodes(number).values()
    gone = next(name for name in ("n1", "n2", "n3") if name != kept)
    site.leave(gone)
    site.step(NodeDead(name=gone))
    site.scale(number, 3)
    assert len(site.up(number)) == 1
    site.join("n9", 1)
    site.obey()
    assert len(site.up(number)) == 3


def test_those_added_while_it_waits_start_with_the_others() -> None:
    site = Site("n1", "n2", "n3", cpus=1)
    site.begin(service(2, "other"))
    number = site.begin(service(2, gang=True))
    site.scale(number, 3)
    assert site.up(number) == []
    site.join("n4", 1)
    site.obey()
    assert site.up(number) == []
    site.join("n5", 1)
    site.obey()
    assert site.up(number) == [0, 1, 2]


def test_an_update_replaces_one_after_the_other() -> None:
    site, number = running()
    before = site.versions(number)
    site.update(number, service(3, gang=True, priority=1, max_unavailable=2))
    site.sleep(60_000_000)
    assert site.up(number) == [0, 1, 2]
    assert not set(before) & set(site.versions(number))
    assert {live.job.starts_with for live in site.members(number).values()} == {0}


def test_an_update_before_the_first_start_starts_as_a_whole() -> None:
    site = Site("n1", "n2", "n3", cpus=1)
    other = site.begin(service(1, "other"))
    number = site.begin(service(3, gang=True))
    site.update(number, service(3, gang=True, priority=1))
    assert site.up(number) == []
    assert len({live.job.starts_with for live in site.members(number).values()} - {0}) == 1
    site.join("n4", 1)
    site.obey()
    assert site.up(number) == [0, 1, 2]
    assert site.up(other) == [0]


def test_a_program_that_cannot_start_is_retried_by_itself() -> None:
    site = Site("n1", "n2", "n3", cpus=1)
    (number,) = site.submit(service(2, gang=True))
    site.die(number, 0, cause=Cause.NOT_STARTED, error="no such file")
    site.obey()
    site.sleep(60_000_000)
    assert site.up(number) == [0, 1]


def test_many_tasks_start_together_although_one_step_makes_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MOST_AT_ONCE", 3)
    site = Site("n1", cpus=5)
    other = site.begin(service(1, "other"))
    number = site.begin(service(5, gang=True))
    site.sleep(1_000_000)
    assert site.up(number) == []
    site.scale(other, 0)
    assert site.up(number) == [0, 1, 2, 3, 4]


def test_a_held_service_starts_as_a_whole_when_released() -> None:
    site = Site("n1", "n2", cpus=1)
    number = site.begin(service(2, gang=True, hold=True))
    site.hold(number, False)
    site.obey()
    assert site.up(number) == [0, 1]


def test_a_change_of_gang_replaces_no_task() -> None:
    site, number = running(2)
    running_now = site.machine.attempts.keys()
    spec = msgspec.structs.replace(service(2), id=0)
    site.update(number, spec, same=True)
    site.sleep(1_000_000)
    assert site.machine.attempts.keys() == running_now


def test_a_database_does_not_start_as_a_whole() -> None:
    site = Site("n1")
    assert "each waits until the one before it is ready" in site.refuse(Submit(jobs=(database(2, gang=True),)))


def test_a_service_that_no_nodes_could_hold_at_once_is_refused() -> None:
    site = Site("n1", cpus=4)
    refused = site.refuse(Submit(jobs=(service(5, gang=True),)))
    assert refused.startswith("resource: all nodes together are too small for the service (with at most 4 tasks")
