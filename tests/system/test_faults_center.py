"""kill -9 of the center, again and again, while jobs come in: nothing that was promised is lost, nothing runs twice."""

from __future__ import annotations

import random
import time

import pytest

from tests.system.cluster import PATIENCE, Cluster, wait_until
from tests.system.streams import Submits, noted

# Seconds from the start of the program to the first new task; a quiet machine needs one (see the benchmark).
SOON = 90.0


def kill_again_and_again(cluster: Cluster, times: int, seed: int) -> None:
    moments = random.Random(seed)
    script = 'echo "$CRESS_JOB_NAME $CRESS_ATTEMPT" >> ran; exec sleep 1000'
    with cluster.client() as client:
        job = {"command": script, "name": "keeps", "directory": str(cluster.folder), "tasks": 2, "resource": "<1, 1M>"}
        stays = client.submit([job]).jobs[0].id
        wait_until(lambda: noted(cluster.folder)["keeps"] == 2, "the tasks that are to stay")
        # The center hears of it a moment later.
        wait_until(lambda: {task.state for task in client.tasks(stays).tasks} == {"running"}, "the reports of both")
        before = client.tasks(stays).tasks
    with Submits(cluster) as submits:
        submits.wait_for_new()
        for _ in range(times):
            # Anywhere between two commits, in one, before or behind an answer.
            time.sleep(moments.uniform(0, 0.1))
            cluster.kill_center()
            begin = time.monotonic()
            cluster.start_center()
            submits.wait_for_new()
            assert time.monotonic() - begin < SOON
    submits.settle()

    ran = noted(cluster.folder)
    assert len(submits.acknowledged) > times
    lost = [name for name in submits.acknowledged if not ran[name]]
    twice = [name for name, count in ran.items() if count > 1 and name != "keeps"]
    assert (lost, twice) == ([], [])
    with cluster.client() as client:
        assert {client.job(id).state for id in list(submits.acknowledged.values())[-50:]} == {"succeeded"}
        # The same attempts, and no others, with the times that they had.
        assert [(task.state, len(task.attempts)) for task in before] == [("running", 1)] * 2
        assert client.tasks(stays).tasks == before
        client.cancel(stays)
        wait_until(lambda: client.job(stays).state == "cancelled", "the end of what stayed", PATIENCE)


def test_kills_at_random_moments_lose_nothing_and_run_nothing_twice(own: Cluster) -> None:
    kill_again_and_again(own, 6, seed=4)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_hundred_kills_lose_nothing_and_run_nothing_twice(own: Cluster) -> None:
    kill_again_and_again(own, 200, seed=200)
