"""What always holds of leases and loans, in random stories in which workloads keep leases and lend (design note
0024).
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cress.model.decisions import Claim, LeaseReduced, Start
from cress.model.times import SECOND
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
from tests.core.test_facts import Followed
from tests.examples import examples, usual

# Whether a node is busy depends on what is held there, of which the account of the stories knows only tasks.
LENDING = {
    "fragments": True,
    "lending": "on",
    "lease_idle": 30 * SECOND,
    "min_fragment": 0.5,
    "limits": "all",
    "overload_memory": 0,
    "overload_cpu": 0.0,
}
EVERYTHING = {**EVERYTHING, "use": 5}
CONSTRAINED = {**CONSTRAINED, "use": 5}
PLACED = {**PLACED, "use": 5}


@examples(4)
@given(settings_of_any_kind(**LENDING), operations(EVERYTHING))
def test_whatever_happens_every_invariant_holds(setting: Setting, story: list[Operation]) -> None:
    Player(setting).play(story)


# Each costs four times as much as others, and what it checks is checked without loans too.
@examples(4)
@given(settings_of_any_kind(**LENDING, constrained=True, placed=True), operations(PLACED))
def test_with_constraints_and_devices_too(setting: Setting, story: list[Operation]) -> None:
    Player(setting).play(story)


@examples(5)
@given(settings_of_any_kind(**LENDING), operations(EVERYTHING), st.booleans())
def test_restored_at_any_moment_it_goes_on_alike(setting: Setting, story: list[Operation], often: bool) -> None:
    player = Player(setting, check=False)
    for number, operation in enumerate(story):
        if often or number == len(story) // 2:
            player.add_twin()
        player.play([operation])


@examples(7)
@given(settings_of_any_kind(**LENDING, constrained=True), operations(CONSTRAINED))
def test_a_follower_is_in_the_same_state(setting: Setting, story: list[Operation]) -> None:
    Followed(setting).play(story)


def test_long_stories_come_by_everything() -> None:
    seen: Counter[str] = Counter()
    wanted = ("taken", "left", "brought", "returned")
    # On a push, a story that is known to come by all of it.
    for seed in usual((7,), tuple(range(40))):
        player = Player(seeded_setting(seed, **LENDING), check=False)
        for each in player.play(seeded_operations(seed, usual(100, 250), EVERYTHING)).decisions:
            if isinstance(each, Start):
                seen["taken"] += bool(each.parts)
                seen["left"] += bool(each.rest)
            seen["brought"] += isinstance(each, Claim) and bool(each.leased)
            seen["returned"] += isinstance(each, LeaseReduced)
        if min(seen[name] for name in wanted) >= 3:
            break
    assert min(seen[name] for name in wanted) >= usual(1, 3), seen
