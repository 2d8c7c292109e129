"""Thousands of histories in which things go wrong: no rule is broken, and everything settles."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import seed as seed_of_run
from tests.examples import usual
from tests.faults.history import play

ROOT = Path(__file__).parents[2]
CHUNK, CHUNKS = 15, 6
LONG_CHUNK, LONG_CHUNKS = 250, 40
SHARED_CHUNK, SHARED_CHUNKS = 100, 20


def check(first: int, count: int) -> None:
    for number in range(first, first + count):
        outcome = play(number)
        assert not outcome.violation, "\n" + outcome.story()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_90_histories(chunk: int) -> None:
    """Each source has others: 90 in a row of those of the long run."""
    rows = LONG_CHUNK * LONG_CHUNKS // (CHUNK * CHUNKS)
    check((seed_of_run() % rows * CHUNKS + chunk) * CHUNK, CHUNK)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(LONG_CHUNKS))
def test_10000_histories(chunk: int) -> None:
    check(chunk * LONG_CHUNK, LONG_CHUNK)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(SHARED_CHUNKS))
def test_2000_histories_of_several_centers(chunk: int) -> None:
    for number in range(chunk * SHARED_CHUNK, (chunk + 1) * SHARED_CHUNK):
        outcome = play(number, centers=2 + number % 2)
        assert not outcome.violation, "\n" + outcome.story()


def test_a_seed_gives_the_same_history_whatever_the_order_of_sets() -> None:
    program = "import sys; from tests.faults.history import play; print(play(int(sys.argv[1])).world.digest())"
    digests = {play(seed).world.digest() for seed in (7, 7)}
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", program, "7"]
        done = subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True)
        digests.add(done.stdout.strip())
    assert len(digests) == 1


def test_much_happens() -> None:
    """What is checked would be worth nothing if the histories were dull."""
    # On a push, histories that are known to come by all of it.
    played = [play(seed) for seed in usual((3, 11, 12, 24, 29, 35), tuple(range(40)))]
    clusters = [outcome.cluster for outcome in played if outcome.cluster is not None]
    attempts = [record for cluster in clusters for record in cluster.store.finished.values()]
    assert sum(cluster.truth.starts for cluster in clusters) > usual(50, 400)
    assert sum(cluster.centers for cluster in clusters) > usual(10, 100)
    outcomes = {record.outcome.value for record in attempts}
    assert outcomes == {"succeeded", "failed", "timed out", "cancelled", "preempted", "lost"}
    said = {str(part) for outcome in played for _, _, what in outcome.world.story for part in what}
    for sentence in (
        "loses power",
        "is killed",
        "hears nothing from the center",
        "does not lead any more",
        "its node was not heard from for longer than a term",
        "the machine was restarted",
    ):
        assert sentence in said | {record.error for record in attempts}, sentence


def test_a_history_can_be_read() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "3", "--centers", "1"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert lines[-1] == "seed 3: all is well"
    assert any("center 1" in line and "begins epoch" in line for line in lines)
