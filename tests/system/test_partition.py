"""Center and executor that cannot reach each other, as if on two machines: nothing runs twice, what may go on does."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.client import Client
from cress.executor.node_facts import PRETENDED_BOOT
from cress.executor.processes import is_alive
from tests.system.cluster import Cluster, wait_until

# Two runs of one task at the same time write down that they met.
SCRIPT = (
    'exec 9>lock.$CRESS_JOB_NAME; flock -n 9 || echo "$CRESS_JOB_NAME" >> met; '
    "echo $$ > pid.$CRESS_JOB_NAME.$CRESS_NODE; trap '' TERM; while :; do sleep 0.05; done"
)


@pytest.fixture
def far(bare: Cluster) -> Cluster:
    """A center and an executor, ``n1``, that seems to be on another machine; terms are short."""
    bare.environment[PRETENDED_BOOT] = "elsewhere"
    bare.start_center("--option", "term=3s", "--option", "term_margin=500ms")
    bare.start_executor()
    return bare


def submit(client: Client, cluster: Cluster, name: str, **more: str) -> int:
    job = {"command": SCRIPT, "name": name, "directory": str(cluster.folder), "resource": "<0.1, 1M>"}
    return client.submit([job | {"stop_grace": "200ms"} | more]).jobs[0].id


def pid_of(cluster: Cluster, name: str, node: str = "n1") -> int:
    path = cluster.folder / f"pid.{name}.{node}"
    wait_until(lambda: path.exists() and path.read_text().strip(), f"{name} on {node}")
    return int(path.read_text())


def attempts(client: Client, job: int) -> list[tuple[str, str]]:
    """Node and outcome of every attempt of the job's task."""
    return [(each.node, each.outcome) for each in client.tasks(job).tasks[0].attempts]


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that does nothing for a while: for the others a cut cable."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def never_met(cluster: Cluster) -> bool:
    return not Path(cluster.folder / "met").exists()


def test_an_executor_that_is_cut_off_stops_its_tasks_before_they_run_elsewhere(far: Cluster) -> None:
    with far.client() as client:
        moves, stays = submit(client, far, "moves"), submit(client, far, "stays", on_partition="keep")
        first, kept = pid_of(far, "moves"), pid_of(far, "stays")
        far.start_executor("n2")
        with stopped(far.agent()):
            wait_until(lambda: not is_alive(first), "the end of the task that stops")
            pid_of(far, "moves", "n2")
            assert attempts(client, stays) == [("n1", "running")]
            assert is_alive(kept)
        wait_until(lambda: client.node("n1").state == "up", "n1 being back")
        assert attempts(client, moves) == [("n1", "lost"), ("n2", "running")]
        assert attempts(client, stays) == [("n1", "running")]
        assert is_alive(kept)
    assert never_met(far)


@pytest.mark.long
def test_a_supervisor_that_is_stopped_together_with_its_agent_ends_its_tasks_in_time(bare: Cluster) -> None:
    bare.environment[PRETENDED_BOOT] = "elsewhere"
    bare.start_center("--option", "term=10s", "--option", "term_margin=1s")
    bare.start_executor()
    with bare.client() as client:
        moves = submit(client, bare, "moves")
        first = pid_of(bare, "moves")
        bare.start_executor("n2")
        with stopped(bare.agent()), stopped(bare.supervisor()):
            wait_until(lambda: not is_alive(first), "the end of the task")
            pid_of(bare, "moves", "n2")
        wait_until(lambda: client.node("n1").state == "up", "n1 being back")
        assert attempts(client, moves) == [("n1", "lost"), ("n2", "running")]
    assert never_met(bare)


def test_a_center_that_is_away_for_longer_than_a_term_finds_everything_in_order(far: Cluster) -> None:
    assert far.center is not None
    with far.client() as client:
        stops, stays = submit(client, far, "stops"), submit(client, far, "stays", on_partition="keep")
        first, kept = pid_of(far, "stops"), pid_of(far, "stays")
        wait_until(lambda: client.job(stops).state == client.job(stays).state == "running", "both running")
        with stopped(far.center.pid):
            wait_until(lambda: not is_alive(first), "the end of the task that stops")
            assert is_alive(kept)
        wait_until(lambda: attempts(client, stops) == [("n1", "lost"), ("n1", "running")], "another attempt")
        assert attempts(client, stays) == [("n1", "running")]
        assert is_alive(kept)
        ended = client.tasks(stops).tasks[0].attempts[0]
        assert "not heard from for" in ended.error
    assert never_met(far)


def test_a_center_that_is_away_for_less_is_noticed_by_no_task(bare: Cluster) -> None:
    bare.environment[PRETENDED_BOOT] = "elsewhere"
    bare.start_center()
    bare.start_executor()
    with bare.client() as client:
        job = submit(client, bare, "plain")
        pid = pid_of(bare, "plain")
        wait_until(lambda: client.job(job).state == "running", "the job running")
    bare.kill_center()
    bare.start_center()
    with bare.client() as client:
        wait_until(lambda: client.node("n1").state == "up", "n1 being back")
        assert attempts(client, job) == [("n1", "running")]
    assert is_alive(pid)


def test_a_dead_node_is_forgotten_by_an_operators_word(far: Cluster) -> None:
    with far.client() as client:
        job = submit(client, far, "waits", on_partition="keep")
        pid = pid_of(far, "waits")
        done = far.cress("nodes", "forget", "n1")
        assert (done.returncode, done.stdout) == (3, "")
        assert "node n1 is connected, so it cannot be declared dead" in done.stderr
        with stopped(far.agent()):
            wait_until(lambda: client.node("n1").state == "away", "n1 being away")
            done = far.cress("nodes", "forget", "n1")
            assert (done.returncode, done.stdout, done.stderr) == (0, "node n1 is forgotten; its task is lost\n", "")
            assert client.nodes() == ()
            assert attempts(client, job) == [("n1", "lost")]
        # It was not dead after all: what nobody counts on any more is stopped.
        wait_until(lambda: not is_alive(pid), "the end of the stray")
        wait_until(lambda: attempts(client, job) == [("n1", "lost"), ("n1", "running")], "another attempt")


def test_an_executor_of_the_same_machine_needs_no_center_and_is_lost_when_nothing_of_it_is_left(bare: Cluster) -> None:
    bare.start_center("--option", "term=1s", "--option", "term_margin=0")
    bare.start_executor()
    assert bare.center is not None
    with bare.client() as client:
        job = submit(client, bare, "local")
        pid = pid_of(bare, "local")
        wait_until(lambda: client.job(job).state == "running", "the job running")
        with stopped(bare.center.pid):
            time.sleep(2.5)
            assert is_alive(pid), "no term holds here"
        bare.executors["n1"].kill()
        bare.executors["n1"].wait()
        os.kill(bare.supervisor(), signal.SIGKILL)
        bare.start_executor("n2")
        time.sleep(7)
        assert attempts(client, job) == [("n1", "running")], "its task goes on"
        os.killpg(pid, signal.SIGKILL)
        wait_until(lambda: attempts(client, job) == [("n1", "lost"), ("n2", "running")], "another attempt")
        assert client.tasks(job).tasks[0].attempts[0].error == "its node is dead"
    assert never_met(bare)
