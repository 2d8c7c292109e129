"""Revisions of the configuration: every change is one, kept like all else, and none is half applied."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from cress.core.scheduler import Scheduler
from cress.lifecycle.configuration import document, last
from cress.lifecycle.facts import Facts
from cress.lifecycle.inputs import Configure, Restarted
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import Record
from cress.lifecycle.replay import replay
from cress.model.events import GroupsApplied, LicencesSet
from cress.model.options import Options
from cress.model.revisions import MOST_REVISIONS
from cress.model.times import SECOND
from tests.core.promises import promised_state
from tests.lifecycle.builders import DIMENSIONS, World, group, job


@pytest.fixture
def world() -> World:
    return World(followed=True)


def configure(world: World, **more: Any) -> Configure:
    """The present configuration, with other values."""
    core = world.machine.core
    counts = tuple(core.relations.licences.counts.items())
    values: dict[str, Any] = {"options": core.options, "licences": counts, "groups": core.groups.configured, **more}
    return Configure(by="ann", what="test", **values)


def test_every_input_that_changes_the_configuration_is_a_revision(world: World) -> None:
    world.step(GroupsApplied(groups=(group("a", 2),), by="bob"))
    world.step(GroupsApplied(groups=(group("a", 2),), by="bob"))
    world.step(LicencesSet(counts=(("matlab", 5),)))
    options = dataclasses.replace(world.machine.core.options, grace=9 * SECOND)
    world.step(configure(world, options=options))
    world.step(Restarted(epoch=2, options=dataclasses.replace(options, grace=8 * SECOND)))
    world.step(Restarted(epoch=3))
    kept = world.machine.tables.revisions
    assert [(each.number, each.by, each.what) for each in kept.values()] == [
        (1, "", "start of the center"),
        (2, "bob", "groups applied"),
        (3, "", "licences"),
        (4, "ann", "test"),
        (5, "", "start of the center"),
    ]
    assert kept[1].text == 'options: {}\nlicences: {}\ngroups: ""\n'
    assert kept[5].text == document(world.machine)
    assert kept[5].text.startswith("options:\n  grace: 8s\nlicences:\n  matlab: 5\ngroups: |\n  Name: a\n")
    assert kept[4].utc < kept[5].utc
    assert world.machine.core.options.grace == 8 * SECOND


def test_revisions_outlive_a_snapshot_and_are_known_to_followers_and_to_a_replay(world: World) -> None:
    options = dataclasses.replace(world.machine.core.options, grace=9 * SECOND)
    world.step(configure(world, options=options, groups=(group("a", 2),), licences=(("x", 1),)))
    there = dict(world.machine.tables.revisions)
    assert len(there) == 2
    assert dict(Machine.restore(world.machine.export()).tables.revisions) == there
    assert world.follower is not None
    assert dict(world.follower.tables.revisions) == there
    assert replay(Machine(DIMENSIONS, Options()), world.records) is None


def test_tasks_go_on_with_other_options(world: World) -> None:
    world.join("n1")
    world.submit(job(8))
    before = dict(world.machine.attempts)
    world.step(configure(world, options=dataclasses.replace(world.machine.core.options, grace=9 * SECOND)))
    assert dict(world.machine.attempts) == before
    assert len(before) == 4


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"base": 1}, "the configuration is at revision 2 by bob, and the change is based on 1"),
        ({"options": {"term": 90 * SECOND}}, "term cannot change while the center runs (start it with --option term="),
        ({"options": {"accounting": "dominant"}}, "counted with accounting=cpu"),
        ({"options": {"grace": 9 * SECOND}, "groups": ()}, "groups with live jobs would be removed: a"),
        (
            {"licences": (("x", 1),), "groups": (group("b", 1),)},
            "would be removed: a (say to which group their jobs move: cress groups apply FILE --move a=GROUP)",
        ),
    ],
)
def test_what_is_refused_changes_nothing(world: World, change: dict[str, Any], sentence: str) -> None:
    world.step(GroupsApplied(groups=(group("a", 2),), by="bob"))
    world.submit(job(group="a"))
    core, before = world.machine.core, document(world.machine)
    if "options" in change:
        change = {**change, "options": dataclasses.replace(core.options, **change["options"])}
    refusal = world.refuse(configure(world, **change))
    assert sentence in refusal
    assert (document(world.machine), last(world.machine)) == (before, 2)
    assert world.machine.core is core


def busy(followed: bool = False, *, keeps_rules: bool = True) -> World:
    world = World(followed=followed)
    world.machine.keeps_rules = keeps_rules
    world.step(GroupsApplied(groups=(group("a", 2), group("b", 6))))
    world.join("n1")
    world.submit(job(4, group="a"))
    world.submit(job(8, group="b"), job(3, group="a"))
    return world


@pytest.mark.parametrize(
    "change",
    [
        {"grace": 9 * SECOND, "preempt_below": 0.5, "min_runtime": SECOND},
        {"preemption": "off"},
        {"drain_after": SECOND},
    ],
    ids="-".join,
)
def test_live_options_are_taken_over_as_by_a_scheduler_that_is_built_anew(change: dict[str, Any]) -> None:
    in_place, anew = busy(), busy()
    options = dataclasses.replace(anew.machine.core.options, **change)
    state = anew.machine.core.export()
    state.options = options
    anew.machine.core = Scheduler.restore(state)
    core = in_place.machine.core
    in_place.step(configure(in_place, options=options), after=1000)
    anew.step(after=1000)
    assert in_place.machine.core is core
    for world in (in_place, anew):
        world.join("n2")
        world.submit(job(6, group="b"))
        for _ in range(4):
            world.step(after=30 * SECOND)
    assert promised_state(in_place.machine.core) == promised_state(anew.machine.core)
    assert in_place.machine.core.options == anew.machine.core.options == options
    assert all(state.options == options for state in in_place.machine.core.groups)


def test_options_that_shape_the_scheduler_change_only_while_that_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    world = busy(followed=True)
    options = dataclasses.replace(world.machine.core.options, node_order="best_fit")
    monkeypatch.setattr("cress.lifecycle.configuration.MOST_REBUILT", 3)
    assert "node_order cannot change while there are 7 jobs" in world.refuse(configure(world, options=options))
    world.step(configure(world, options=dataclasses.replace(world.machine.core.options, grace=SECOND)))
    monkeypatch.setattr("cress.lifecycle.configuration.MOST_REBUILT", 300)
    world.step(configure(world, options=options))
    assert world.machine.core.options.node_order == "best_fit"


def test_records_of_an_older_release_replay_without_revisions() -> None:
    world = busy(followed=True, keeps_rules=False)
    older = [
        Record((6, 4), each.now, each.utc, each.inputs, Facts(each.facts.core, _without_revisions(each.facts.rows)))
        for each in world.records
    ]
    assert replay(Machine(DIMENSIONS, Options()), older) is None
    state = msgspec.msgpack.decode(world.machine.export())
    state["version"], state["revisions"] = [6, 4], []
    machine = Machine.restore(msgspec.msgpack.encode(state))
    assert last(machine) == 0
    machine.step(world.now + 1, 10**15, (Restarted(epoch=2),))
    assert last(machine) == 1


def _without_revisions(rows: Any) -> Any:
    return {name: changes for name, changes in rows.items() if name != "revisions"}


def test_so_many_revisions_are_kept_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MOST_REVISIONS + 5):
        world.step(LicencesSet(counts=(("x", number + 1),)))
    kept = list(world.machine.tables.revisions)
    assert (len(kept), kept[-1]) == (MOST_REVISIONS, MOST_REVISIONS + 6)
    monkeypatch.setattr("cress.lifecycle.configuration.MOST_CHARACTERS", 1)
    world.step(LicencesSet(counts=()))
    assert list(world.machine.tables.revisions) == [MOST_REVISIONS + 6, MOST_REVISIONS + 7]
