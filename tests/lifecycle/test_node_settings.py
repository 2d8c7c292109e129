"""Settings of nodes from the center: over what executors report, at once, with revisions, and kept like all else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cress.lifecycle.inputs import DataFound, Declare, Drain, NodeDead, NodeJoined, Restarted, SetNode, Submit
from cress.lifecycle.machine import Machine
from cress.lifecycle.nodes.cordons import why_closed
from cress.lifecycle.nodes.settings import settings_of
from cress.lifecycle.replay import replay
from cress.model.attributes import MOST
from cress.model.events import NodeCordoned
from cress.model.node import Node
from cress.model.node_settings import MOST_LABELS, MOST_REVISIONS, NOTHING_SET
from cress.model.options import Options
from cress.model.times import MINUTE, SECOND
from tests.lifecycle.builders import DIMENSIONS, World, ended, ids, job, launched, node, started


@pytest.fixture
def world() -> World:
    return World(followed=True)


def set_node(world: World, **more: Any) -> None:
    assert world.step(SetNode(name="n1", by="eve", what="test", **more)).replies == [None]


def attributes(world: World) -> dict[str, Any]:
    return dict(world.machine.nodes["n1"].node.attributes)


def reported(**more: Any) -> Node:
    return msgspec.structs.replace(node("n1"), **more)


def join(world: World, *reports: Any, **more: Any) -> None:
    world.step(NodeJoined(node=reported(**more), boot="b1", reports=tuple(reports)))


def test_a_waiting_task_starts_when_a_label_makes_its_node_fit_and_a_running_one_stays(world: World) -> None:
    join(world, attributes=(("zone", "us"),))
    (there,) = world.submit(job(requirement="zone = 'us'"))
    world.run_all()
    # Some node could run the next one, but takes no tasks.
    world.step(NodeJoined(node=msgspec.structs.replace(node("n2"), attributes=(("zone", "eu"),)), boot="b1"))
    world.step(NodeCordoned(name="n2", cordoned=True))
    (waiting,) = world.submit(job(requirement="zone = 'eu'"))
    assert not world.last.launches
    set_node(world, labels=(("Zone", "eu"),))
    assert [(launch.job, launch.node) for launch in world.last.launches] == [(waiting, "n1")]
    assert not world.last.halts
    assert {each.job for each in world.machine.attempts.values()} == {there, waiting}
    assert attributes(world) == {"Zone": "eu"}


def test_a_label_is_removed_and_the_reported_one_holds_again(world: World) -> None:
    join(world, attributes=(("zone", "us"), ("GCC", "12")))
    set_node(world, labels=(("zone", "eu"), ("ssd", True)))
    set_node(world, labels=(("ZONE", None),))
    assert attributes(world) == {"GCC": "12", "zone": "us", "ssd": True}
    set_node(world, labels=(("ssd", None),))
    assert world.machine.nodes["n1"].node == reported(attributes=(("zone", "us"), ("GCC", "12")))
    assert world.machine.nodes["n1"].reported is None


def test_settings_hold_over_what_an_executor_reports_when_it_comes_back(world: World) -> None:
    join(world, rack="r1")
    set_node(world, rack="r7", judged=False, labels=(("ssd", True),), note="borrowed")
    world.leave("n1")
    join(world, rack="r2", attributes=(("ssd", False), ("GCC", "13")))
    there = world.machine.nodes["n1"]
    assert (there.node.rack, there.node.judged, attributes(world)) == ("r7", False, {"GCC": "13", "ssd": True})
    assert there.reported is not None
    assert there.reported.rack == "r2"
    world.step(DataFound(name="n1", data=("/data/a",)))
    assert (there.node.data, there.node.rack, there.reported.data) == (("/data/a",), "r7", ("/data/a",))
    set_node(world, rack=None)
    assert there.node.rack == "r2"


def test_what_is_kept_back_is_for_no_task_and_running_ones_stay(world: World) -> None:
    world.join("n1", cpus=4)
    world.submit(job(3))
    world.run_all()
    set_node(world, reserve=(("cpu", 2_000), ("memory", 2**30)))
    assert not world.last.halts
    assert world.machine.nodes["n1"].node.capacity[:2] == (2_000, 7 * 2**30)
    world.submit(job())
    for attempt in (1, 2):
        assert not launched(world.last), "the node has no more than its tasks hold"
        world.report("n1", ended(attempt))
    assert len(launched(world.last)) == 1
    (last,) = world.submit(job())
    assert not launched(world.last)
    set_node(world, reserve=())
    assert [launch.job for launch in world.last.launches] == [last]


def test_more_than_there_is_kept_back_leaves_nothing(world: World) -> None:
    world.join("n1", cpus=4)
    set_node(world, reserve=(("cpu", 9_000),))
    assert world.machine.nodes["n1"].node.capacity[0] == 0


def test_every_change_is_a_revision_and_each_can_be_gone_back_to(world: World) -> None:
    join(world)
    set_node(world, labels=(("zone", "eu"),))
    set_node(world, labels=(("zone", "eu"),))
    set_node(world, rack="r7")
    set_node(world, revert=1)
    there = world.machine.nodes["n1"]
    assert [(each.number, each.by, each.settings.rack) for each in there.revisions] == [
        (1, "eve", None),
        (2, "eve", "r7"),
        (3, "eve", None),
    ]
    assert there.revisions[0].utc < there.revisions[1].utc
    set_node(world, revert=0)
    assert settings_of(there) == NOTHING_SET
    assert there.node == node("n1")
    for number in range(MOST_REVISIONS):
        set_node(world, rack=f"r{number}")
    assert [each.number for each in there.revisions] == list(range(5, 5 + MOST_REVISIONS))


def test_settings_outlive_a_snapshot_and_are_known_to_followers_and_to_a_replay(world: World) -> None:
    join(world, rack="r1")
    set_node(world, rack="r7", labels=(("zone", "eu"), ("slots", 4)), reserve=(("cpu", 1_000),), note="fan")
    world.step(Declare(dimensions=("gpu",)))
    there = world.machine.nodes["n1"]
    again = Machine.restore(world.machine.export()).nodes["n1"]
    assert (again.node, again.reported, again.revisions) == (there.node, there.reported, there.revisions)
    assert world.follower is not None
    followed = world.follower.tables.nodes["n1"]
    assert (followed.node, followed.reported, followed.revisions) == (there.node, there.reported, there.revisions)
    assert replay(Machine(DIMENSIONS, Options()), world.records) is None


def test_a_node_chooses_its_jobs_over_what_its_executor_says_and_all_know_it(world: World) -> None:
    join(world, accepts='Job.User = "bob"', repels=("old",))
    set_node(world, accepts='Job.User = "ann"', repels=("spot",))
    (first,) = world.submit(job(user="ann", tolerates=("spot",)))
    world.run_all()
    set_node(world, accepts="", repels=())
    (second,) = world.submit(job(user="eve"))
    assert [launch.job for launch in world.last.launches] == [second]
    assert {each.job for each in world.machine.attempts.values()} == {first, second}
    set_node(world, accepts=None, repels=None)
    assert world.machine.nodes["n1"].node.accepts == 'Job.User = "bob"'
    again = Machine.restore(world.machine.export())
    assert again.nodes["n1"].node == world.machine.nodes["n1"].node
    assert again.core.relations.choices.conditions == ['Job.User = "bob"']
    assert world.follower is not None
    assert world.follower.tables.nodes["n1"].node == world.machine.nodes["n1"].node
    assert replay(Machine(DIMENSIONS, Options()), world.records) is None


def test_each_job_of_a_submit_is_judged_by_what_it_says_of_itself(world: World) -> None:
    join(world, accepts='Job.User = "ann"')
    both = Submit(jobs=(job(requirement="Job.Tasks < 2"), job(2, requirement="Job.Tasks < 2")))
    assert world.refuse(both).startswith(
        "jobs[1].requirement: no node that is large enough could ever satisfy Job.Tasks (2) < 2"
    )
    both = Submit(jobs=(job(), job(user="eve")))
    assert 'could ever satisfy the condition of n1: Job.User = "ann"' in world.refuse(both)
    assert len(world.submit(job(), job())) == 2


def test_a_forgotten_node_comes_back_as_it_is_reported(world: World) -> None:
    join(world)
    set_node(world, rack="r7")
    world.leave("n1")
    world.step(NodeDead(name="n1", forget=True))
    join(world, rack="r1")
    assert world.machine.nodes["n1"].node.rack == "r1"
    assert world.machine.nodes["n1"].revisions == ()


def test_labels_of_the_center_count_before_those_that_are_too_many(world: World) -> None:
    join(world, attributes=tuple((f"a{number}", number) for number in range(MOST)))
    set_node(world, labels=(("zone", "eu"),))
    assert len(attributes(world)) == MOST
    assert attributes(world)["zone"] == "eu"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"labels": (("memory", 1),)}, "memory is a resource"),
        ({"labels": (("port", 1),)}, "port means something else"),
        ({"labels": (("9", 1),)}, "'9' is not a name of a label"),
        ({"labels": (("zone", None),)}, "the label zone is not set in the center (no label of the node is set here)"),
        ({"labels": tuple((f"a{i}", i) for i in range(MOST_LABELS + 1))}, f"{MOST_LABELS + 1} labels are too many"),
        ({"rack": "a b"}, "'a b' is not a valid rack"),
        ({"note": "two\nlines"}, "note: is not a line of text"),
        ({"reserve": (("disk_read", 1),)}, "disk_read cannot be kept back"),
        ({"accepts": "Job.User ="}, "accepts: at the end: a value is expected"),
        ({"accepts": "SSD"}, "accepts: SSD does not depend on the job"),
        (
            {"accepts": "Job.User = ann"},
            "accepts: at character 12, `ann`: the node has no attribute ann (a text must be",
        ),
        (
            {"accepts": "Job.GPU > 0"},
            "accepts: at character 1, `Job.GPU > 0`: a job has no Job.GPU (after `Job.`: User",
        ),
        ({"accepts": "Job.Memory < 1"}, "accepts: at character 14, `1`: 1 has no unit, and Job.Memory is in bytes"),
        ({"repels": ("a b",)}, "repels: 'a b' is not a name"),
        ({"revert": 4}, "node n1 has no revision 4"),
        ({"rack": "r2", "base": 3}, "the settings of node n1 are at revision 0, and the change is based on 3"),
        ({"rack": "r2", "name": "n2"}, "there is no node 'n2'"),
    ],
)
def test_a_wrong_change_is_refused_and_changes_nothing(change: dict[str, Any], says: str, world: World) -> None:
    join(world)
    assert says in world.refuse(SetNode(**{"name": "n1", "labels": (), **change}))
    assert world.machine.nodes["n1"].revisions == ()


def test_a_label_that_is_set_together_with_what_a_node_accepts_counts(world: World) -> None:
    join(world)
    set_node(world, labels=(("owner", "ann"),), accepts="Job.User = Owner")
    assert world.machine.nodes["n1"].node.accepts == "Job.User = Owner"


@pytest.mark.parametrize("successor", ["a restart", "a standby"])
def test_a_drain_with_a_deadline_goes_on_in_the_center_that_takes_over(successor: str, world: World) -> None:
    world.join("n1")
    world.submit(job())
    world.run_all()
    world.step(Drain(name="n1", deadline=10 * MINUTE, reason="new disk", by="eve"))
    begin = world.now
    assert world.follower is not None
    restored = Machine.restore(world.machine.export())
    world.machine = restored if successor == "a restart" else world.follower.machine()
    world.follower = None
    world.step(Restarted(epoch=2), after=4 * MINUTE)
    assert not world.join("n1", reports=(started(1),)).halts
    there = world.machine.nodes["n1"]
    assert why_closed(world.machine, there, world.now).startswith("draining: new disk; running tasks are stopped in 6m")
    world.submit(job())
    assert not launched(world.last)
    while not world.wake().halts:
        assert world.now - begin < 10 * MINUTE
    assert ids(world.last.halts) == [1]
    assert 10 * MINUTE <= world.now - begin < 10 * MINUTE + SECOND
    assert world.machine.attempts[1].halted_for == "node n1 was drained by eve: new disk"
