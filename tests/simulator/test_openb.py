"""The GPU cluster of Alibaba: nodes with their GPUs one by one, lists of pods, and the real files in a run."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from cress.model.errors import InputError, InputErrors
from cress.model.node import Device
from cress.simulator.clusterfile import load_cluster
from cress.simulator.traces import load_workload
from cress.simulator.workload import NO_LIMIT, SimulatedCluster, Workload
from tests.simulator.builders import SECOND
from tests.simulator.test_cli import cress

GIB = 2**30
NODES = """\
sn,cpu_milli,memory_mib,gpu,model
n0,64000,262144,2,V100M16
n1,96000,393216,8,G2
n2,32000,131072,0,
"""
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
whole,12000,16384,2,1000,,LS,Running,0,100,40
part,6000,12288,1,460,V100M16|A10,BE,Succeeded,10,70,20
none,1000,1024,0,0,,Burstable,Failed,20,25,20
never,1000,1024,1,1000,,BE,Pending,30,90,
"""


@pytest.fixture
def cluster(tmp_path: Path) -> SimulatedCluster:
    (tmp_path / "nodes.csv").write_text(NODES)
    return load_cluster(tmp_path / "nodes.csv")


def pods(tmp_path: Path, cluster: SimulatedCluster | None, text: str = PODS) -> Workload:
    (tmp_path / "pods.csv").write_text(text)
    return load_workload(str(tmp_path / "pods.csv"), cluster, 1)


def test_every_gpu_of_a_node_is_a_device_and_their_model_an_attribute(cluster: SimulatedCluster) -> None:
    first, second, third = cluster.nodes
    assert first.devices == tuple(Device(kind="gpu", id=each, model="V100M16") for each in ("0", "1"))
    assert dict(first.attributes) == {"GPUs": 2, "GPUModel": "V100M16"}
    assert first.capacity == cluster.dimensions.vector(cpu=64_000, memory=256 * GIB, gpu=2000)
    assert len(second.devices) == 8
    assert (third.devices, third.attributes) == ((), ())


