"""DataLocality with real programs: a namenode that speaks WebHDFS, executors that have paths, a center between them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.center.namenode import Namenode
from tests.system.cluster import Cluster, wait_until

# A short one is in test_constraints.py.
pytestmark = pytest.mark.long

LOGS = "hdfs://nn:8020/logs/2026"
BLOCKS = [
    (128 * 2**20, ("worker-2.example.org 10.0.0.2", "elsewhere 10.9.9.9")),
    (64 * 2**20, ("worker-2.example.org",)),
]


@pytest.fixture(scope="module")
def namenode() -> Iterator[Namenode]:
    """A namenode with a folder on the second node."""
    with Namenode({"/logs/2026/a": list(BLOCKS), "/logs/2026/b/c": list(BLOCKS[1:])}) as running:
        yield running


@pytest.fixture(scope="module")
def home(namenode: Namenode) -> Iterator[Cluster]:
    """Two nodes; the second one is called worker-2 by the namenode, and has a path of its own."""
    cluster = Cluster()
    sets = cluster.folder / "sets"
    (sets / "a").mkdir(parents=True)
    try:
        cluster.start_center("--webhdfs", f"nn:8020={namenode.url}", "--webhdfs", "any")
        cluster.start_executor("node1", "<2, 2G>")
        cluster.start_executor(
            "node2",
            "<2, 2G>",
            "--label",
            "hostname=worker-2.example.org",
            "--data-path",
            f"{sets}/*",
            "--address",
            "10.0.0.2",
        )
        yield cluster
    finally:
        cluster.stop()


def submitted(cluster: Cluster, text: str) -> int:
    """The id of the job of this file."""
    done = cluster.cress("submit", cluster.file("job.yaml", text), "--json")
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["jobs"][0]["id"])


def ran_on(cluster: Cluster, job: int) -> str:
    """The node of the job's only task, once it has succeeded."""
    with cluster.client() as client:
        view = client.job(job, wait=60)
        assert view.state == "succeeded", view.reason
        return client.task(job, 0).attempts[-1].node


def reason(cluster: Cluster, job: int) -> str:
    with cluster.client() as client:
        return client.job(job).reason


def test_a_job_runs_where_the_namenode_says_that_its_data_is(home: Cluster) -> None:
    job = submitted(home, f'command: "true"\ndata_locality: {LOGS}\n')
    assert ran_on(home, job) == "node2"
    soft = submitted(home, f'command: "true"\nrank: 2 × (DataLocality = "{LOGS}")\n')
    assert ran_on(home, soft) in ("node1", "node2")


def test_when_that_node_is_full_it_goes_elsewhere_after_its_patience(home: Cluster) -> None:
    full = submitted(home, 'command: sleep 1000\nresource: <2>\nrequirement: Name = "node2"\n')
    with home.client() as client:
        wait_until(lambda: client.job(full).state == "running", "the full node")
        job = submitted(home, f'command: "true"\ndata_locality: {LOGS} && f(x) = (Waittime > 1s)\n')
        waits = submitted(home, f'command: "true"\ndata_locality: {LOGS}\n')
        assert ran_on(home, job) == "node1"
        assert client.job(waits).state == "waiting"
        client.cancel(full)
    assert ran_on(home, waits) == "node2"


def test_a_path_that_one_node_has(home: Cluster) -> None:
    sets = home.folder / "sets"
    job = submitted(home, f'command: "true"\ndata_locality: {sets}/a/part-0\n')
    assert ran_on(home, job) == "node2"
    none = submitted(home, f'command: "true"\nrequirement: DataLocality = "{sets}/b"\n')
    why = f"(2 of 2 nodes do not); no node has {sets}/b"
    wait_until(lambda: reason(home, none).endswith(why), why)
    assert home.cress("cancel", none).returncode == 0


def test_a_file_that_is_not_there_is_the_reason(home: Cluster) -> None:
    job = submitted(home, 'command: "true"\ndata_locality: hdfs://nn:8020/none\n')
    why = "hdfs://nn:8020/none: no such file (according to the namenode)"
    wait_until(lambda: reason(home, job).endswith(why), why)
    assert why in " ".join(home.cress("job", job).stdout.split())
    assert home.cress("cancel", job).returncode == 0


def test_a_namenode_that_is_down_is_the_reason_and_when_it_is_up_the_job_runs(home: Cluster) -> None:
    with Namenode({"/a": [(1, ("node1",))]}) as later:
        pass
    url = f"webhdfs://127.0.0.1:{later.port}/a"
    job = submitted(home, f'command: "true"\ndata_locality: {url}\n')
    why = f"{url}: the namenode at http://127.0.0.1:{later.port} cannot be reached"
    wait_until(lambda: reason(home, job).endswith(why), why)
    with later:
        assert ran_on(home, job) == "node1"


def test_bad_words_are_refused_where_they_stand(home: Cluster) -> None:
    done = home.cress("submit", home.file("bad.yaml", 'command: "true"\ndata_locality: ftp://a/b\n'))
    assert done.returncode == 2
    assert "data_locality: " in done.stderr
    assert "data of ftp:// cannot be located" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("center", "--webhdfs", "nn"), "--webhdfs: 'nn' has no address of a namenode"),
        (("center", "--data-age", "soon"), "--data-age: "),
        (
            ("executor", "--center", "ws://127.0.0.1:1", "--data-path", "sets/*"),
            "--data-path: 'sets/*' is not a path of data",
        ),
    ],
)
def test_bad_options_are_one_sentence(bare: Cluster, arguments: tuple[str, ...], sentence: str) -> None:
    token = (
        ("--token-file", str(_token(bare.folder)))
        if arguments[0] == "executor"
        else ("--port", "0", "--executor-port", "0")
    )
    done = bare.cress(*arguments, *token)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def _token(folder: Path) -> Path:
    path = folder / "token"
    path.write_text("x" * 40)
    path.chmod(0o600)
    return path
