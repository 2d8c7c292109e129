"""State that leaves and comes back: a restored scheduler goes on exactly as the one it was exported from."""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.loan_limit import LoanLimit
from cress.core.placing.fit import WARM_ROWS
from cress.core.scheduler import Scheduler
from cress.core.stored.state import VERSION
from cress.core.stored.versions import state_of
from cress.model.events import JobSubmitted, Outcome, TaskEnded
from cress.model.group import SchedPolicy
from cress.model.job import Job
from cress.model.times import SECOND
from tests.core.builders import JobBuilder, World, group, job, node
from tests.core.promises import promised_state
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
        "reservations": any(each.rows for each in core.books.reservations.kept),
        "plans": any(units for plan in core.books.plans.by_group.values() for units in plan.units.values()),
        "gates": any(each.foreseen.held_since is not None for each in core.jobs.values()),
        "drains": any(each.foreseen.drain for each in core.jobs.values()),
        "leaving": bool(core.books.leaving),
        "retries": any(each.again for each in core.jobs.values()),
        "backoffs": bool(core.books.later),
        "holds": any(each.held for each in core.jobs.values()),
        "dependencies": any(each.behind is not None for each in core.jobs.values()),
        "timetable": core.groups.wall_offset is not None,
        "rotation": core.books.balance.cursor > 0,
        "lost nodes": any(core.cluster.lost),
        "cordoned nodes": any(core.cluster.cordoned),
        "overloaded nodes": any(core.cluster.overloaded),
    }
    return {name for name, there in under_way.items() if there}


def test_restored_at_any_moment_it_goes_on_alike() -> None:
    seen: Counter[str] = Counter()

    # Enough stories to come by everything that is listed below.
    @fixed(12)
    # Only some groups with BackFill plan, and only one order of nodes rotates, so these come more often.
    @given(
        setting=st.one_of(
            settings_of_any_kind(),
            settings_of_any_kind(policies=(SchedPolicy.BACKFILL,)),
            settings_of_any_kind(node_order="balance"),
        ),
        story=operations(EVERYTHING, 30, 80),
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
    while sum(len(events) for _, events in player.calls[before:]) < usual(200, 1000):
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
        assert msgspec.msgpack.encode(first) == msgspec.msgpack.encode(player.core.export())


@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_a_clone_is_independent(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting, check=False).play(story)
    before = msgspec.msgpack.encode(player.core.export())
    clone = player.core.clone()
    request = setting.make().dimensions.vector(cpu=1000)
    for attempt in list(clone.attempts):
        clone.observe(player.now + 1, [TaskEnded(attempt, Outcome.FAILED, again=attempt % 2 == 0)])
        clone.decide(player.now + 1)
    clone.observe(player.now + 2, [JobSubmitted(Job(id=10**6, group="", request=request, tasks=50))])
    clone.decide(player.now + 2)
    assert clone.validate() == []
    assert msgspec.msgpack.encode(player.core.export()) == before
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


# By version 4, of the release before: states of random stories, and what that release decided in the next calls.
# Some stories have what is decided since then: 6 and 12, since a group keeps its quota for its due unit; 1 and 4, since
# tasks start in idle parts of their own workload before every queue; 3, 23 and 41, since units that wait for something
# else take no turn and no place in their queue; 4 also, since the default group shares among its users; 4, 6 and 8,
# since rights are judged by the node; 4, since every search spares tasks in the grace of their start; 6 and 8, since
# the smallest charge under `dominant` is that on a node that exists.
STATES = msgspec.msgpack.decode(gzip.decompress((Path(__file__).parent / "states_of_4.msgpack.gz").read_bytes()))


@pytest.mark.parametrize("kept", STATES, ids=lambda kept: kept["seed"])
def test_a_state_of_the_version_before_goes_on_alike(kept: dict[str, Any]) -> None:
    core = Scheduler.restore(kept["state"])
    assert core.validate() == []
    assert sent_away(core).export() == core.export()
    now, said = core.now, []
    for _ in kept["said"]:
        now += 7 * SECOND
        ended = sorted(core.attempts)[:2]
        good, bad = Outcome.SUCCEEDED, Outcome.FAILED
        core.observe(now, [TaskEnded(each, good if each % 3 else bad, again=each % 3 == 0) for each in ended])
        said.append(msgspec.msgpack.decode(msgspec.msgpack.encode(core.decide(now).items)))
    assert said == kept["said"]


def test_states_of_the_version_before_have_all_that_a_state_can_have() -> None:
    states = [kept["state"] for kept in STATES]
    for name in ("claims", "others", "advance_reservations", "plans"):
        assert any(state[name] for state in states), name
    assert any(state["lending"]["leases"] for state in states)
    assert any(job["companions"] for state in states for job in state["jobs"])


def test_what_was_tried_in_vain_is_converted() -> None:
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(next(kept["state"] for kept in STATES)))
    (entry, *_) = state["memory"]["groups"].values()
    entry.update(failed=[4, 30, [5, 6]], no_victims=[7, 31, 8, 9], retry_victims_at=10)
    foreseen = state_of(state).foreseen
    assert foreseen is not None
    (tried, *_) = foreseen.groups.values()
    assert (tried.start, tried.victims, tried.victims_again) == ((4, 30, (5, 6)), (7, 31, (8, 9)), 10)


