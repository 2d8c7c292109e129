"""The same calls give the same decisions: in another process, piece by piece, and under other names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cress.core.scheduler import Scheduler
from cress.model.options import Options
from cress.model.resources import Dimensions
from tests.core.settings import EVERYTHING, Operation, Setting, operations, settings_of_any_kind
from tests.core.stories import Player, replay

ROOT = Path(__file__).parents[2]

# Other names in the same order; the default group keeps its name and its place between them.
NAMES = {
    "batch": "accounts",
    "games": "east",
    "media": "zoo",
    "outer": "zz",
    "ann": "p",
    "bob": "q",
    "cid": "qq",
    "r1": "b",
    "r2": "c",
}

T = TypeVar("T")


def renamed(thing: T, kind: Any) -> T:
    """The same value with other names in it."""

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            if value[:1] == "n" and value[1:].isdigit():
                return f"host{value[1:]}.rack"
            return NAMES.get(value, value)
        if isinstance(value, dict):
            # The type "batch" and the group "batch" are two things.
            return {key: each if key in ("type", "policy", "options") else walk(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [walk(each) for each in value]
        return value

    plain = walk(msgspec.to_builtins(thing))
    made: T = msgspec.convert(plain, kind)
    return made


@given(setting=settings_of_any_kind(selective=False), story=operations(EVERYTHING))
def test_names_only_matter_by_their_order(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting, check=False).play(story)
    other = Scheduler(Dimensions(setting.custom), Options(**setting.options))
    first = setting.first_events()
    calls = [(0, first), *player.calls]
    answers = replay(other, [(now, [renamed(event, type(event)) for event in events]) for now, events in calls])
    assert answers[1:] == [[renamed(each, type(each)) for each in answer] for answer in player.answers]


@given(setting=settings_of_any_kind(), story=operations(EVERYTHING), budget=st.sampled_from((1, 2, 3)))
def test_a_small_budget_again_and_again_decides_the_same(setting: Setting, story: list[Operation], budget: int) -> None:
    player = Player(setting, check=False).play(story)
    assert replay(setting.make(), player.calls, budget) == player.answers


@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_the_same_calls_give_the_same_decisions(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting, check=False).play(story)
    assert replay(setting.make(), player.calls) == player.answers


def test_the_order_of_hashes_does_not_matter() -> None:
    program = "from tests.core.stories import digest; print(digest(range(4), 40))"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "4711")
    ]
    first, second = (process.communicate()[0] for process in running)
    assert len(first.strip()) == 64
    assert first == second
