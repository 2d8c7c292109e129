"""Programs that are started by their files alone, and a user who names the cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_ports
from tests.system.cluster import Cluster, wait_until


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    started = Cluster()
    try:
        yield started
    finally:
        started.stop()


@pytest.mark.long
def test_center_executor_and_user_are_configured_by_files(cluster: Cluster, tmp_path: Path) -> None:
    ports = free_ports(2)
    del cluster.environment["CRESS_DATA"]
    center, executor, home = tmp_path / "center.toml", tmp_path / "executor.toml", tmp_path / "home"
    center.write_text(f'data = "{cluster.data}"\nport = {ports[0]}\nexecutor-port = 1\noption = {{ grace = "9s" }}\n')
    executor.write_text(
        f'center = ["ws://127.0.0.1:{ports[1]}"]\nname = "n1"\nresource = "<4, 8G>"\nno-overload = true\n'
        f'no-discovery = true\ntoken-file = "{cluster.data}/token"\ndata = "{cluster.data}/executors/n1"\n'
        "[label]\nssd = true\n"
    )
    (home / "cress").mkdir(parents=True)
    (home / "cress/config.toml").write_text(
        f'[clusters.here]\nurl = "http://127.0.0.1:{ports[0]}"\ntoken-file = "{cluster.data}/token"\n'
    )
    cluster.environment |= {
        "CRESS_CENTER_CONFIG": str(center),
        "CRESS_CENTER_EXECUTOR_PORT": str(ports[1]),  # before the file
        "CRESS_EXECUTOR_CONFIG": str(executor),
        "XDG_CONFIG_HOME": str(home),
        "XDG_DATA_HOME": str(home),
    }
    cluster.center = cluster.start("center", log="center.log")
    wait_until((cluster.data / "center.json").exists, "the center's address")
    cluster.executors["n1"] = cluster.start("executor", log="n1.log")
    wait_until(lambda: "up" in cluster.cress("-C", "here", "nodes").stdout, "the node")
    done = cluster.cress("-C", "here", "run", "--require", "ssd == true", "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    assert cluster.cress("-C", "here", "config", "get", "grace").stdout == "9s\n"
    assert "no center runs on" in cluster.cress("nodes").stderr
    os.kill(cluster.agent("n1"), signal.SIGKILL)
    wait_until(
        lambda: cluster.cress("-C", "here", "run", "--", "true").returncode == 0, "a task after the agent's restart"
    )


def test_an_executor_accepts_and_repels_by_its_file(cluster: Cluster) -> None:
    file = cluster.file("n1.toml", 'accepts = "Job.CPU <= 1"\nrepel = ["slow"]\n')
    cluster.start_center()
    cluster.start_executor("n1", "<4, 8G>", "--config", str(file))
    outcomes = []
    for resource, tolerates in (("<1, 10M>", "slow"), ("<2, 10M>", "slow"), ("<1, 10M>", "fast")):
        cluster.file("job.yaml", f'command: "true"\nresource: {resource}\ntolerates: {tolerates}\n')
        done = cluster.cress("submit", "job.yaml", "--json")
        outcomes.append((done.returncode, done.stderr))
    with cluster.client() as client:
        assert client.job(1, wait=60).state == "succeeded"
    assert [code for code, _ in outcomes] == [0, 3, 3]
    assert "the condition of n1: Job.CPU <= 1" in outcomes[1][1]
    assert "slow" in outcomes[2][1]
