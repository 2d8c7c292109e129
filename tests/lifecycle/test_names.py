"""The name service: which tasks are told, with what, and when they are gone."""

from __future__ import annotations

from typing import Any

from cress.lifecycle.inputs import Drain, NodeDead, NodeJoined
from cress.lifecycle.machine import Machine
from cress.lifecycle.name_service import Place
from cress.lifecycle.name_table import NamesRevision, NameTable, PlaceChange, parse_revision
from cress.model.events import GroupsApplied
from cress.model.job import Job
from cress.model.node import Allocated, Device, Node
from cress.model.vectors import parse_vector
from tests.lifecycle.builders import DIMENSIONS, UTC_AT_START, World, group, job, node, resolve, started


def web(tasks: int = 1, **more: Any) -> Job:
    return job(tasks, name="web", **more)


def where(world: World, name: str = "web", group: str | None = None) -> list[tuple[int, int, str]]:
    return [(each.job, each.task, each.node) for each in world.names.places(name, group)]


def cluster(*names: str, cpus: int = 1) -> World:
    world = World()
    for name in names:
        world.join(name, cpus)
    return world


def test_a_task_has_a_place_from_the_start_of_its_program_to_its_end() -> None:
    world = cluster("n1", "n2")
    (number,) = world.submit(web(2))
    assert where(world) == []
    world.report("n1", started(1))
    assert where(world) == [(number, 0, "n1")]
    world.report("n2", started(2))
    assert where(world) == [(number, 0, "n1"), (number, 1, "n2")]
    world.finish(number)
    assert where(world) == []


def test_a_place_says_where_a_task_is_reached_and_since_when() -> None:
    world = World()
    there = Node(name="n1", capacity=node("n1").capacity, rack="r1", address="10.0.0.1")
    world.step(NodeJoined(node=there, boot="b"))
    (number,) = world.submit(web())
    world.run_all()
    assert resolve(world.machine, "web") == [
        Place(
            job=number, name="web", group="default", task=0, attempt=1, node="n1", rack="r1", address="10.0.0.1",
            ports=(), since=UTC_AT_START + 1, user="ann",
        )
    ]  # fmt: skip


def test_ports_have_their_names_and_a_node_without_an_address_its_own() -> None:
    world = cluster("n1")
    world.submit(web(ports=(("http", 8080), ("admin", 0))))
    world.run_all()
    world.machine.attempts[1].ports = (8080, 20_000)
    (place,) = resolve(world.machine, "web")
    assert (place.address, dict(place.ports)) == ("n1", {"http": 8080, "admin": 20_000})


def test_a_place_names_the_disk_that_the_task_has() -> None:
    disks = (
        Device(kind="disk", id="sda", path="/data/disk1", bandwidth=(100, 100, 0, 0)),
        Device(kind="disk", id="sdb", bandwidth=(200, 200, 0, 0)),
    )
    world = World()
    there = Node(name="n1", capacity=parse_vector("<4, 8G, 0, 300>", DIMENSIONS), devices=disks)
    world.step(NodeJoined(node=there, boot="b"))
    world.submit(web(3))
    world.run_all()
    alone, shared, of_both = (
        (Allocated("disk", "sda", 1000),),
        (Allocated("disk", "sdb", 0),),
        (Allocated("disk", "sda", 1000), Allocated("disk", "sdb", 1000)),
    )
    for number, devices in enumerate((alone, shared, of_both), start=1):
        world.machine.attempts[number].devices = devices
    places = resolve(world.machine, "web")
    assert [each.disk for each in places] == ["/data/disk1", "sdb", "/data/disk1:sdb"]
    assert places[1].devices == shared


def test_a_task_that_was_told_to_stop_has_no_place_any_more() -> None:
    world = cluster("n1", "n2")
    cancelled, drained = world.submit(web(), web())
    world.run_all()
    world.cancel(cancelled)
    assert where(world) == [(drained, 0, "n2")]
    world.step(Drain(name="n2", deadline=0))
    assert where(world) == []


def test_a_node_that_is_away_may_still_run_it_and_one_that_is_dead_does_not() -> None:
    world = cluster("n1")
    (number,) = world.submit(web())
    world.run_all()
    world.leave("n1")
    assert where(world) == [(number, 0, "n1")]
    world.step(NodeDead(name="n1", forget=True))
    assert where(world) == []


