"""kill -9 of agents, supervisors, tasks, and of everything at once: what runs goes on, and an end is known."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from cress.client import Client
from cress.client import TaskView as Task
from cress.executor.processes import is_alive
from tests.system.cluster import Cluster, wait_until
from tests.system.streams import Submits, noted

# Two runs of one task at the same time write down that they met.
ALONE = 'exec 9>lock.$CRESS_JOB_NAME; flock -n 9 || echo "$CRESS_JOB_NAME" >> met; '
NOTED = 'echo "$CRESS_JOB_NAME $CRESS_ATTEMPT" >> ran; echo $$ > pid.$CRESS_JOB_NAME; '


def submit(client: Client, cluster: Cluster, name: str, script: str, **more: object) -> int:
    job = {"command": ALONE + NOTED + script, "name": name, "directory": str(cluster.folder), "resource": "<0.1, 1M>"}
    return client.submit([job | more]).jobs[0].id


def pid_of(cluster: Cluster, name: str) -> int:
    """The first process of a job's task, once it runs."""
    path = cluster.folder / f"pid.{name}"
    wait_until(lambda: path.exists() and path.read_text().strip(), f"a process of {name}")
    return int(path.read_text())


def task_of(client: Client, job: int) -> Task:
    (task,) = client.tasks(job).tasks
    return task


def wait_for(path: str, then: str) -> str:
    return f"until [ -e {path} ]; do sleep 0.02; done; {then}"


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), f"the end of process {pid}")


def kill_agent(cluster: Cluster) -> None:
    agent = cluster.executors["n1"]
    agent.kill()
    agent.wait()


def is_away(client: Client) -> bool:
    return client.nodes()[0].state == "away"


def test_a_killed_agent_leaves_its_tasks_alone_and_the_next_one_knows_how_they_ended(own: Cluster) -> None:
    with own.client() as client:
        runs = submit(client, own, "runs", wait_for("go", "exit 3"))
        ends = submit(client, own, "ends", wait_for("now", "exit 7"))
        pid = pid_of(own, "runs")
        ending = pid_of(own, "ends")
        wait_until(lambda: task_of(client, runs).state == task_of(client, ends).state == "running", "both running")
        kill_agent(own)
        wait_until(lambda: is_away(client), "the node being away")
        (own.folder / "now").touch()
        wait_until(lambda: not is_alive(ending), "the end of a task while its agent is gone")
        assert task_of(client, ends).state == "running"  # as far as anybody can tell
        own.start_executor()
        assert client.job(ends, wait=60).state == "failed"
        assert [attempt.code for attempt in task_of(client, ends).attempts] == [7]
        assert is_alive(pid)
        (own.folder / "go").touch()
        assert client.job(runs, wait=60).state == "failed"
        assert [attempt.code for attempt in task_of(client, runs).attempts] == [3]
    assert noted(own.folder) == {"runs": 1, "ends": 1}


def test_a_killed_supervisor_leaves_its_tasks_alone_and_their_ends_are_known(own: Cluster) -> None:
    with own.client() as client:
        job = submit(client, own, "seen", wait_for("go", "exit 0"))
        waits = submit(client, own, "waits", "exec sleep 1000", time_limit="1h")
        pid, other = pid_of(own, "seen"), pid_of(own, "waits")
        wait_until(lambda: task_of(client, job).state == "running", "the start being known")
        first = own.supervisor()
        kill(first)
        wait_until(lambda: own.supervisor() != first and not is_away(client), "another supervisor")
        assert is_alive(pid)
        # What runs is stopped as before.
        client.cancel(waits)
        assert client.job(waits, wait=60).state == "cancelled"
        assert not is_alive(other)
        (own.folder / "go").touch()
        assert client.job(job, wait=60).state == "succeeded"
        (once,) = task_of(client, job).attempts
    assert (once.outcome, once.code) == ("succeeded", 0)
    assert noted(own.folder)["seen"] == 1


