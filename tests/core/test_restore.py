"""State that leaves and comes back: a restored scheduler goes on exactly as the one it was exported from."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.placing.fit import WARM_ROWS
from cress.core.scheduler import Scheduler
from cress.model.events import JobSubmitted, NodeAdded, Outcome, TaskEnded
from cress.model.group import SchedPolicy
from cress.model.job import Job
from cress.model.resources import Dimensions
from tests.core.builders import JobBuilder, World, group, job, node
from tests.core.settings import (
    EVERYTHING,
    Operation,
    Setting,
    operations,
    seeded_operations,
    seeded_setting,
    settings_of_any_kind,
)
from tests.core.stories import Player, sent_away
from tests.examples import fixed, usual


def in_the_middle_of(core: Scheduler) -> set[str]:
    """What is under way, of the things that a state must not forget."""
    under_way = {
        "claims": bool(core.claims),
        "cooling": any(group.cools_until() > core.now for group in core.groups),
        "reservations": any(each.rows for each in core.reservations.kept),
        "plans": any(units for plan in core.plans.by_group.values() for units in plan.units.values()),
        "gates": any(each.held_since is not None for each in core.jobs.values()),
        "drains": any(each.drain for each in core.jobs.values()),
        "leaving": bool(core.leaving),
        "retries": any(each.again for each in core.jobs.values()),
        "backoffs": bool(core.later),
        "holds": any(each.held for each in core.jobs.values()),
        "dependencies": any(each.behind is not None for each in core.jobs.values()),
        "timetable": core.groups.wall_offset is not None,
        "rotation": core.balance.cursor > 0,
        "lost nodes": any(core.cluster.lost),
        "cordoned nodes": any(core.cluster.cordoned),
        "overloaded nodes": any(core.cluster.overloaded),
    }
    return {name for name, there in under_way.items() if there}


def test_restored_at_any_moment_it_goes_on_alike() -> None:
    seen: Counter[str] = Counter()

    # Enough stories to come by everything that is listed below.
    @fixed(10)
    # Only some groups with BackFill plan, and only one order of nodes rotates, so these come more often.
    @given(
        setting=st.one_of(
            settings_of_any_kind(),
            settings_of_any_kind(policies=(SchedPolicy.BACKFILL,)),
            settings_of_any_kind(node_order="balance"),
        ),
        story=operations(EVERYTHING),
        gate=st.booleans(),
    )
    def check(setting: Setting, story: list[Operation], gate: bool) -> None:
        if gate:
            setting = replace(setting, options={**setting.options, "balance_gate": "on"})
        player = Player(setting, check=False)
        for number, operation in enumerate(story):
            if operation[1] % 4 == 0 or number == len(story) // 2:
                seen.update(in_the_middle_of(player.core))
                player.add_twin()
            player.play([operation])

    check()
    assert not {
        "claims", "cooling", "reservations", "plans", "gates", "drains", "leaving", "retries", "timetable", "rotation",
        "lost nodes", "cordoned nodes", "overloaded nodes", "backoffs", "holds", "dependencies",
    } - seen.keys()  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_restored_it_decides_alike_for_hundreds_of_events(seed: int) -> None:
    player = Player(seeded_setting(seed), check=False).play(seeded_operations(seed, 40, EVERYTHING))
    player.twins = [sent_away(player.core)]
    before = len(player.calls)
    part = 0
    while sum(len(events) for _, events in player.calls[before:]) < usual(300, 1000):
        part += 1
        player.play(seeded_operations(1000 * part + seed, 50, EVERYTHING))
    assert player.twins[0].export() == player.core.export()


@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_exporting_twice_gives_the_same_and_changes_nothing(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting, check=False)
    player.twins = [setting.make()]
    for operation in story:
        player.play([operation])
        first = player.core.export()
        assert json.loads(json.dumps(first)) == json.loads(json.dumps(player.core.export()))


@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_a_clone_is_independent(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting, check=False).play(story)
    before = json.dumps(player.core.export())
    clone = player.core.clone()
    request = setting.make().dimensions.vector(cpu=1000)
    for attempt in list(clone.attempts):
        clone.observe(player.now + 1, [TaskEnded(attempt, Outcome.FAILED, again=attempt % 2 == 0)])
        clone.decide(player.now + 1)
    clone.observe(player.now + 2, [JobSubmitted(Job(id=10**6, group="", request=request, tasks=50))])
    clone.decide(player.now + 2)
    assert clone.validate() == []
    assert json.dumps(player.core.export()) == before
    player.twins = [sent_away(player.core)]
    player.play([("submit", 1), ("wait", 2), ("burst", 3), ("wait", 4)])


def with_jobs_that_failed(others: int) -> World:
    """Two jobs that would delay the reservation of the head were tried in vain; before, so many shapes had a row."""
    world = World(group("etl", 8, "BackFill"), nodes=[node("n1").cpu(4).memory("8G")], check=False)
    world.run(job("runs").cpu(3).limit("1h").group("etl"))
    names = [f"other {number}" for number in range(others)]
    world.submit(*(job(name).cpu(3).memory(1 + number).group("etl") for number, name in enumerate(names)))
    for name in names:
        world.cancel(name)
    long = job("long").cpu(1).limit("2h").group("etl")
    world.submit(job("head").cpu(4).group("etl"), long, long.named("like it").cpu(0.5)).decide()
    return world


def assert_a_copy_takes_alike(world: World, *jobs: JobBuilder) -> None:
    twin = sent_away(world.core)
    before = len(world.log.calls)
    world.submit(*jobs).decide()
    for _, now, events in world.log.calls[before:-1]:
        twin.observe(now, events)
    twin.decide(world.now)
    assert twin.export() == world.core.export()


@pytest.mark.parametrize("others", [6, WARM_ROWS])
def test_that_jobs_failed_is_known_however_many_shapes_came_before(others: int) -> None:
    # The restored scheduler has fewer rows of shapes: more of them, or one for another shape, change nothing.
    late = [job(f"late {number}").cpu(2).memory(1 + number).group("etl") for number in range(6)]
    assert_a_copy_takes_alike(with_jobs_that_failed(others), *late)


def test_that_a_job_failed_is_forgotten_with_the_last_one_of_its_shape() -> None:
    world = with_jobs_that_failed(0)
    world.cancel("long")
    assert_a_copy_takes_alike(world, job("again").cpu(1).limit("2h").group("etl"))


def test_a_state_of_the_version_before_is_converted() -> None:
    world = World(nodes=[node("n1").cpu(2)])
    world.run(job("gone").limit("1h"))
    world.cancel("gone")
    old = world.core.export()
    old["version"] = 3
    del old["units_in_doubt"]
    stop = {"type": "Stop", "attempt": 1, "job": 1, "task": 0, "node": "n1"}
    old["outbox"] = [stop for _ in old.pop("to_stop")]
    twin = Scheduler.restore(old)
    assert twin.decide(world.now) == world.core.decide(world.now)
    with pytest.raises(ValueError, match="a state of version 2 cannot be restored"):
        Scheduler.restore({**old, "version": 2})


def test_two_schedulers_restored_from_one_state_share_nothing() -> None:
    world = World(group("etl", 4), nodes=[node("n1").cpu(2)])
    world.submit(job("copy").tasks(5).group("etl")).decide()
    world.finish("copy", outcome=Outcome.FAILED, again=True, decide=False)
    state = world.core.export()
    text = json.dumps(state)
    first = Scheduler.restore(state)
    second = Scheduler.restore(state)
    assert first.decide(0) == second.decide(0)
    assert json.dumps(state) == text


def test_what_would_be_preempted_is_not_told_again_after_a_restore() -> None:
    world = World(group("small", 4), group("large", 4), nodes=[node("n1").cpu(8)], preemption="observe")
    world.run(job("fill").cpu(2).tasks(4).group("large"))
    world.submit(job("late").cpu(4).group("small")).decide()
    world.decide()
    twin = sent_away(world.core)
    for later in range(1, 4):
        assert twin.decide(later) == world.core.decide(later)


def test_what_would_be_preempted_is_not_told_again_after_a_restore_when_something_changes() -> None:
    world = World(group("small", 4), group("large", 4), nodes=[node("n1").cpu(8)], preemption="observe")
    world.run(job("fill").cpu(2).tasks(4).group("large"))
    world.submit(job("late").cpu(4).group("small")).decide()
    assert world.would_be_victims() == ["fill", "fill"]
    twin = sent_away(world.core)
    world.add_node(node("n2").cpu(1))
    twin.observe(world.now, [NodeAdded(node("n2").cpu(1).build(Dimensions()))])
    assert twin.decide(world.now) == world.core.decide(world.now)
