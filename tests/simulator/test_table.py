"""Tables of jobs and cluster files."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from cress.model.errors import InputError
from cress.model.node import DYNAMIC_PORTS
from cress.simulator.clusterfile import load_cluster
from cress.simulator.traces import load_workload
from cress.simulator.workload import NO_LIMIT, Outage, SimulatedCluster, template
from tests.simulator.builders import SECOND

NODES = "dimensions: [gpu]\nnodes:\n  - {name: n, count: 2, rack: r, resource: '<8,32G,1G,100M,gpu=2>'}\n"
HEAD = "job,submit,run,time_limit,group,user,priority,tasks,gang,cpu,memory,gpu\n"
GOOD = "a,0,1h,2h,ops,ann,3,2,true,2,4G,0.5\n"


@pytest.fixture
def cluster(tmp_path: Path) -> SimulatedCluster:
    path = tmp_path / "c.yaml"
    path.write_text(NODES)
    return load_cluster(path)


def _load(tmp_path: Path, cluster: SimulatedCluster | None, text: str) -> object:
    (tmp_path / "jobs.csv").write_text(text)
    return load_workload(str(tmp_path / "jobs.csv"), cluster, 1)


def test_a_row_is_a_job_with_units(tmp_path: Path, cluster: SimulatedCluster) -> None:
    (tmp_path / "jobs.csv").write_text(HEAD + GOOD + "b,90s,10,,,,,,,500m,,\n")
    work = load_workload(str(tmp_path / "jobs.csv"), cluster, 1)
    assert work.ids == ["a", "b"]
    assert work.submit.tolist() == [0, 90 * SECOND]
    assert work.run.tolist() == [3600 * SECOND, 10 * SECOND]
    assert work.limit.tolist() == [7200 * SECOND, NO_LIMIT]
    assert work.priority.tolist() == [3, 0]
    assert work.tasks.tolist() == [2, 1]
    assert work.gang.tolist() == [True, False]
    assert [work.group_names[i] for i in work.group_index] == ["ops", ""]
    assert [work.users[i] for i in work.user_index] == ["ann", ""]
    assert work.requests[work.request_index[0]] == cluster.dimensions.vector(cpu=2000, memory=4 * 2**30, gpu=500)
    assert work.requests[work.request_index[1]] == cluster.dimensions.vector(cpu=500)
    assert not work.notes


ROWS = {
    "too few cells": ("b,1\n", "1 × malformed line: left out (line 3)"),
    "a unit that is none": (
        "b,0,1h,2h,ops,ann,3,2,true,2,4X,0\n",
        "1 × malformed line: left out (line 3) [memory: '4X' has an unknown unit 'X']",
    ),
    "a time limit of Slurm": (
        "b,0,1h,1-00:00:00,ops,ann,3,2,true,2,4G,0\n",
        "1 × malformed line: left out (line 3) [time_limit: '1-00:00:00' is not a duration (did you mean 1d?)]",
    ),
    "no time limit, as 0": ("b,0,1h,0,ops,ann,3,2,true,2,4G,0\n", None),
    "no time limit, as -1": ("b,0,1h,-1,ops,ann,3,2,true,2,4G,0\n", None),
    "a negative priority": ("b,0,1h,2h,ops,ann,-3,2,true,2,4G,0\n", None),
    "half a task": (
        "b,0,1h,2h,ops,ann,3,0.5,true,2,4G,0\n",
        "1 × malformed line: left out (line 3) [tasks: '0.5' is not a whole number]",
    ),
    "maybe a gang": (
        "b,0,1h,2h,ops,ann,3,2,maybe,2,4G,0\n",
        "1 × malformed line: left out (line 3) [gang: 'maybe' is neither true nor false]",
    ),
    "no name": (",0,1h,2h,ops,ann,3,2,true,2,4G,0\n", "1 × malformed line: left out (line 3) [job: is empty]"),
    "no submit time": ("b,,1h,2h,ops,ann,3,2,true,2,4G,0\n", "1 × unknown submit time: left out (line 3)"),
    "run time -1": ("b,0,-1,2h,ops,ann,3,2,true,2,4G,0\n", "1 × unknown run time: left out (line 3)"),
    "no tasks": ("b,0,1h,2h,ops,ann,3,0,true,2,4G,0\n", "1 × zero processors: left out (line 3)"),
    "needs nothing": ("b,0,1h,2h,ops,ann,3,1,true,,,\n", "1 × zero processors: left out (line 3)"),
    "longer than its limit": (
        "b,0,3h,2h,ops,ann,3,2,true,2,4G,0\n",
        "1 × run time above time limit: run cut at the limit (line 3)",
    ),
    "twice": (GOOD, "1 × duplicate job id: kept (line 3)"),
    "an empty line": ("\n", None),
}


@pytest.mark.parametrize(("row", "note"), ROWS.values(), ids=ROWS.keys())
def test_odd_rows_are_counted_with_their_lines(
    tmp_path: Path, cluster: SimulatedCluster, row: str, note: str | None
) -> None:
    (tmp_path / "jobs.csv").write_text(HEAD + GOOD + row)
    work = load_workload(str(tmp_path / "jobs.csv"), cluster, 1)
    assert work.notes.sentences() == ([note] if note else [])
    assert work.ids[0] == "a"


def test_an_unknown_column_is_ignored_and_named(tmp_path: Path, cluster: SimulatedCluster) -> None:
    (tmp_path / "jobs.csv").write_text("job,submit,run,cpu,colour\na,0,1,1,red\n")
    work = load_workload(str(tmp_path / "jobs.csv"), cluster, 1)
    assert work.notes.sentences() == ["1 × unknown column: ignored [colour]"]


def test_parquet_gives_the_same_jobs(tmp_path: Path, cluster: SimulatedCluster) -> None:
    (tmp_path / "jobs.csv").write_text("job,submit,run,cpu,gang\na,0,10,2,false\nb,5,20.5,0.5,true\n")
    frame = pl.DataFrame(
        {"job": ["a", "b"], "submit": [0, 5], "run": [10.0, 20.5], "cpu": [2.0, 0.5], "gang": [False, True]}
    )
    frame.write_parquet(tmp_path / "jobs.parquet")
    one, two = (load_workload(str(tmp_path / name), cluster, 1) for name in ("jobs.csv", "jobs.parquet"))
    assert one.ids == two.ids
    assert one.run.tolist() == two.run.tolist() == [10 * SECOND, 20_500_000]
    assert one.requests == two.requests
    assert one.gang.tolist() == two.gang.tolist()


FILES = {
    "columns are missing": ("job,begin,runtime,cpu\n", "jobs.csv:1: missing columns: submit, run"),
    "nothing is asked for": ("job,submit,run\n", "jobs.csv:1: no column has the resources of a task"),
    "a cell without an end": ('job,"' + "x" * 200_000, "jobs.csv:1: is not valid CSV: field larger than"),
    "a column twice": ("job,job\n", "jobs.csv:1: column job is given twice"),
    "no usable row": (HEAD + "b,0,-1,2h,ops,ann,3,2,true,2,4G,0\n", "no usable job in it (1 × unknown run time"),
}


@pytest.mark.parametrize(("text", "message"), FILES.values(), ids=FILES.keys())
def test_unusable_tables_are_refused(tmp_path: Path, cluster: SimulatedCluster, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        _load(tmp_path, cluster, text)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.swf.gz", "t.jsonl.gz", "c.csv.gz"])
def test_a_compressed_file_that_is_damaged_is_refused(tmp_path: Path, cluster: SimulatedCluster, name: str) -> None:
    data = bytearray(gzip.compress(b"; one line of many\n" * 1_000))
    data[12] ^= 0xFF
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}: cannot be read: "):
        load_cluster(tmp_path / name) if name[0] == "c" else load_workload(str(tmp_path / name), cluster, 1)


def test_a_line_with_endless_brackets_is_a_malformed_one(tmp_path: Path, cluster: SimulatedCluster) -> None:
    (tmp_path / "t.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(InputError, match=r"no .* in it"):
        load_workload(str(tmp_path / "t.jsonl"), cluster, 1)


def test_a_table_needs_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a table of jobs has no cluster .give --cluster FILE."):
        _load(tmp_path, None, HEAD + GOOD)


def test_a_cluster_in_yaml_and_in_csv(tmp_path: Path, cluster: SimulatedCluster) -> None:
    path = tmp_path / "c.csv"
    path.write_text("name,count,rack,cpu,memory,network,disk_read,disk_write,gpu\nn,2,r,8,32G,1G,100M,100M,2\n")
    assert load_cluster(path) == cluster
    assert [node.name for node in cluster.nodes] == ["n-1", "n-2"]


CLUSTERS = {
    "no YAML": ("nodes: [\n", "c.yaml:2: is not valid YAML"),
    "an unknown word": (
        "nodes:\n  - {name: a, resource: '<1>', colour: red}\n",
        (
            "c.yaml:2: colour: unknown key (one of name, count, rack, resource, address, ports, attributes, accepts, "
            "repels, disks, devices, data)"
        ),
    ),
    "a unit that is none": ("nodes:\n  - name: a\n    resource: <4,8X>\n", "c.yaml:3: "),
    "an undeclared dimension": ("nodes:\n  - name: a\n    resource: {gpu: 1}\n", "c.yaml:3: gpu: "),
    "no resource": ("nodes:\n  - name: a\n", "c.yaml:2: resource: a node has no resource"),
    "no name": ("nodes:\n  - resource: <4>\n", "c.yaml:2: name: a node has no name"),
    "a name twice": (
        "nodes:\n  - {name: a, resource: '<1>'}\n  - {name: a, resource: '<1>'}\n",
        "c.yaml:3: name: node a is defined twice, first in line 2",
    ),
    "a count of none": ("nodes:\n  - {name: a, count: 0, resource: '<1>'}\n", "c.yaml:2: count: 0 is too small"),
    "no nodes": ("nodes: []\n", "c.yaml: nodes: no nodes in it"),
    "a list": ("- a\n", "c.yaml:1: is not a mapping"),
    "no address": (
        "nodes:\n  - {name: a, resource: '<1>', address: x}\n",
        "c.yaml:2: address: 'x' is not an IP address",
    ),
    "no range": (
        "nodes:\n  - {name: a, resource: '<1>', ports: 90-80}\n",
        "c.yaml:2: ports: '90-80' is not a range of ports",
    ),
    "attributes without values": (
        "nodes:\n  - {name: a, resource: '<1>', attributes: [ssd]}\n",
        "c.yaml:2: attributes: is not a mapping",
    ),
    "an attribute that no job has": (
        "dimensions: [gpu]\nnodes:\n  - name: a\n    resource: <1>\n    accepts: Job.GPU > 0 || Job.TPU > 0\n",
        (
            "c.yaml:5: accepts: at character 16, `Job.TPU > 0`: a job has no Job.TPU (after `Job.`: User, Group, "
            "Name, Type, Application, Workload, Priority, Tasks, Gang, TimeLimit, CPU, Memory, Network, DiskRead, "
            "DiskWrite, IOPSRead, IOPSWrite, gpu, Labels.…)"
        ),
    ),
    "a condition that is none": (
        "nodes:\n  - name: a\n    resource: <1>\n    accepts: Job.User =\n",
        "c.yaml:4: accepts: at the end: a value is expected",
    ),
    "no name to repel by": (
        "nodes:\n  - {name: a, resource: '<1>', repels: [a b]}\n",
        "c.yaml:2: repels: 'a b' is not a name",
    ),
    "no pairs": (
        "nodes:\n  - {name: a, resource: '<1>'}\nneighbours: [r1, r2]\n",
        "c.yaml:3: neighbours: is not a list of pairs",
    ),
    "an outage of nobody": (
        "nodes:\n  - {name: a, resource: '<1>'}\noutages:\n  - {node: b, from: 1s}\n",
        "c.yaml:4: node: there is no node 'b'",
    ),
    "an outage backwards": (
        "nodes:\n  - {name: a, resource: '<1>'}\noutages:\n  - {node: a, from: 2s, to: 1s}\n",
        "c.yaml:4: to: ends before it begins",
    ),
    "two outages at once": (
        "nodes:\n  - {name: a, resource: '<1>'}\noutages:\n  - {node: a, from: 1s}\n  - {node: a, from: 2s}\n",
        "c.yaml:5: from: overlaps with another entry of node a",
    ),
    "a drain without a time": ("nodes:\n  - {name: a, resource: '<1>'}\ndrains:\n  - {node: a}\n", "c.yaml:4: from: "),
    "a deadline of an outage": (
        "nodes:\n  - {name: a, resource: '<1>'}\noutages:\n  - {node: a, from: 1s, deadline: 1s}\n",
        "c.yaml:4: deadline: unknown key (one of node, from, to)",
    ),
    "a bad dimension": ("dimensions: [GPU]\nnodes: []\n", "c.yaml:1: dimensions: 'GPU' is not a name"),
}


@pytest.mark.parametrize(("text", "message"), CLUSTERS.values(), ids=CLUSTERS.keys())
def test_mistakes_in_a_cluster_file_have_their_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_cluster(path)
    assert message in str(caught.value)


def test_a_cell_that_is_too_long_is_told(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("name,cpu\n" + "z" * 200_000 + ",1\n")
    with pytest.raises(InputError, match=r"c\.csv: is not valid CSV: field larger than"):
        load_cluster(tmp_path / "c.csv")


def test_what_constraints_ask_for_is_in_a_cluster_file(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "nodes:\n"
        "  - name: db\n    count: 2\n    rack: r1\n    resource: <8>\n    address: 192.168.1.120\n"
        "    ports: 20000-20999\n    attributes: {GCC: 4.10, OSKernel: 2.6.32, Disks: 2, SSD: true}\n"
        "  - {name: web, resource: <4.5>}\n"
        "neighbours: [[r1, r2]]\n"
        "outages:\n  - {node: db-2, from: 10min, to: 20min}\n  - {node: db-2, from: 1h}\n"
    )
    cluster = load_cluster(path)
    one, two, web = cluster.nodes
    assert (one.address, two.address, web.address) == ("192.168.1.120", "192.168.1.121", "")
    assert one.ports == (20000, 20999)
    assert web.ports == DYNAMIC_PORTS
    assert one.attributes == (("GCC", "4.10"), ("OSKernel", "2.6.32"), ("Disks", 2), ("SSD", True))
    assert web.capacity[0] == 4500
    assert cluster.neighbours == (("r1", "r2"),)
    minute = 60 * SECOND
    assert cluster.outages == (Outage(1, 10 * minute, 20 * minute), Outage(1, 60 * minute))


def test_what_a_job_wants_of_its_nodes_is_in_a_table(tmp_path: Path, cluster: SimulatedCluster) -> None:
    (tmp_path / "jobs.csv").write_text(
        "job,submit,run,cpu,requirement,rank,ports,max_per_node,max_per_rack,application\n"
        'a,0,1,1,"GCC >= 4.5 && Rack in (""r1"",""r2"")",IdleCPU,80 admin=dynamic,1,2,shop\n'
        "b,0,1,1,,,,,,\n"
        "c,0,1,1,,,http=70000,,,\n"
        "d,0,1,1,,,,many,,\n"
        'e,0,1,1,"GCC >= ",,,,,\n'
        "f,0,1,1,,Rank in,,,,\n"
    )
    work = load_workload(str(tmp_path / "jobs.csv"), cluster, 1)
    assert work.template(0) == template(
        requirement='GCC >= 4.5 && Rack in ("r1", "r2")', rank="IdleCPU", ports=(("", 80), ("admin", 0)),
        max_per_node=1, max_per_rack=2, application="shop",
    )  # fmt: skip
    assert work.template(1) == template()
    assert len(work) == 2
    (note,) = work.notes.sentences()
    assert note.startswith("4 × malformed line: left out (lines 4, 5, 6, 7) [ports: ")


def test_licences_of_the_cluster_and_of_jobs(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("licences: {matlab: 2, ansys: 1}\nnodes:\n- {name: n1, resource: <4>}\n")
    cluster = load_cluster(file)
    assert cluster.licences == (("ansys", 1), ("matlab", 2))
    (tmp_path / "jobs.csv").write_text(
        "job,submit,run,cpu,licences\na,0,1,1,matlab=2 ansys\nb,0,1,1,\nc,0,1,1,matlap\nd,0,1,1,matlab=many\n"
    )
    work = load_workload(str(tmp_path / "jobs.csv"), cluster, 1)
    assert work.template(0) == template(licences=(("ansys", 1), ("matlab", 2)))
    assert work.template(1) == template()
    assert work.notes.sentences() == [
        "2 × malformed line: left out (lines 4, 5) [licences: there is no licence 'matlap']"
    ]


def test_mistakes_in_licences_of_a_cluster_are_told(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("licences:\n  matlab: 2\n  ansys: many\nnodes:\n- {name: n1, resource: <4>}\n")
    with pytest.raises(InputError) as caught:
        load_cluster(file)
    assert str(caught.value).startswith(f"{file}:3: licences.ansys: 'many' is not a whole number")


def test_all_mistakes_of_a_cluster_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("name,cpu\na,1\nb,x\nc,1,2\n")
    with pytest.raises(InputError) as caught:
        load_cluster(path)
    first, second = str(caught.value).splitlines()
    assert "c.csv:3: cpu: " in first
    assert "c.csv:4: 3 cells (2, as in the first line)" in second


def test_a_note_says_what_is_wrong_in_a_cell_and_what_a_column_could_mean(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("name,cpu,gpu\na,4,1\n")
    (tmp_path / "jobs.csv").write_text("job,submit,run,cpu,gpuu\na,0,25mn,1,\nb,0,5min,1,1\n")
    notes = load_workload(str(tmp_path / "jobs.csv"), load_cluster(tmp_path / "c.csv"), 1).notes
    assert notes.sentences() == [
        "1 × malformed line: left out (line 2) [run: '25mn' has an unknown unit 'mn' (did you mean min?)]",
        "1 × unknown column: ignored [gpuu: did you mean gpu?]",
    ]


def test_a_table_may_say_what_tasks_use_of_what_they_ask_for(tmp_path: Path, cluster: SimulatedCluster) -> None:
    head = "job,submit,run,cpu,memory,gpu,used_cpu,used_memory\n"
    (tmp_path / "jobs.csv").write_text(head + "a,0,1h,4,8G,1,500m,2G\nb,0,1h,2,4G,0,,\nc,0,1h,1,1G,0,1.5,1M\n")
    work = load_workload(str(tmp_path / "jobs.csv"), cluster, 1)
    # An empty cell: all of it. GPUs have no such column, so nothing is known of their use.
    assert {name: amounts.tolist() for name, amounts in work.used.items()} == {
        "cpu": [500, 2000, 1500],
        "memory": [2 * 2**30, 4 * 2**30, 2**20],
    }
    assert work.notes.sentences() == ["1 × uses more than it asks for: used as it is (line 4)"]
    assert work.select(work.run > 0).used["cpu"].tolist() == [500, 2000, 1500]
    assert work.requests[work.request_index[0]] == cluster.dimensions.vector(cpu=4000, memory=8 * 2**30, gpu=1000)


def test_amounts_used_come_from_parquet_too(tmp_path: Path, cluster: SimulatedCluster) -> None:
    frame = {"job": ["a", "b"], "submit": [0, 0], "run": [60, 60], "cpu": [4.0, 2.0], "used_cpu": [0.5, None]}
    pl.DataFrame(frame).write_parquet(tmp_path / "jobs.parquet")
    work = load_workload(str(tmp_path / "jobs.parquet"), cluster, 1)
    assert work.used["cpu"].tolist() == [500, 2000]


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("used_cpu", "-1", "1 × malformed line: left out (line 2) [used_cpu: "),
        ("used_memory", "2X", "1 × malformed line: left out (line 2) [used_memory: '2X' has an unknown unit 'X']"),
        ("used_cpus", "1", "1 × unknown column: ignored [used_cpus: did you mean used_cpu?]"),
        ("used_npu", "1", "1 × unknown column: ignored [used_npu"),
    ],
)
def test_mistakes_in_amounts_used_are_told(
    tmp_path: Path, cluster: SimulatedCluster, column: str, cell: str, said: str
) -> None:
    (tmp_path / "jobs.csv").write_text(f"job,submit,run,cpu,memory,{column}\na,0,1h,4,8G,{cell}\nb,0,1h,2,4G,\n")
    work = load_workload(str(tmp_path / "jobs.csv"), cluster, 1)
    assert work.notes.sentences()[0].startswith(said)