def test_the_lists_may_be_gzipped(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv.gz").write_bytes(gzip.compress(NODES.encode()))
    (tmp_path / "pods.csv.gz").write_bytes(gzip.compress(PODS.encode()))
    work = load_workload(str(tmp_path / "pods.csv.gz"), load_cluster(tmp_path / "nodes.csv.gz"), 1)
    assert work.ids == ["whole", "part", "none", "never"]
    assert work.name == "pods"


def test_a_pod_is_a_job_of_one_task(tmp_path: Path, cluster: SimulatedCluster) -> None:
    work = pods(tmp_path, cluster)
    vector = cluster.dimensions.vector
    assert [work.requests[i] for i in work.request_index.tolist()] == [
        vector(cpu=12_000, memory=16 * GIB, gpu=2000),
        vector(cpu=6000, memory=12 * GIB, gpu=460),
        vector(cpu=1000, memory=GIB),
        vector(cpu=1000, memory=GIB, gpu=1000),
    ]
    assert [work.template(i).requirement for i in range(4)] == ["", 'GPUModel in ("V100M16", "A10")', "", ""]
    assert [work.users[i] for i in work.user_index.tolist()] == ["LS", "BE", "Burstable", "BE"]
    assert work.priority.tolist() == [2, 0, 1, 0]
    assert set(work.tasks.tolist()) == {1}
    assert set(work.limit.tolist()) == {NO_LIMIT}


def test_a_pod_runs_from_its_start_to_its_deletion_and_what_is_missing_is_told(
    tmp_path: Path, cluster: SimulatedCluster
) -> None:
    lasting = "lasting,1000,1024,0,0,,BE,Running,40,,40\n"
    broken = "broken,1000,1024,0,0,,BE,Running,50,soon,50\n"
    work = pods(tmp_path, cluster, PODS + lasting + broken)
    assert (work.submit // SECOND).tolist() == [0, 10, 20, 30]
    assert (work.run // SECOND).tolist() == [60, 50, 5, 60]
    assert work.notes.sentences() == [
        "1 × malformed line: left out (line 7) [run: 'soon' does not begin with a number]",
        "1 × unknown run time: left out (line 6)",
        "1 × not started in the trace: run taken as from its creation to its deletion (line 5)",
    ]


def test_pods_of_a_list_without_times_come_one_a_second_and_stay(tmp_path: Path, cluster: SimulatedCluster) -> None:
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,500\nb,1000,1024,8,1000\n"
    work = pods(tmp_path, cluster, text)
    assert (work.submit // SECOND).tolist() == [0, 1]
    assert set((work.run // SECOND).tolist()) == {365 * 86_400}
    assert work.notes.count("no times in the trace") == 1


MISTAKES = {
    "no number": ("n1,many,1024,0,", 'cpu_milli: "many" is not a whole number (0 or more)'),
    "a negative number": ("n1,1000,1024,-1,", "gpu: '-1' is not a whole number (0 or more)"),
    "no name": (",1000,1024,0,", "sn: a node has no name (openb-node-0000)"),
    "a name again": ("n0,1000,1024,0,", "sn: node n0 is defined twice (node names must be unique)"),
    "a short line": ("n1,1000", "memory_mib: '' is not a whole number (0 or more)"),
    "nothing on it": ("n1,0,0,0,", "node n1 has no resources (cores, memory or GPUs)"),
    "more GPUs than a node can have": ("n1,1000,1024,63,T4", "gpu: 63 GPUs are too many for a node (at most 62)"),
}


@pytest.mark.parametrize(("row", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_the_list_of_nodes_is_told_with_its_line(tmp_path: Path, row: str, said: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n" + row + "\n")
    with pytest.raises(InputError) as caught:
        load_cluster(path)
    assert str(caught.value) == f"{path}:3: " + said.replace('"', "'")


def test_pods_need_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a list of pods has no cluster"):
        pods(tmp_path, None)


def test_pods_are_no_cluster(tmp_path: Path) -> None:
    """Told in a sentence, not by what is wrong with every cell."""
    (tmp_path / "pods.csv").write_text(PODS)
    with pytest.raises(InputError) as caught:
        load_cluster(tmp_path / "pods.csv")
    assert str(caught.value).startswith(
        f"{tmp_path / 'pods.csv'}: this is a list of pods, not of nodes (cress simulate "
    )


@pytest.mark.parametrize("header", ["sn,cpu_milli,memory_mib,gpu,model", "name,cpu,memory,network,disk_read"])
def test_of_a_file_full_of_mistakes_the_first_hundred_are_told(tmp_path: Path, header: str) -> None:
    (tmp_path / "nodes.csv").write_text("\n".join([header, *["n,x,1,1,1"] * 300]))
    with pytest.raises(InputErrors) as caught:
        load_cluster(tmp_path / "nodes.csv")
    assert len(caught.value.errors) == 101


def test_a_pod_that_wants_a_model_waits_for_it(tmp_path: Path) -> None:
    """And one that wants a model that no node has fits nowhere."""
    (tmp_path / "nodes.csv").write_text(NODES)
    row = "{},1000,1024,1,1000,{},LS,Running,0,60,0\n"
    wants = [("a", "V100M16"), ("b", "V100M16"), ("c", "G2|G3"), ("d", "V100M16|A10"), ("e", "H100")]
    (tmp_path / "pods.csv").write_text(PODS.splitlines()[0] + "\n" + "".join(row.format(*each) for each in wants))
    files = (tmp_path / "pods.csv", "--cluster", tmp_path / "nodes.csv")
    done = cress("simulate", *files, "--check", "--attempts", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in (tmp_path / "out" / "FIFO" / "attempts.csv").read_text().splitlines()[1:]]
    assert [(job, node, start) for job, _, node, start, *_ in rows] == [
        ("a", "n0", "0"), ("b", "n0", "0"), ("c", "n1", "0"), ("d", "n0", "60"),
    ]  # fmt: skip
    summary = json.loads((tmp_path / "out" / "FIFO" / "summary.json").read_text())
    assert summary["jobs_rejected"] == 1
    assert summary["gpu_allocation_max"] == pytest.approx(3 / 10)
    assert "highest allocation of GPUs" in done.stdout


def test_the_real_cluster_has_its_gpus_one_by_one(traces: Path) -> None:
    cluster = load_cluster(traces / "openb" / "openb_node_list_gpu_node.csv.gz")
    assert len(cluster.nodes) == 1213
    assert sum(len(node.devices) for node in cluster.nodes) == 6212
    models = Counter(device.model for node in cluster.nodes for device in node.devices)
    assert (models["T4"], models["G2"]) == (842, 4392)


@pytest.mark.long
@pytest.mark.parametrize(("name", "count"), [("default", 8152), ("gpushare40", 8152), ("multigpu20", 8324)])
def test_the_real_pods_run(tmp_path: Path, traces: Path, name: str, count: int) -> None:
    folder = traces / "openb"
    files = (folder / f"openb_pod_list_{name}.csv.gz", "--cluster", folder / "openb_node_list_gpu_node.csv.gz")
    done = cress("simulate", *files, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out" / "FIFO" / "summary.json").read_text())
    assert (summary["nodes"], summary["jobs"], summary["jobs_finished"]) == (1213, count, count)
    assert 0 < summary["gpu_allocation_mean"] < summary["gpu_allocation_max"] <= 1
