"""The jobs A and B of source E (§2.3 to §3.4) as real processes: B goes where A runs, and both move together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ports import free_port
from tests.system.cluster import Cluster, wait_until

GOOD = {"OSKernel": "2.6.32", "Java": "1.7.0", "GCC": "4.8.5", "Disks": "2"}
JOB_A = """
Name: A
Command: [sleep, "600"]
Tasks: 2
Resource: <4,8G,500M,50M>
NetworkAdjacent: true
Requirement: <OSKernel >= 2.6.32&&Java > = 1.5>
Rank: <0.5 × CPU + 0.5 × IdleNetwork>
"""
JOB_B = """
Name: B
Command: [sleep, "600"]
Tasks: 2
Resource: <1,2G,100M,50M>
Port: {port}
ExclusiveDisk: True && f(x) = (Waittime > 5min)
JobDependency: DependedJob = A
Requirement: <GCC > = 4.5>
Rank: <CPU>
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    try:
        made.start_center()
        yield made
    finally:
        made.stop()


def _executor(cluster: Cluster, name: str, **other: str) -> None:
    labels = [each for key, value in (GOOD | other).items() for each in ("--label", f"{key}={value}")]
    cluster.start_executor(name, "<8,16G,1G,100M>", "--rack", "r1", *labels)


def _nodes(cluster: Cluster, name: str) -> list[str]:
    with cluster.client() as client:
        return sorted(place.node for place in client.resolve(name))


def test_a_and_b_live(cluster: Cluster) -> None:
    _executor(cluster, "e-1")
    _executor(cluster, "e-2")
    port = free_port()
    cluster.file("a.yaml", JOB_A)
    cluster.file("b.yaml", JOB_B.format(port=port))
    # B first: it waits for A, and says so. (v), before A's nodes are known
    assert cluster.cress("submit", "b.yaml").returncode == 0
    with cluster.client() as client:
        wait_until(lambda: client.job(1).reason, "a reason")
        b = client.job(1)
        assert "A" in b.reason
        hard = f"GCC >= 4.5 && Resource = <1,2G,100M,50M> && Port = {port} && ExclusiveDisk = True"
        assert b.requirement_now.startswith(hard), b.requirement_now
        assert b.rank_now == "CPU"
    # A as in (i), and B as in (vii).
    assert cluster.cress("submit", "a.yaml").returncode == 0
    wait_until(lambda: _nodes(cluster, "B") == ["e-1", "e-2"], "B beside A")
    # B starts where A was placed; what runs of A is told by its executors, maybe a moment later.
    wait_until(lambda: _nodes(cluster, "A") == ["e-1", "e-2"], "A itself")
    with cluster.client() as client:
        assert [place.ports for place in client.resolve("B")] == [{"port": port}] * 2
    # (viii): both of a node that is gone go to one that holds both; A alone could go to the old compiler.
    _executor(cluster, "old", GCC="4.1.2")
    _executor(cluster, "new")
    cluster.kill_executor("e-1")
    wait_until(lambda: _nodes(cluster, "B") == ["e-2", "new"], "B beside A, elsewhere")
    wait_until(lambda: _nodes(cluster, "A") == ["e-2", "new"], "A itself")
