"""``cress up`` and ``cress demo``: a whole cluster that starts, stops, and takes up again."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cress.client import Client, Refused
from tests.budget import slowness_now
from tests.known_versions import tell_versions
from tests.system.cluster import PATIENCE, Cluster, wait_until

SMALL = ("up", "--port", "0", "--executors", "2", "--node-resource", "<2, 2G>")


class Up:
    """A ``cress up`` that runs; ``alone``: it and all that it starts are programs as users have them."""

    def __init__(self, cluster: Cluster, *arguments: str, alone: bool = False) -> None:
        self.cluster = cluster
        for name in () if alone else ("node1", "node2"):
            tell_versions(cluster.data / "executors" / name)
        start = cluster.start_alone if alone else cluster.start
        self.process = start(*SMALL, *arguments, log="up.log")
        wait_until(lambda: "Cress is up" in cluster.log("up.log") or self.process.poll() is not None, "cress up")
        assert self.process.poll() is None, cluster.log("up.log")

    def client(self) -> Client:
        return self.cluster.client()

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """The exit code, and how many seconds it took."""
        begin = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        (self.cluster.folder / "up.log").unlink()
        return code, time.monotonic() - begin


@pytest.fixture
def home() -> Iterator[Cluster]:
    """A folder for ``cress up``; whatever was started in it is gone afterwards."""
    cluster = Cluster()
    yield cluster
    cluster.stop()


def script(cluster: Cluster, text: str) -> dict[str, object]:
    """A job that runs this shell script in the cluster's folder."""
    return {"command": text, "directory": str(cluster.folder), "resource": "<1, 100M>"}


def test_a_cluster_starts_works_and_stops_within_ten_seconds(home: Cluster) -> None:
    up = Up(home, alone=True)
    with up.client() as client:
        assert sorted(node.name for node in client.nodes() if node.state == "up") == ["node1", "node2"]
        job = client.submit([script(home, "echo hello > said")]).jobs[0].id
        assert client.job(job, wait=30).state == "succeeded"
        # It wants to live on when it is told to stop.
        stubborn = client.submit([script(home, "trap '' TERM; while :; do sleep 1; done")]).jobs[0].id
        wait_until(lambda: client.job(stubborn).state == "running", "the stubborn task")
    assert (home.folder / "said").read_text() == "hello\n"
    code, seconds = up.stop()
    assert code == 0
    assert seconds < 10 * slowness_now().wall
    wait_until(lambda: not home._left(), "the end of every process")


def test_tasks_that_were_stopped_with_it_run_again_when_it_is_up_again(home: Cluster) -> None:
    up = Up(home)
    run = script(home, 'echo "$CRESS_ATTEMPT" >> tries; [ -e go ] || sleep 1000')
    with up.client() as client:
        job = client.submit([run]).jobs[0].id
        wait_until((home.folder / "tries").exists, "the first try")
    assert up.stop(signal.SIGINT)[0] == 0
    (home.folder / "go").touch()
    up = Up(home)
    with up.client() as client:
        assert client.job(job, wait=30).state == "succeeded"
        (task,) = client.tasks(job).tasks
        assert [attempt.outcome for attempt in task.attempts] == ["lost", "succeeded"]
    assert len((home.folder / "tries").read_text().split()) == 2
    assert up.stop()[0] == 0


@pytest.mark.long
def test_with_fewer_executors_those_of_before_are_forgotten(home: Cluster) -> None:
    up = Up(home)
    with up.client() as client:
        assert sorted(node.name for node in client.nodes()) == ["node1", "node2"]
    assert up.stop()[0] == 0
    up = Up(home, "--executors", "1")
    with up.client() as client:
        assert [(node.name, node.state) for node in client.nodes()] == [("node1", "up")]
    assert up.stop()[0] == 0


