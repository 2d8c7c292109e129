"""A unit that failed to start is tried again only when something was loosened (``cluster.loosened``): a scheduler that
forgets before each pass what failed must decide the same. Else a change that lets a unit fit was not raised.
"""

from __future__ import annotations

import pytest

from cress.core.scheduler import Scheduler
from cress.model.decisions import Decisions
from cress.model.events import NodeChanged
from tests.core.settings import (
    ADVANCE,
    EVERYTHING,
    Setting,
    seeded_operations,
    seeded_setting,
)
from tests.core.stories import Player, replay
from tests.examples import usual


class Forgetful(Scheduler):
    """A scheduler that keeps no failure until the next call."""

    def decide(self, now: int, budget: int = 2**31) -> Decisions:
        self.cluster.loosened += 1
        return super().decide(now, budget)


def forgetful(setting: Setting) -> Scheduler:
    core = setting.make()
    core.__class__ = Forgetful
    return core


# What is loosened also makes reservations anew, which may come out otherwise where tasks outlive their estimates. So
# these are stories in which that makes no difference.
@pytest.mark.parametrize("kinds", [EVERYTHING, ADVANCE], ids=["everything", "advance reservations"])
def test_every_change_that_may_let_a_unit_fit_is_raised(kinds: dict[str, int]) -> None:
    for seed in range(usual(20, 60)):
        setting = seeded_setting(seed)
        player = Player(setting, check=False).play(seeded_operations(seed + 1_000_000, 50, kinds))
        assert replay(forgetful(setting), player.calls) == player.answers, f"story {seed}"


def test_a_fact_that_is_not_raised_is_noticed() -> None:
    setting = seeded_setting(0)
    calls = Player(setting, check=False).play(seeded_operations(0, 100, ADVANCE)).calls
    core = setting.make()
    apply, loosens = core.ledger._appliers[NodeChanged]
    assert loosens
    core.ledger._appliers[NodeChanged] = apply, False
    assert replay(core, calls) != replay(forgetful(setting), calls)
