"""What always holds, whatever happens: the core's own invariants, and a plain account kept beside it."""

from __future__ import annotations

from hypothesis import given

from tests.core.settings import EVERYTHING, Operation, Setting, operations, settings_of_any_kind
from tests.core.stories import Player
from tests.examples import examples


@examples(4)
@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_whatever_happens_every_invariant_holds(setting: Setting, story: list[Operation]) -> None:
    Player(setting).play(story)
