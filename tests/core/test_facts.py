"""Placement is a fact: a scheduler that only applies the facts of another one is in the same state."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from cress.model.decisions import Claim, ClaimDropped, Decision, Start, Stop
from cress.model.events import Event
from tests.core.builders import World, group, job, node, nodes
from tests.core.promises import promised_state
from tests.core.settings import (
    CONSTRAINED,
    EVERYTHING,
    PLACED,
    Operation,
    Setting,
    operations,
    seeded_operations,
    seeded_setting,
    settings_of_any_kind,
)
from tests.core.stories import Player
from tests.examples import examples
from tests.later_checks import is_checked


class Followed:
    """A player whose scheduler another one follows by facts alone."""

    def __init__(self, setting: Setting) -> None:
        self.player = Player(setting, check=False)
        self.follower = setting.make()
        self.seen: Counter[type[Any]] = Counter()
        self._known = 0

    def play(self, story: list[Operation]) -> None:
        """Play a story; after its operations and at its end, both are in the same state."""
        for number, operation in enumerate(story, 1):
            self.player.play([operation])
            new = range(self._known, len(self.player.calls))
            for i in new:
                now, events = self.player.calls[i]
                facts: list[Event | Decision] = [*events, *self.player.answers[i]]
                self.seen.update(type(fact) for fact in facts)
                self.follower.apply(now, facts)
            self._known = len(self.player.calls)
            if is_checked(number) or number == len(story):
                assert promised_state(self.follower) == promised_state(self.player.core), operation
                assert self.follower.validate() == []

    def take_over(self, story: list[Operation]) -> None:
        """Let the follower go on alone, checked after every call."""
        self.player.core = self.follower
        self.player.check = True
        self.player.decide()
        self.player.play(story)


KINDS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "everything": ({}, EVERYTHING),
    "constrained": ({"constrained": True}, CONSTRAINED),
    "placed": ({"constrained": True, "placed": True}, PLACED),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_a_follower_is_in_the_same_state_and_goes_on(kind: str, seed: int) -> None:
    fixed, weights = KINDS[kind]
    followed = Followed(seeded_setting(seed, **fixed))
    followed.play(seeded_operations(seed, 60, weights))
    followed.take_over(seeded_operations(100 + seed, 30, weights))


@examples(4)
@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_a_follower_of_any_story_is_in_the_same_state(setting: Setting, story: list[Operation]) -> None:
    Followed(setting).play(story)


def test_worlds_have_facts_of_every_kind() -> None:
    """Worlds compare themselves with a follower after every call; these come by the rarer facts."""
    world = World(group("a", 4), group("b", 4), nodes=nodes(2, cpu=4))
    world.run(job("fill").tasks(8).group("b"))
    world.submit(job("late").cpu(4).group("a")).decide()
    assert any(isinstance(each, Claim) for each in world.decisions)
    world.yield_victims()
    assert next(each for each in world.decisions if isinstance(each, Start) and each.claimed).job == world.ids["late"]
    world.cancel("fill").decide()
    assert any(isinstance(each, Stop) and each.end > world.now for each in world.decisions)


def test_a_claim_whose_devices_are_lost_is_dropped_by_a_fact() -> None:
    world = World(group("a", 4), group("b", 4), nodes=[node("n1").cpu(8).where(SSD=True)])
    world.run(job("fill").tasks(8).group("b"))
    world.submit(job("late").cpu(2).group("a").requires("SSD = True")).decide()
    assert any(isinstance(each, Claim) for each in world.decisions)
    world.change_node(node("n1").cpu(8).where(SSD=False))
    world.yield_victims()
    assert any(isinstance(each, ClaimDropped) for each in world.decisions)


def test_a_fact_that_contradicts_the_state_is_refused() -> None:
    follower = Setting().make()
    with pytest.raises(ValueError, match="contradicts the state"):
        follower.apply(1, [Start(1, 7, 0, "n1")])
