"""Advance reservations in random stories: nobody else is in their room, none overlap, and every scheduler agrees at any
moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from cress.core.jobs import Attempt
from cress.core.kernels.holding import AMOUNTS, END
from cress.core.scheduler import Scheduler
from cress.model.advance import known
from cress.model.decisions import Decision, Start
from cress.model.job import JobType
from cress.model.times import SECOND
from tests.core.promises import promised_state
from tests.core.settings import (
    ADVANCE,
    KEPT,
    Operation,
    Setting,
    operations,
    seeded_operations,
    seeded_setting,
    settings_of_any_kind,
)
from tests.core.stories import Player
from tests.examples import examples

# The longest that a task may go on after its signal in these stories.
GRACE = 30 * SECOND


def times_of(core: Scheduler, name: str) -> list[tuple[int, int]]:
    """The times of a reservation on the clock of the core, counted again."""
    offset = core.groups.wall_offset
    spec = core.advance_reservations.by_name[name].spec
    if offset is None:
        return []
    zone = core.advance_reservations.zone_of(spec)
    return [(start - offset, end - offset) for start, end in known(spec, core.now + offset, zone)]


def room_of(core: Scheduler, name: str, f: int) -> np.ndarray[Any, Any]:
    """What a reservation has on a node by its own words."""
    spec = core.advance_reservations.by_name[name].spec
    capacity = np.array(core.cluster.specs[f].capacity)
    count = dict(spec.places).get(core.cluster.names[f], 0)
    if not count:
        return capacity * 0
    return capacity if not spec.amounts else np.minimum(np.array(spec.amounts) * count, capacity)


def held_by(core: Scheduler, f: int) -> list[tuple[Attempt, np.ndarray[Any, Any]]]:
    k = core.cluster.k_count
    # What ends at this moment is as good as gone.
    return [
        (each, core.cluster.leases[each.slot, AMOUNTS : AMOUNTS + k].copy())
        for each in core.attempts.values()
        if each.node == f and core.cluster.leases[each.slot, END] > core.now
    ]


class Watcher:
    """Looks at every decision of a player: at whom it lets start, and at who still holds what is reserved."""

    def __init__(self) -> None:
        # Since when each reservation is what it is.
        self.since: dict[str, tuple[object, int]] = {}

    def __call__(self, player: Player, decided: list[Decision]) -> Callable[[], None]:
        core = player.core
        for name, kept in core.advance_reservations.by_name.items():
            if self.since.get(name, (None, 0))[0] != kept.spec:
                self.since[name] = (kept.spec, core.now)
        started = [each.attempt for each in decided if isinstance(each, Start)]
        return lambda: self.check(core, started)

    def check(self, core: Scheduler, started: list[int]) -> None:
        for f in range(core.cluster.node_count):
            names = [
                name
                for name, kept in core.advance_reservations.by_name.items()
                if core.cluster.names[f] in kept.spec.nodes
            ]
            if not names or core.cluster.lost[f]:
                continue
            self.check_overlap(core, f, names)
            self.check_starts(core, f, names, started)
            self.check_room(core, f, names)

    def check_overlap(self, core: Scheduler, f: int, names: list[str]) -> None:
        capacity = np.array(core.cluster.specs[f].capacity)
        moments = {start for name in names for start, _ in times_of(core, name)}
        for moment in moments:
            there = [name for name in names if any(start <= moment < end for start, end in times_of(core, name))]
            assert np.all(sum(room_of(core, name, f) for name in there) <= capacity), there

    def check_starts(self, core: Scheduler, f: int, names: list[str], started: list[int]) -> None:
        """A task that has started ends before the room of others begins, or leaves them all of it."""
        for number in started:
            attempt = core.attempts.get(number)
            if attempt is None or attempt.node != f:
                continue
            # By an estimate if its group works with estimates.
            end = int(core.cluster.leases[attempt.slot, END])
            for name in names:
                spec = core.advance_reservations.by_name[name].spec
                if spec.group == attempt.job.group.name:
                    continue
                # A booking that is due begins in the next microsecond, so one that is over by then is over.
                times = times_of(core, name)
                meets = [start for start, stop in times if max(start, core.now + 1) < min(end, stop)]
                if meets:
                    left = np.array(core.cluster.specs[f].capacity) - room_of(core, name, f)
                    held = np.array(attempt.amounts)
                    assert np.all(held <= left), f"{attempt.job} meets {name}"

    def check_room(self, core: Scheduler, f: int, names: list[str]) -> None:
        """Once the grace is over, nobody but its group holds what is reserved."""
        active = []
        for name in names:
            for start, end in times_of(core, name):
                # One that is over in the next microsecond is over: what starts now meets nothing of it.
                if max(start, self.since[name][1]) + GRACE < core.now < end - 1:
                    active.append(name)
        groups = {core.advance_reservations.by_name[name].spec.group for name in active}
        used: dict[str, Any] = {}
        free = np.array(core.cluster.specs[f].capacity)
        for each, amounts in held_by(core, f):
            used[each.job.group.name] = used.get(each.job.group.name, 0) + amounts
            free = free - amounts
        need: Any = sum(
            (
                np.maximum(room_of(core, name, f) - used.get(core.advance_reservations.by_name[name].spec.group, 0), 0)
                for name in active
            ),
            0 * free,
        )
        others = [each for each, _ in held_by(core, f) if each.job.group.name not in groups]
        if others and any(each.job.job.type is JobType.DATABASE for each in others):
            return
        assert np.all(free >= need), f"{others} hold what {active} have on node {f}"


@examples(4)
@given(setting=settings_of_any_kind(overrun=False, order="share"), story=operations(KEPT))
def test_nobody_else_is_in_reserved_room(setting: Setting, story: list[Operation]) -> None:
    Player(setting, watch=Watcher()).play(story)


@examples(4)
@given(setting=settings_of_any_kind(), story=operations(ADVANCE), later=operations(ADVANCE, 10, 30))
def test_a_restored_scheduler_goes_on_alike(setting: Setting, story: list[Operation], later: list[Operation]) -> None:
    player = Player(setting, check=False).play(story)
    player.add_twin()
    player.play(later)


@examples(4)
@given(setting=settings_of_any_kind(), story=operations(ADVANCE))
def test_a_follower_by_facts_alone_agrees(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting, check=False).play(story)
    core, follower = setting.make(), setting.make()
    for now, events in player.calls:
        core.observe(now, events)
        follower.apply(now, events)
        more = True
        while more:
            decided = core.decide(now)
            more = decided.more
            follower.apply(now, decided.items)
            assert promised_state(follower) == promised_state(core)


@examples(4)
@given(setting=settings_of_any_kind(fragments=True), story=operations(ADVANCE))
def test_with_loans_too_all_invariants_hold(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting)
    player.check_vetoes = False
    player.play(story)
    player.add_twin()
    player.play(story[:10])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_long_stories(seed: int) -> None:
    player = Player(seeded_setting(seed, overrun=False, order="share"), watch=Watcher())
    player.play(seeded_operations(seed, 200, KEPT))
    player.add_twin()
    player.play(seeded_operations(seed + 100, 100, KEPT))