def test_with_keep_tasks_they_go_on_and_are_taken_up_again(home: Cluster) -> None:
    up = Up(home, "--keep-tasks")
    run = script(home, 'echo "$CRESS_ATTEMPT" >> tries; until [ -e go ]; do sleep 0.05; done; exit 7')
    with up.client() as client:
        job = client.submit([run]).jobs[0].id
        wait_until((home.folder / "tries").exists, "the task")
    assert up.stop()[0] == 0
    (home.folder / "go").touch()  # it ends while nobody but its supervisor looks
    up = Up(home)
    with up.client() as client:
        view = client.job(job, wait=30)
        (task,) = client.tasks(job).tasks
    assert (view.state, [attempt.code for attempt in task.attempts]) == ("failed", [7])
    assert len((home.folder / "tries").read_text().split()) == 1
    assert up.stop()[0] == 0


def test_killing_it_leaves_the_tasks_alone(home: Cluster) -> None:
    up = Up(home)
    run = script(home, 'echo "$CRESS_ATTEMPT" >> tries; until [ -e go ]; do sleep 0.05; done')
    with up.client() as client:
        job = client.submit([run]).jobs[0].id
        wait_until((home.folder / "tries").exists, "the task")
    up.stop(signal.SIGKILL)
    wait_until(lambda: not (home.data / "center.json").exists(), "the center seeing that its parent is gone")
    up = Up(home)
    (home.folder / "go").touch()
    with up.client() as client:
        assert client.job(job, wait=30).state == "succeeded"
    assert len((home.folder / "tries").read_text().split()) == 1
    assert up.stop()[0] == 0


def test_a_part_that_dies_is_started_again(home: Cluster) -> None:
    up = Up(home)
    up.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "SIGHUP: nothing to read again" in home.log("up.log"), "the center being asked to read again")
    os.kill(int((home.data / "executors/node1/agent.lock").read_text()), signal.SIGHUP)
    wait_until(lambda: "SIGHUP: an executor has nothing" in home.log("up.log"), "the executor hearing it")
    center = _center(home)
    assert center is not None
    os.kill(center, signal.SIGKILL)
    wait_until(lambda: _center(home) not in (center, None), "a new center")
    with up.client() as client:
        wait_until(lambda: all(node.state == "up" for node in client.nodes()), "both executors being back")
        job = client.submit([script(home, "true")]).jobs[0].id
        assert client.job(job, wait=30).state == "succeeded"
    assert "center ended (signal 9); starting it again" in home.log("up.log")
    assert up.stop()[0] == 0


def _center(home: Cluster) -> int | None:
    """The process of the center; its file is gone for a moment while it starts."""
    try:
        return int(json.loads((home.data / "center.json").read_text())["pid"])
    except FileNotFoundError:
        return None


def test_executors_have_racks_labels_and_dynamic_ports_of_their_own(home: Cluster) -> None:
    racks = home.file("racks.yaml", "racks: {r1: {neighbours: r2}, r2: {}}\n")
    groups = home.file("Group.conf", "Name: web\nResourceQuota: 1; 00:00-24:00 = 2\n")
    up = Up(
        home, "--executors", "2", "--racks", "r1,r2", "--label", "zone=eu", "--topology", str(racks),
        "--groups", str(groups), "--zone", "Asia/Shanghai",
    )  # fmt: skip
    with up.client() as client:
        page = client.groups()
        assert (page.zone, [each.quota for each in page.groups if each.name == "web"]) == ("Asia/Shanghai", ["2"])
        nodes = {node.name: node for node in client.nodes()}
        assert {name: node.rack for name, node in nodes.items()} == {"node1": "r1", "node2": "r2"}
        assert all(node.attributes["zone"] == "eu" for node in nodes.values())
        tell = script(home, 'echo "$CRESS_NODE $CRESS_RACK $CRESS_PORT $CRESS_ADDRESS" >> said; sleep 0.5')
        job = client.submit([tell | {"tasks": 4, "ports": "dynamic"}]).jobs[0].id
        assert client.job(job, wait=60).state == "succeeded"
    said = [line.split() for line in (home.folder / "said").read_text().splitlines()]
    assert {(node, rack, address) for node, rack, _, address in said} == {
        ("node1", "r1", "127.0.0.1"),
        ("node2", "r2", "127.0.0.1"),
    }
    halves = {"node1": range(20_000, 26_384), "node2": range(26_384, 32_768)}
    assert all(int(port) in halves[node] for node, _, port, _ in said)
    assert up.stop()[0] == 0


