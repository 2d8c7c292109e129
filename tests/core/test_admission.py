"""What the core refuses, and that a refused batch changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cress.core.scheduler import Scheduler
from cress.model.errors import InputError
from cress.model.events import Event, GroupsApplied, JobSubmitted, NodeAdded, NodeCordoned, NodeLost
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.node import Node
from cress.model.options import Options
from tests.core.builders import World, group, job, node


def world() -> World:
    """One node with a running job of the group "g"."""
    return World(group("g", 4), nodes=[node("n1").cpu(8)]).run(job("runs").cpu(1).group("g"))


GOOD = Job(id=900, group="g", request=(1000, 0, 0, 0, 0, 0, 0))


def submitted(**changes: Any) -> JobSubmitted:
    return JobSubmitted(msgspec.structs.replace(GOOD, **changes))


def applied(**changes: Any) -> GroupsApplied:
    return GroupsApplied((msgspec.structs.replace(Group(name="g", quota=Quota(scalar=4000)), **changes),))


REFUSED: dict[str, tuple[Event, str]] = {
    "a job of no tasks": (submitted(id=901, tasks=0), "0 tasks"),
    "a job with too few amounts": (submitted(id=901, request=(1000,)), "1 amounts"),
    "a job with a negative amount": (submitted(id=901, request=(-1, 0, 0, 0, 0, 0, 0)), "out of range"),
    "a job with an amount beyond counting": (submitted(id=901, request=(2**63, 0, 0, 0, 0, 0, 0)), "out of range"),
    "a negative time limit": (submitted(id=901, time_limit=-1), "time limit"),
    "a minimum above the tasks": (submitted(id=901, minimum=2), "minimum of 2 of 1"),
    "a job of an unknown group": (submitted(id=901, group="nobody"), "no group 'nobody'"),
    "a job id of the same batch": (submitted(id=900), "known already"),
    "a job id that runs": (submitted(id=1), "known already"),
    "a node with too few amounts": (NodeAdded(Node(name="n2", capacity=(1,))), "1 amounts"),
    "a node that is there": (NodeAdded(Node(name="n1", capacity=(1, 0, 0, 0, 0, 0, 0))), "registered already"),
    "the loss of an unknown node": (NodeLost("n9"), "no node 'n9'"),
    "a cordon for an unknown node": (NodeCordoned("n9", True), "no node 'n9'"),
    "a group name with a blank": (applied(name="a b"), "is not a name of a group"),
    "a quota of nothing": (applied(quota=Quota(scalar=0)), "quota of 0"),
    "a quota of several dimensions counted in cores": (applied(quota=Quota(amounts=(("cpu", 1),))), "dimensions"),
    "a user without weight": (applied(user_weights=(("ann", 0),)), "weight below 1"),
    "a group with live jobs that goes": (GroupsApplied((Group(name="h", quota=Quota(scalar=1)),)), "live jobs"),
    "something else": ("hello", "is not an event"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize(("event", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_event_takes_its_whole_batch_with_it(event: Event, words: str) -> None:
    core = world().core
    before = msgspec.msgpack.encode(core.export())
    with pytest.raises(InputError, match=words):
        core.observe(core.now, [submitted(), event, submitted(id=902)])
    assert msgspec.msgpack.encode(core.export()) == before
    assert core.validate() == []


def test_a_batch_may_use_what_it_brings_itself() -> None:
    core = world().apart()
    new = Group(name="new", quota=Quota(scalar=1000))
    old = core.groups.by_name["g"].spec
    capacity = (4000, 0, 0, 0, 0, 0, 0)
    core.observe(
        core.now,
        [
            GroupsApplied((old, new)),
            submitted(group="new"),
            NodeAdded(Node(name="n2", capacity=capacity)),
            NodeCordoned("n2", True),
            NodeLost("n2"),
            NodeAdded(Node(name="n2", capacity=capacity)),
        ],
    )
    assert core.validate() == []


def test_time_does_not_go_back() -> None:
    core = world().apart()
    core.observe(10, [])
    with pytest.raises(InputError, match="time went back"):
        core.observe(9, [submitted()])
    assert 900 not in core.jobs


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("balance_dimensions", ("cpu", "memroy")),
        ("initial_weights", (("foo", 1.0),)),
        ("initial_weights", (("cpu", 2.0), ("memory", -1.0))),
        ("initial_weights", (("cpu", 0.5), ("cpu", 0.5))),
        ("grace", "15s"),
        ("backfill_depth", 1.5),
        ("balance_weights", "initial"),
        ("preempt_below", float("nan")),
    ],
)
def test_an_option_that_means_nothing_is_refused(option: str, value: Any) -> None:
    with pytest.raises(InputError):
        Scheduler(world().dimensions, replace(Options(), **{option: value}))