def test_names_may_be_those_of_several_jobs_in_several_groups() -> None:
    world = cluster("n1", "n2", "n3")
    world.step(GroupsApplied(groups=(group("shop", 2),)))
    first, second, _ = world.submit(web(), web(group="shop"), job(name="db"))
    world.run_all()
    assert where(world) == [(first, 0, "n2"), (second, 0, "n1")]
    assert where(world, group="shop") == [(second, 0, "n1")]
    assert where(world, group="default") == [(first, 0, "n2")]
    assert where(world, "nobody") == []


def test_places_are_the_same_after_a_restart() -> None:
    world = cluster("n1")
    world.submit(web())
    world.run_all()
    assert resolve(Machine.restore(world.machine.export()), "web") == resolve(world.machine, "web")


# --- the table ---------------------------------------------------------------------------------------------------


def changes(world: World, known: NamesRevision, name: str = "web") -> list[tuple[int | None, ...]] | None:
    """The attempts that a reader is told of behind a revision: gone and come."""
    found = world.names.since(name, known)
    if found is None:
        return None
    return [tuple(place.attempt if place else None for place in (each.before, each.after)) for each in found]


def test_a_reader_goes_on_behind_the_revision_that_it_knows() -> None:
    world = cluster("n1", "n2")
    begin = world.names.revision
    (number,) = world.submit(web(2))
    world.report("n1", started(1))
    known = world.names.revision
    assert changes(world, begin) == [(None, 1)]
    world.submit(job(name="db"))
    assert changes(world, known) == []
    world.report("n2", started(2))
    world.finish(number)
    assert changes(world, begin) == [(None, 1), (None, 2), (1, None), (2, None)]
    assert changes(world, known) == [(None, 2), (1, None), (2, None)]
    assert changes(world, known, "db") == []
    assert changes(world, world.names.revision) == []


def test_a_place_that_changes_is_told_again() -> None:
    world = cluster("n1")
    world.submit(web())
    world.run_all()
    known = world.names.revision
    world.leave("n1")
    moved = Node(name="n1", capacity=node("n1").capacity, rack="r7", address="10.0.0.7")
    world.step(NodeJoined(node=moved, boot="b1", reports=(started(1),)))
    (change,) = world.names.since("web", known) or [PlaceChange(0, None, None)]
    assert change.before is not None
    assert change.after is not None
    assert (change.before.rack, change.after.rack, change.after.address) == ("", "r7", "10.0.0.7")


def test_a_job_that_moves_to_another_group_is_found_there() -> None:
    world = cluster("n1")
    world.step(GroupsApplied(groups=(group("shop", 2),)))
    (number,) = world.submit(web(group="shop"))
    world.run_all()
    known = world.names.revision
    world.step(GroupsApplied(groups=(), moves=(("shop", "default"),)))
    assert (where(world, group="shop"), where(world, group="default")) == ([], [(number, 0, "n1")])
    assert changes(world, known) == [(1, 1)]


def test_what_is_not_known_any_more_is_not_made_up() -> None:
    world = cluster("n1", "n2")
    world.names = NameTable(most_kept=2)
    world.names.load(world.machine, NamesRevision("1", 10))
    world.submit(web(3))
    first = world.names.revision
    world.report("n1", started(1))
    second = world.names.revision
    world.report("n2", started(2))
    assert changes(world, first) == [(None, 1), (None, 2)]
    world.finish(1)
    assert changes(world, first) is None
    assert changes(world, second) is None
    assert changes(world, world.names.revision) == []
    assert changes(world, NamesRevision("1", 9)) is changes(world, NamesRevision("1", 1000)) is None
    assert changes(world, world.names.revision._replace(epoch="2")) is None


def test_a_revision_is_read_as_it_was_written() -> None:
    for each in (NamesRevision("1.1", 0), NamesRevision("7.12", 10**12)):
        assert parse_revision(str(each)) == each
    for text in ("", "-", "7", "7.1-", "-7", "7.1-x", "7.1--3x", "7.1-²", "7.1-" + "9" * 30):
        assert parse_revision(text) is None
