"""A unit that failed to start is tried again only when something was loosened (``cluster.loosened``): a scheduler that
forgets before each pass what failed must decide the same. Else a change that lets a unit fit was not raised.
"""

from __future__ import annotations

from hypothesis import given

from cress.core.scheduler import Scheduler
from cress.model.decisions import Decisions
from cress.model.events import NodeChanged
from tests.core.settings import (
    ADVANCE,
    EVERYTHING,
    Operation,
    Setting,
    operations,
    seeded_operations,
    seeded_setting,
    settings_of_any_kind,
)
from tests.core.stories import Player, replay


class Forgetful(Scheduler):
    """A scheduler that keeps no failure until the next call."""

    def decide(self, now: int, budget: int = 2**31) -> Decisions:
        self.cluster.loosened += 1
        return super().decide(now, budget)


def forgetful(setting: Setting) -> Scheduler:
    core = setting.make()
    core.__class__ = Forgetful
    return core


@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_every_change_that_may_let_a_unit_fit_is_raised(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting, check=False).play(story)
    assert replay(forgetful(setting), player.calls) == player.answers


@given(setting=settings_of_any_kind(), story=operations(ADVANCE))
def test_and_so_is_every_change_of_an_advance_reservation(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting, check=False).play(story)
    assert replay(forgetful(setting), player.calls) == player.answers


def test_a_fact_that_is_not_raised_is_noticed() -> None:
    setting = seeded_setting(0)
    calls = Player(setting, check=False).play(seeded_operations(0, 100, ADVANCE)).calls
    core = setting.make()
    apply, loosens = core.ledger._appliers[NodeChanged]
    assert loosens
    core.ledger._appliers[NodeChanged] = apply, False
    assert replay(core, calls) != replay(forgetful(setting), calls)
