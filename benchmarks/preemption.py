"""Preemption between saturated groups: what it takes, and what is taken back, in random worlds played to their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from benchmarks.result import Result
from tests.core.test_deep_worlds import deep_play
from tests.core.test_undone import any_play, random_play

WORLDS = 300
KINDS = {
    "groups with units that do not divide quotas": random_play,
    "all policies and options": any_play,
    "trees, kinds and vectors": deep_play,
}


def results() -> Iterator[Result]:
    """Yield the figures, which do not depend on the machine."""
    for name, made in KINDS.items():
        plays = [made(seed).play() for seed in range(WORLDS)]
        preempted = sum(len(play.preempted) for play in plays)
        undone = sum((play.undone for play in plays), Counter[str]())
        lost, done = sum(play.lost for play in plays), sum(play.done for play in plays)
        where = f"{WORLDS} worlds, {name}"
        yield Result(f"preemptions per world: {name}", preempted / WORLDS, "tasks", note=where)
        yield Result(
            f"preemptions that undo a decision: {name}",
            1000 * undone.total() / max(1, preempted),
            "per 1,000",
            goal=5,
            note=", ".join(f"{count} {kind}" for kind, count in sorted(undone.items())) or "none",
        )
        waits = [wait for play in plays for wait in play.waits]
        yield Result(
            f"mean wait: {name}", sum(waits) / max(1, len(waits)), "s", note="of each task, for its first start"
        )
        yield Result(f"work lost: {name}", 100 * lost / done, "%", note="of the work that was done")
