"""A data directory that was replaced by an older copy of itself: the executors know better, and both ways out work."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cress.client import NotFound
from tests.system.cluster import Cluster, wait_until


def start(cluster: Cluster) -> str:
    """Start the center where its executor looks for it, which ends it; return what it said."""
    done = cluster.refused_center()
    assert done.returncode == 1, done.stderr
    return done.stderr


def run(cluster: Cluster, number: int) -> tuple[int, int]:
    """Run this many jobs to their ends; return the last ids of a job and of an attempt."""
    with cluster.client() as client:
        ids = [job.id for job in client.submit([{"command": "true"} for _ in range(number)]).jobs]
        for job in ids:
            assert client.job(job, wait=60).state == "succeeded"
        return ids[-1], max(task.attempts[0].id for job in ids for task in client.tasks(job).tasks)


@pytest.fixture
def older(bare: Cluster) -> Cluster:
    """A killed cluster of which an older copy of the directory lies beside it; its executor keeps running."""
    bare.start_center()
    # Not in the center's directory, where it would be rolled back too.
    bare.start_executor("n1", "<4, 8G>", "--data", str(bare.folder / "node"))
    run(bare, 3)
    bare.kill_center()
    shutil.copytree(bare.data, bare.folder / "copy", ignore=shutil.ignore_patterns("*.sock"))
    bare.start_center()
    run(bare, 5)
    return bare


def roll_back(cluster: Cluster) -> Path:
    """Kill the center and give it the older copy; return the newer directory."""
    cluster.kill_center()
    newer = cluster.folder / "newer"
    cluster.data.rename(newer)
    shutil.copytree(cluster.folder / "copy", cluster.data)
    return newer


def test_a_directory_rolled_back_is_refused_and_the_newer_one_goes_on(older: Cluster) -> None:
    last, _ = run(older, 1)
    newer = roll_back(older)
    done = older.cress("store", "check")
    assert (done.returncode, done.stdout.endswith("all is well\n")) == (0, True)  # nothing in it says otherwise
    for _ in range(2):
        told = start(older)
        assert "is older than its cluster: the executor of node n1" in told
        assert f"cress store accept-loss --data {older.data}" in told
    done = older.cress("store", "check")
    assert (done.returncode, "is older than its cluster" in done.stderr) == (1, True)
    shutil.rmtree(older.data)
    newer.rename(older.data)
    older.start_center()
    with older.client() as client:
        wait_until(lambda: client.nodes()[0].state == "up", "the node being back")
        assert client.job(last).state == "succeeded"
    assert run(older, 1)[0] == last + 1


def test_an_accepted_loss_gives_no_number_twice(older: Cluster) -> None:
    job, attempt = run(older, 4)
    roll_back(older)
    done = older.cress("store", "accept-loss")
    assert (done.returncode, "no loss to accept" in done.stderr) == (2, True)
    start(older)
    done = older.cress("store", "accept-loss")
    assert (done.returncode, done.stderr) == (0, "")
    done = older.cress("store", "check")
    assert (done.returncode, done.stderr) == (0, "")
    older.start_center()
    with older.client() as client:
        wait_until(lambda: client.nodes()[0].state == "up", "the node being back")
    new_job, new_attempt = run(older, 1)
    assert new_job > job
    assert new_attempt > attempt
    with older.client() as client, pytest.raises(NotFound, match=rf"ids \d+ to {new_job - 1} were skipped"):
        client.job(new_job - 1)
    # A later start has nothing to refuse either.
    older.kill_center()
    older.start_center()
    with older.client() as client:
        wait_until(lambda: client.nodes()[0].state == "up", "the node being back")
