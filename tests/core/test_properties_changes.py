"""What always holds while submitted jobs are changed: in their queues, with running tasks, in other groups."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.core.settings import UPDATED, seeded_operations, seeded_setting
from tests.core.stories import Player, replay
from tests.examples import examples


@examples(4)
@given(seed=st.integers(0, 100_000))
def test_stories_in_which_jobs_are_changed(seed: int) -> None:
    Player(seeded_setting(seed)).play(seeded_operations(seed, 30, UPDATED))


def test_a_scheduler_that_hears_the_same_decides_the_same() -> None:
    player = Player(seeded_setting(3), check=False).play(seeded_operations(3, 60, UPDATED))
    twin = seeded_setting(3).make()
    assert replay(twin, player.calls) == player.answers
