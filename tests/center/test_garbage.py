"""Garbage collection in small parts: a full collection looks only at what is newer than the one before."""

from __future__ import annotations

import gc
import weakref

import pytest

from cress.center.process import garbage
from cress.center.process.garbage import FEW, OFTEN, SELDOM, Collector


class Circle:
    def __init__(self) -> None:
        self.itself = self


def test_what_has_survived_is_not_looked_at_again() -> None:
    kept = [[number] for number in range(1_000)]
    with Collector():
        before = gc.get_freeze_count()
        more = [[number] for number in range(1_000)]
        gc.collect()
        assert gc.get_freeze_count() >= before + 1_000
        # Neither the state nor what came later: the collector has next to nothing left to look at.
        assert len(gc.get_objects(generation=2)) < 1_000
    assert gc.get_freeze_count() == 0
    assert len(kept) == len(more)


def test_a_collection_of_the_oldest_objects_looks_at_few_of_them() -> None:
    looked_at: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            looked_at.append(len(gc.get_objects(generation=1)) + len(gc.get_objects(generation=2)))

    before = [[number] for number in range(300_000)]
    with Collector():
        gc.callbacks.append(look)
        kept = [[number] for number in range(200_000)]
        gc.callbacks.remove(look)
    assert len(looked_at) > 5, "they are many and small"
    assert max(looked_at) < 30_000
    assert len(before) > len(kept)


def test_circles_are_collected_while_they_are_new() -> None:
    with Collector():
        gone = weakref.ref(Circle())
        gc.collect()
        assert gone() is None


def test_circles_of_old_objects_are_collected_every_hour_or_every_day(monkeypatch: pytest.MonkeyPatch) -> None:
    for most, hours in ((FEW * 100, 1), (0, int(SELDOM / OFTEN))):
        monkeypatch.setattr(garbage, "FEW", most)
        with Collector() as collector:
            circle = Circle()
            gone = weakref.ref(circle)
            gc.collect()
            del circle
            for _ in range(hours):
                assert gone() is not None
                collector.hour_over()
            assert gone() is None
