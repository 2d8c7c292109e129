"""Ports and racks as the machine keeps them: what strangers have, what was taken, where a gang's tasks are."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cress.lifecycle.inputs import NodeJoined, NodeLeft
from cress.lifecycle.machine import Machine
from cress.model.events import Event, NodeChanged, Outcome, PortsSeen, RacksSet
from cress.model.node import Node
from cress.model.options import Options
from cress.model.reports import Cause, Ended
from cress.model.run import Host
from cress.model.times import SECOND
from tests.lifecycle.builders import World, job, launched, node, resolve, started


class Listening(World):
    """A world that remembers what the scheduler is told."""

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options)
        self.told: list[Event] = []
        observe = self.machine.core.observe

        def remember(now: int, events: Sequence[Event], **how: bool) -> None:
            self.told += events
            observe(now, events, **how)

        self.machine.core.observe = remember  # type: ignore[method-assign]

    def seen(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(each.name, each.ports) for each in self.told if isinstance(each, PortsSeen)]


def refused_port(attempt: int, port: int) -> Ended:
    return Ended(
        attempt=attempt,
        cause=Cause.PORT,
        code=None,
        started=0,
        at=5,
        error=f"port {port} is in use on this node",
        port=port,
    )


def test_a_port_of_a_clause_is_shown_by_the_attempt_and_the_name_service_and_checked_by_the_executor() -> None:
    world = World()
    world.join("n1")
    for wanted, shown in (
        (job(name="a", requirement="Port = 7793"), (("port", 7793),)),
        (job(name="b", ports=(("http", 80),), requirement="Port = 81"), (("http", 80), ("port", 81))),
        (job(name="c", requirement="Port = 91 && Port = 92"), (("port_91", 91), ("port_92", 92))),
        (job(name="d", ports=(("port", 70),), requirement="Port = 70 && Port = 71"), (("port", 70), ("port_71", 71))),
    ):
        world.submit(wanted)
        (launch,) = world.last.launches
        assert launch.ports == tuple(port for _, port in shown)
        world.report("n1", started(launch.attempt))
        (place,) = resolve(world.machine, wanted.name)
        assert place.ports == shown


def test_what_strangers_listen_on_is_told_when_it_changes_only() -> None:
    world = Listening()
    world.step(NodeJoined(node=node("n1"), boot="b", ports=(443, 22)))
    world.step(PortsSeen(name="n1", ports=(22, 443)))
    world.step(PortsSeen(name="n1", ports=()))
    world.leave("n1")
    world.step(NodeJoined(node=node("n1"), boot="b", ports=(22,)))
    assert world.seen() == [("n1", (22, 443)), ("n1", ()), ("n1", (22,))]
    assert world.refuse(PortsSeen(name="n9", ports=(1,))).startswith("there is no node 'n9'")


def test_a_taken_port_is_tried_elsewhere_as_often_as_it_takes_and_blames_nobody() -> None:
    world = Listening(Options(start_tries=2, start_failures=2))
    world.join("n1")
    (number,) = world.submit(job())
    for attempt in range(1, 9):
        step = world.report("n1", refused_port(attempt, 8080))
        assert [(each.outcome, each.final) for each in step.attempts] == [(Outcome.FAILED, False)]
        assert step.attempts[0].error == "port 8080 is in use on this node"
        assert not world.machine.nodes["n1"].closed
        assert "retried" in world.machine.reason(number)
        world.step(after=SECOND)
        assert launched(world.last) == [(number, 0, "n1")]
    assert world.seen() == [("n1", (8080,))], "until its node says otherwise"
    world.step(PortsSeen(name="n1", ports=()))
    assert world.seen()[-1] == ("n1", ())
    (record,) = world.finish(number).jobs
    assert record.succeeded == 1


def test_a_node_that_comes_back_as_another_one_is_changed_in_place() -> None:
    world = Listening()
    world.join("n1")
    (number,) = world.submit(job())
    changed = msgspec.structs.replace(node("n1"), rack="r2", address="10.0.0.7", attributes=(("GCC", "12.2"),))
    world.leave("n1")
    world.step(NodeJoined(node=changed, boot="b", reports=()))
    assert [each for each in world.told if isinstance(each, NodeChanged)] == [NodeChanged(changed)]
    assert world.machine.nodes["n1"].node == changed
    assert launched(world.last) == [(number, 0, "n1")], "what ran there is ordered again, not lost"


def test_the_neighbours_of_racks_survive() -> None:
    world = Listening()
    world.step(RacksSet(neighbours=(("r1", "r2"),)))
    assert world.told[-1] == RacksSet((("r1", "r2"),))
    assert Machine.restore(world.machine.export()).neighbours == (("r1", "r2"),)


def test_the_tasks_of_a_gang_are_told_of_each_other_also_when_they_are_told_again() -> None:
    world = World()
    for name, address in (("n1", "10.0.0.1"), ("n2", "10.0.0.2")):
        world.step(NodeJoined(node=msgspec.structs.replace(node(name, 2), address=address), boot="b"))
    world.submit(job(3, gang=True))
    first = {each.attempt: each for each in world.last.launches}
    hosts = tuple(
        Host(world.machine.nodes[each.node].node.address)
        for each in sorted(world.last.launches, key=lambda each: each.task)
    )
    assert len(first) == 3
    assert {each.hosts for each in first.values()} == {hosts}
    world.machine = Machine.restore(world.machine.export())
    for name in ("n1", "n2"):
        world.step(NodeLeft(name=name))
        world.step(NodeJoined(node=world.machine.nodes[name].node, boot="b"))
        assert world.last.launches == [each for each in first.values() if each.node == name]


def test_a_node_without_an_address_is_reached_by_its_name() -> None:
    world = World()
    world.step(NodeJoined(node=Node(name="n1", capacity=node("n1").capacity), boot="b"))
    world.submit(job(1, gang=True), job(1))
    assert [each.hosts for each in world.last.launches] == [(Host("n1"),), ()], "and only a gang is told"