def test_the_limit_of_loans_and_whom_others_left_a_lease_for_come_back() -> None:
    core = Scheduler.restore(next(kept["state"] for kept in STATES if kept["state"]["lending"]["leases"]))
    core.pool.limit.ended(1_000, loan=True, again=True)
    lease = next(iter(core.pool.leases.values()))
    lease.workload.awaited[lease.node] = 7
    twin = sent_away(core)
    assert vars(twin.pool.limit) == vars(core.pool.limit) != vars(LoanLimit())
    assert twin.pool.leases[lease.id].workload.awaited == {lease.node: 7}


def test_a_state_of_version_3_is_converted() -> None:
    state = next(kept["state"] for kept in STATES if kept["state"]["attempts"])
    old = {**state, "version": 3, "outbox": [{"type": "Stop", "attempt": state["attempts"][0]["id"]}]}
    del old["units_in_doubt"], old["to_stop"]
    assert Scheduler.restore(old).books.to_stop == {state["attempts"][0]["id"]: state["now"]}


@pytest.mark.parametrize("version", [2, VERSION + 1, None])
def test_a_state_of_another_version_is_refused(version: int | None) -> None:
    with pytest.raises(ValueError, match=f"a state of version {version} cannot be restored, only versions 3 to 5"):
        Scheduler.restore({**STATES[0]["state"], "version": version})
    with pytest.raises(ValueError, match=f"a state of version {version} cannot be restored, only versions 3 to 5"):
        Scheduler.restore(encoded({**STATES[0]["state"], "version": version}))


def encoded(state: Any) -> msgspec.Raw:
    """A state as a snapshot contains it."""
    return msgspec.Raw(msgspec.msgpack.encode(state))


@pytest.mark.parametrize("kept", STATES, ids=lambda kept: kept["seed"])
def test_an_encoded_state_is_read_like_plain_data(kept: dict[str, Any]) -> None:
    state = state_of(kept["state"])
    assert state_of(encoded(kept["state"])) == state
    assert state_of(encoded(state)) == state
    assert state_of(encoded({**msgspec.to_builtins(state), "of a newer release": 1})) == state


@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_without_what_is_only_foreseen_all_that_is_promised_stays(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting, check=False).play(story)
    state = player.core.export()
    state.foreseen = None
    core = Scheduler.restore(state)
    assert promised_state(core) == promised_state(player.core)
    core.decide(core.now)
    assert core.validate() == []


def test_two_schedulers_restored_from_one_state_share_nothing() -> None:
    world = World(group("etl", 4), nodes=[node("n1").cpu(2)])
    world.submit(job("copy").tasks(5).group("etl")).decide()
    world.finish("copy", outcome=Outcome.FAILED, again=True, decide=False)
    state = world.core.export()
    text = msgspec.msgpack.encode(state)
    first = Scheduler.restore(state)
    second = Scheduler.restore(state)
    assert first.decide(0) == second.decide(0)
    assert msgspec.msgpack.encode(state) == text


def test_what_would_be_preempted_is_not_told_again_after_a_restore() -> None:
    world = World(group("small", 4), group("large", 4), nodes=[node("n1").cpu(8)], preemption="observe")
    world.run(job("fill").cpu(2).tasks(4).group("large"))
    world.submit(job("late").cpu(4).group("small")).decide()
    world.decide()
    core = world.apart()
    twin = sent_away(core)
    for later in range(1, 4):
        assert twin.decide(later) == core.decide(later)
