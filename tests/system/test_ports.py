"""Ports on real machines: strangers are heeded, numbers differ, what turns out taken is tried again; gangs meet."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from cress.client import Client
from tests.ports import free_ports
from tests.system.cluster import Cluster, wait_until

# Tells its ports, binds all of them for real, and stays until it is told to go.
HOLD = """\
import os, socket, time
names = [name for name in os.environ if name.startswith("CRESS_PORT_")]
held = [socket.create_server(("127.0.0.1", int(os.environ[name]))) for name in sorted(names)]
with open("said", "a") as said:
    said.write(" ".join(str(each.getsockname()[1]) for each in held) + "\\n")
while not os.path.exists("go"):
    time.sleep(0.02)
"""

# Task 0 listens where all are told to meet, the others say who they are; every one checks what it was told.
MEET = """\
import os, socket, time
index, count = int(os.environ["CRESS_TASK_INDEX"]), int(os.environ["CRESS_TASK_COUNT"])
hosts = os.environ["CRESS_HOSTS"].split(",")
assert len(hosts) == count and hosts[index] == os.environ["CRESS_ADDRESS"], hosts
slots = [line.split(" slots=") for line in open(os.environ["CRESS_HOSTFILE"]).read().splitlines()]
assert sum(int(number) for _, number in slots) == count, slots
meeting = os.environ["CRESS_MASTER"], int(os.environ["CRESS_MASTER_PORT"])
if index == 0:
    assert meeting[1] == int(os.environ["CRESS_PORT"])
    with socket.create_server(meeting) as server:
        heard = set()
        while len(heard) < count - 1:
            with server.accept()[0] as other:
                heard.add(other.recv(10))
    open("met", "w").write(" ".join(sorted(each.decode() for each in heard)))
else:
    while True:
        try:
            with socket.create_connection(meeting, timeout=5) as there:
                there.sendall(b"%d" % index)
            break
        except OSError:
            time.sleep(0.05)
"""


@pytest.fixture
def stranger() -> Iterator[socket.socket]:
    """A port that somebody has who is not a task of the cluster; whether he listens is his matter."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


def program(cluster: Cluster, script: str, **more: object) -> dict[str, object]:
    file = cluster.file(f"{len(script)}.py", script)
    return {"command": ["python3", str(file)], "directory": str(cluster.folder), "resource": "<1, 100M>", **more}


def state(client: Client, job: int) -> str:
    return client.job(job).state


def test_a_stranger_keeps_a_fixed_port_from_the_cluster_until_he_is_gone(
    bare: Cluster, stranger: socket.socket
) -> None:
    stranger.listen()
    port = port_of(stranger)
    bare.start_center()
    bare.start_executor()
    with bare.client() as client:
        job = client.submit([program(bare, HOLD, ports={"web": port})]).jobs[0].id
        assert state(client, job) == "waiting"
        assert str(port) in client.job(job).reason
        stranger.close()
        wait_until((bare.folder / "said").exists, "its start")
        (bare.folder / "go").touch()
        assert client.job(job, wait=60).state == "succeeded"
        (task,) = client.tasks(job).tasks
        assert [attempt.outcome for attempt in task.attempts] == ["succeeded"], "it was never placed in vain"
    assert int((bare.folder / "said").read_text()) == port


def test_dynamic_ports_differ_and_can_be_bound(bare: Cluster) -> None:
    first = free_ports(20)[0]
    bare.start_center()
    bare.start_executor("n1", "<8, 8G>", "--ports", f"{first}-{first + 19}")
    with bare.client() as client:
        wish = {"admin": "dynamic", "http": "dynamic"}
        job = client.submit([program(bare, HOLD, tasks=4, ports=wish)]).jobs[0].id
        said = bare.folder / "said"
        wait_until(lambda: said.exists() and len(said.read_text().splitlines()) == 4, "all four")
        ports = [int(port) for port in said.read_text().split()]
        assert len(set(ports)) == 8
        assert set(ports) <= set(range(first, first + 20))
        (bare.folder / "go").touch()
        assert client.job(job, wait=60).state == "succeeded"


def test_a_port_that_is_taken_after_all_is_tried_again_later(own: Cluster, stranger: socket.socket) -> None:
    # He has the port and does not listen on it: nobody sees him until somebody wants it.
    with own.client() as client:
        job = client.submit([program(own, HOLD, ports={"web": port_of(stranger)})]).jobs[0].id
        wait_until(lambda: client.tasks(job).tasks[0].attempts, "a try")
        failed = wait_until(
            lambda: [each for each in client.tasks(job).tasks[0].attempts if each.outcome == "failed"], "a failed try"
        )
        assert failed[0].error == f"port {port_of(stranger)} is in use on this node"
        assert state(client, job) == "waiting"
        stranger.close()
        wait_until((own.folder / "said").exists, "its start")
        (own.folder / "go").touch()
        assert client.job(job, wait=60).state == "succeeded"
        assert [node.state for node in client.nodes()] == ["up"], "and nobody blames the node"


def test_a_dynamic_port_that_is_taken_after_all_is_another_one_next_time(bare: Cluster) -> None:
    first = free_ports(5)[0]
    bare.start_center()
    bare.start_executor("n1", "<4, 8G>", "--ports", f"{first}-{first + 4}")
    with bare.client() as client, socket.socket() as stranger:
        stranger.bind(("127.0.0.1", first))
        (bare.folder / "go").touch()
        job = client.submit([program(bare, HOLD, ports="dynamic")]).jobs[0].id
        assert client.job(job, wait=60).state == "succeeded"
        outcomes = [attempt.outcome for attempt in client.tasks(job).tasks[0].attempts]
        assert (outcomes[0], outcomes[-1]) == ("failed", "succeeded")
    assert first < int((bare.folder / "said").read_text()) < first + 5


def test_the_tasks_of_a_gang_meet(bare: Cluster) -> None:
    first = free_ports(20)[0]
    bare.start_center()
    for place, name in enumerate(("n1", "n2")):
        begin = first + 10 * place
        bare.start_executor(name, "<2, 2G>", "--ports", f"{begin}-{begin + 9}")
    with bare.client() as client:
        gang = program(bare, MEET, tasks=2, gang=True, max_per_node=1, ports="dynamic")
        job = client.submit([gang]).jobs[0].id
        assert client.job(job, wait=90).state == "succeeded", bare.cress("logs", job, "--stderr").stdout
        tasks = client.tasks(job).tasks
        assert {attempt.node for task in tasks for attempt in task.attempts} == {"n1", "n2"}
    assert (bare.folder / "met").read_text() == "1"
