"""The wall clock steps by an hour while things run: nothing that is a duration moves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.client import AttemptView, Client
from tests.system.cluster import Cluster, wait_until

HOUR = 3600
# Far more than anything here lasts on a busy machine, and far from an hour.
SOON = 90.0
PLACES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")


class Stepped(Cluster):
    """A cluster whose programs live under a wall clock that can be set; their other clocks are the true ones.

    Each look at a clock reads a file, which takes most of what such a program does; ``cached``: once in a second, so
    that a program that runs notices a step later than another.
    """

    def __init__(self, library: Path, *, cached: bool) -> None:
        super().__init__()
        self.offset = self.folder / "offset"
        self.set(0)
        self.environment |= {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self.offset),
            **({"FAKETIME_CACHE_DURATION": "1"} if cached else {"FAKETIME_NO_CACHE": "1"}),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, seconds: int) -> None:
        """Make the wall clock of every program of this cluster differ from the true one by so much, from now on."""
        fresh = self.offset.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.replace(self.offset)


@pytest.fixture
def stepped(request: pytest.FixtureRequest) -> Iterator[Stepped]:
    """A center and an executor under a wall clock of their own."""
    found = [path for place in PLACES for path in sorted(Path("/").glob(place[1:]))]
    if not found:
        pytest.skip("libfaketime is not installed (apt-get install faketime): steps of the wall clock were not shown")
    cluster = Stepped(found[0], cached=request.param)
    try:
        cluster.start_center("--option", "backoff_most=1h")
        cluster.start_executor()
        yield cluster
    finally:
        cluster.stop()


def off(client: Client) -> float:
    """By how much the center's wall clock differs from the true one, in seconds."""
    return client.state().now - time.time()


def attempts(client: Client, job: int) -> tuple[AttemptView, ...]:
    return client.tasks(job).tasks[0].attempts


@pytest.mark.parametrize("stepped", [False], indirect=True, ids=["at once"])
def test_an_hour_forth_and_two_back_move_no_duration(stepped: Stepped) -> None:
    directory = {"directory": str(stepped.folder), "resource": "<0.1, 1M>"}
    with stepped.client() as client:
        begin = time.monotonic()
        limited, stubborn, retried, steady = (
            submitted.id
            for submitted in client.submit(
                [
                    {"command": "sleep 1000", "time_limit": "4s", "name": "limited", **directory},
                    {
                        "command": "trap '' TERM; touch deaf; while :; do sleep 0.1; done",
                        "stop_grace": "4s",
                        "name": "stubborn",
                        **directory,
                    },
                    {
                        "command": "cut -d' ' -f1 /proc/uptime >> tries; false",
                        "retries": 1,
                        "backoff": "4s",
                        "name": "retried",
                        **directory,
                    },
                    {"command": "sleep 8", "name": "steady", **directory},
                ]
            ).jobs
        )
        wait_until(lambda: client.job(steady).started, "all four running")
        wait_until((stepped.folder / "deaf").exists, "a task that does not hear")
        # A report that is under way while the clock moves has times of the clock before.
        wait_until(lambda: attempts(client, retried)[0].ended, "the report of the first try")
        started = client.job(steady).started
        stepped.set(HOUR)
        cancelled = time.monotonic()
        client.cancel(stubborn)
        assert abs(off(client) - HOUR) < SOON
        waited = time.monotonic()
        state = client.job(steady, wait=1).state
        # On a busy machine it may be over by now.
        assert state == "running" or time.monotonic() - begin > 7
        assert (1 if state == "running" else 0) <= time.monotonic() - waited < SOON
        # What started is as old as it was, whatever the clock shows.
        moved = client.job(steady).started
        assert moved is not None
        assert started is not None
        assert abs(moved - started - HOUR) < 2
        stepped.set(-HOUR)
        assert abs(off(client) + HOUR) < SOON

        over: dict[int, float] = {}

        def settle() -> bool:
            for job in (limited, stubborn, retried, steady):
                if job not in over and client.job(job).ended is not None:
                    over[job] = time.monotonic()
            return len(over) == 4

        wait_until(settle, "the end of all four", SOON)
        # None before its time; an hour would have failed above.
        assert over[limited] - begin >= 4
        assert over[stubborn] - cancelled >= 4
        assert over[steady] - begin >= 8
        first, second = map(float, (stepped.folder / "tries").read_text().split())
        assert 4 <= second - first < SOON
        assert [client.job(job).state for job in (limited, stubborn, retried, steady)] == [
            "timed out",
            "cancelled",
            "failed",
            "succeeded",
        ]
        for job in (limited, stubborn, retried, steady):
            view = client.job(job)
            assert view.started is not None
            assert view.ended is not None
            # Times that are shown: by the clock as it is now, in their order, as far apart as they were.
            assert 0 <= view.started - view.submitted < SOON
            assert 0 <= view.ended - view.started < SOON
            assert all(
                attempt.ended is not None
                and attempt.started is not None
                and -2 < attempt.ended - attempt.started < SOON
                for attempt in attempts(client, job)
            )
        (last,) = attempts(client, steady)
        assert last.started is not None
        assert last.ended is not None
        assert 7 < last.ended - last.started < SOON

    done = stepped.cress("jobs", "--all")
    assert (done.returncode, done.stderr) == (0, "")
    listed = json.loads(stepped.cress("jobs", "--all", "--json").stdout)["jobs"]
    assert {job["name"] for job in listed} == {"limited", "stubborn", "retried", "steady"}


# The center is away while the clock moves.
@pytest.mark.parametrize("stepped", [True], indirect=True, ids=["within a second"])
def test_a_center_that_starts_again_under_another_clock_keeps_what_runs(stepped: Stepped) -> None:
    with stepped.client() as client:
        job = client.submit([{"command": "sleep 1000", "time_limit": "15s", "resource": "<1, 1M>"}]).jobs[0].id
        wait_until(lambda: client.job(job).started, "the task")
        begin = time.monotonic()
    stepped.kill_center()
    stepped.set(-HOUR)
    stepped.start_center()
    with stepped.client() as client:
        wait_until(lambda: client.nodes()[0].state == "up", "the node being back")
        # On a busy machine the limit may be over by now.
        assert client.job(job).state == "running" or time.monotonic() - begin > 12
        assert client.job(job, wait=15 + SOON).state == "timed out"
        assert 12 < time.monotonic() - begin < 15 + SOON
        (attempt,) = attempts(client, job)
        assert attempt.started is not None
        assert attempt.ended is not None
        assert 14 < attempt.ended - attempt.started < 15 + SOON
