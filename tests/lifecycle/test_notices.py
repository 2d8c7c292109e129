"""Notices of a step: what is different after it, once, however often it was written."""

from __future__ import annotations

from cress.lifecycle.effects import CordonChanged, NodeDrained
from cress.lifecycle.inputs import Drain, NodeDead, NodeJoined, NodeLeft
from cress.model.events import NodeCordoned
from tests.lifecycle.builders import World, job, node


def test_a_cordon_is_noticed_when_it_is_another_after_the_step() -> None:
    world = World()
    world.join("n1")
    on, off = NodeCordoned(name="n1", cordoned=True, reason="disk"), NodeCordoned(name="n1", cordoned=False)
    assert world.step(on).notices == [CordonChanged("n1", True, "disk")]
    assert world.step(on).notices == []
    assert world.step(off, on).notices == []
    assert world.step(Drain(name="n1", deadline=0, reason="fan")).notices == [
        CordonChanged("n1", True, "draining: fan"),
        NodeDrained("n1"),
    ]
    assert world.step(off).notices == [CordonChanged("n1", False, "")]


def test_several_are_in_the_order_of_nodes() -> None:
    world = World()
    world.join("b")
    world.join("a")
    step = world.step(NodeCordoned(name="a", cordoned=True), NodeCordoned(name="b", cordoned=True))
    assert step.notices == [CordonChanged("b", True, ""), CordonChanged("a", True, "")]


def test_a_node_that_is_forgotten_and_joins_again_is_free() -> None:
    world = World()
    world.join("n1")
    world.step(NodeCordoned(name="n1", cordoned=True))
    world.leave("n1")
    step = world.step(NodeDead(name="n1", forget=True), NodeJoined(node=node("n1"), boot="b2"))
    assert step.notices == [CordonChanged("n1", False, "")]


def test_a_rest_is_noticed_when_it_begins_and_ends() -> None:
    world = World()
    world.join("n1")
    world.join("n2")
    world.submit(job())
    (begun,) = world.cannot_start(1).notices
    assert isinstance(begun, CordonChanged)
    assert (begun.node, begun.cordoned) == ("n1", True)
    assert begun.why.endswith("no such file")
    while not world.wake().notices:
        pass
    assert world.last.notices == [CordonChanged("n1", False, "")]


def test_a_node_that_is_not_there_leaves_without_news() -> None:
    world = World()
    world.join("n1")
    assert world.step(NodeLeft(name="n1"), NodeLeft(name="n1"), NodeLeft(name="n2")).repeated == {1, 2}