def test_a_task_that_ended_while_neither_agent_nor_supervisor_lived_has_ended_as_it_did(own: Cluster) -> None:
    with own.client() as client:
        job = submit(client, own, "alone", wait_for("go", "exit 0"))
        pid = pid_of(own, "alone")
        wait_until(lambda: task_of(client, job).state == "running", "the start being known")
        kill_agent(own)
        kill(own.supervisor())
        (own.folder / "go").touch()
        wait_until(lambda: not is_alive(pid), "the end that only a reaper sees")
        own.start_executor()
        assert client.job(job, wait=60).state == "succeeded"
        attempts = task_of(client, job).attempts
    assert [(attempt.outcome, attempt.code) for attempt in attempts] == [("succeeded", 0)]
    assert noted(own.folder)["alone"] == 1


def test_a_killed_shell_is_the_end_of_its_task_and_of_what_it_started(own: Cluster) -> None:
    with own.client() as client:
        job = submit(client, own, "shell", "sleep 1000 & echo $! > child; setsid sleep 1000 & echo $! > far; wait")
        shell = pid_of(own, "shell")
        wait_until(lambda: (own.folder / "far").exists() and (own.folder / "far").read_text(), "its children")
        left = [int((own.folder / name).read_text()) for name in ("child", "far")]
        assert all(map(is_alive, left))
        kill(shell)
        assert client.job(job, wait=60).state == "failed"
        # Its end is told when everything of it is gone.
        assert [is_alive(pid) for pid in left] == [False, False]
        assert [attempt.code for attempt in task_of(client, job).attempts] == [-9]
    assert noted(own.folder)["shell"] == 1


# --- everything at once -----------------------------------------------------------------------------------------------


def up(cluster: Cluster) -> None:
    cluster.center = cluster.start(
        "up", "--port", "0", "--executors", "2", "--node-resource", "<8, 8G>", log=(log := f"up.{time.monotonic_ns()}")
    )
    ended = cluster.center
    wait_until(lambda: "Cress is up" in cluster.log(log) or ended.poll() is not None, "cress up")
    assert ended.poll() is None, cluster.log(log)


def kill_everything(cluster: Cluster, times: int, seed: int) -> None:
    moments = random.Random(seed)
    acknowledged: dict[str, int] = {}
    up(cluster)
    with cluster.client() as client:
        stays = submit(client, cluster, "keeps", wait_for("go", ""))
        pid_of(cluster, "keeps")
    for turn in range(times):
        with Submits(cluster, first=1 + 10_000 * turn, script=ALONE) as submits:
            submits.wait_for_new()
            time.sleep(moments.uniform(0, 0.2))
            cluster.kill_everything()
        acknowledged |= submits.acknowledged
        up(cluster)
    (cluster.folder / "go").touch()
    with Submits(cluster, first=1 + 10_000 * times) as submits:
        submits.wait_for_new()
    submits.settle()
    with cluster.client() as client:
        assert client.job(stays, wait=60).state == "succeeded"
        wait_until(lambda: not client.state().tasks_running, "the last end")
        assert {client.job(id).state for id in acknowledged.values()} == {"succeeded"}
    ran = noted(cluster.folder)
    assert [name for name in acknowledged if not ran[name]] == []
    assert not (cluster.folder / "met").exists(), (cluster.folder / "met").read_text()
    lines = (cluster.folder / "ran").read_text().splitlines()
    assert len(set(lines)) == len(lines)  # no attempt was started twice


def test_everything_is_killed_at_once_and_everything_ends(bare: Cluster) -> None:
    kill_everything(bare, 3, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_everything_is_killed_at_once_again_and_again(bare: Cluster) -> None:
    kill_everything(bare, 25, seed=2)


def test_a_supervisor_that_dies_while_tasks_start_loses_none_and_starts_none_twice(own: Cluster) -> None:
    moments = random.Random(3)
    with Submits(own, script=ALONE) as submits:
        for _ in range(5):
            submits.wait_for_new()
            time.sleep(moments.uniform(0, 0.1))
            before = own.supervisor()
            kill(before)
            wait_until(lambda before=before: own.supervisor() != before, "another supervisor")  # type: ignore[misc]
    submits.settle()
    ran = noted(own.folder)
    assert [name for name in submits.acknowledged if not ran[name]] == []
    assert not (own.folder / "met").exists()
    lines = (Path(own.folder) / "ran").read_text().splitlines()
    assert len(set(lines)) == len(lines)