def test_settings_of_center_and_executors_reach_them(home: Cluster) -> None:
    elsewhere = home.folder / "other"
    assert home.cress("tls", "init", "--data", elsewhere).returncode == 0
    certificate, authority = str(elsewhere / "tls/center.pem"), str(elsewhere / "tls/ca.pem")
    up = Up(
        home, "--executors", "1", "--repel", "gpu", "--oidc-issuer", "https://id.example.com", "--oidc-client-id", "me",
        "--tls-cert", certificate, "--tls-key", certificate, "--tls-ca", authority,
    )  # fmt: skip
    trusted = ssl.create_default_context(cafile=authority)
    url = json.loads((home.data / "center.json").read_text())["url"]
    told = httpx.get(f"{url}/v1/login", verify=trusted).json()
    assert told == {"issuer": "https://id.example.com", "client_id": "me", "scope": "openid email"}
    with up.client() as client, pytest.raises(Refused, match="gpu, by which node1 repels"):
        client.submit([script(home, "true")])
    assert up.stop()[0] == 0


def test_two_cannot_share_a_data_directory(home: Cluster) -> None:
    up = Up(home)
    second = home.cress(*SMALL)
    assert second.returncode == 2
    assert "runs on" in second.stderr
    assert "already" in second.stderr
    assert "Traceback" not in second.stderr
    with up.client() as client:
        assert client.state().nodes_up == 2
    assert up.stop()[0] == 0


def test_a_port_that_is_taken_is_said(home: Cluster) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = home.cress("up", "--port", port)
    assert done.returncode in (2, 3)
    assert str(port) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--node-resource", "<4, 8Q>"), "--node-resource: "),
        (("--option", "graze=3s"), "did you mean grace?"),
        (("--executors", "0"), "--executors: is too small (at least 1)"),
        (("--dimension", "GPU"), "'GPU' is not a name for a dimension"),
        (("--data", "/proc/nothing"), "/proc/nothing"),
        (("--executors", "3", "--racks", "r1,r2"), "--racks: 2 racks for 3 executors (one name for each of them, or"),
        (("--label", "Rack=r1"), "--label: Rack means something else in constraints"),
        (("--oidc-client-id", "cress"), "--oidc-client-id: the provider is missing"),
        (("--oidc-issuer", "http://id", "--oidc-client-id", "cress"), "--oidc-issuer: 'http://id' is not an address"),
        (("--keep-history", "soon"), "--keep-history: 'soon' does not begin with a number"),
        (("--log-size", "1Q"), "--log-size: "),
        (("--hide", "/nowhere"), "--hide: /nowhere is not a folder that can be used here"),
        (("--data-path", "sets"), "--data-path: "),
        (("--tls-cert", "/nowhere"), "--tls-cert, --tls-key: a certificate and its key go together (both files)"),
        (("--topology", "/nowhere/racks.yaml"), "/nowhere/racks.yaml: cannot be read: No such file or directory"),
    ],
)
def test_bad_flags_are_refused_before_anything_starts(home: Cluster, arguments: tuple[str, ...], sentence: str) -> None:
    done = home.cress("up", *arguments)
    assert (done.returncode in (2, 3), done.stdout) == (True, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not home.data.exists()


def test_the_demo_holds_what_it_promises(home: Cluster, tmp_path: Path) -> None:
    picture = tmp_path / "demo.svg"
    done = home.cress("demo", "--picture", picture)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all checks passed" in done.stdout
    assert "NO" not in done.stdout.split("What happened")[1]
    assert "groups" in picture.read_text()


def test_the_demo_can_be_interrupted(home: Cluster) -> None:
    with home.running("demo") as demo:
        assert demo.stdout is not None
        assert "borrows" in demo.stdout.readline()
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=30)
    assert demo.returncode == 130
    assert "Traceback" not in errors
