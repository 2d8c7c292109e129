"""Job files on nodes, ports and spread: which clauses they stand for, and what is refused with which sentence."""

from __future__ import annotations

import pytest

from cress.model.errors import InputError
from cress.model.jobfile.job import JobSpec, parse_job
from cress.model.resources import Dimensions

LEAST = {"command": ["server"]}


def read(**keys: object) -> JobSpec:
    return parse_job({**LEAST, **keys}, dimensions=Dimensions(), user="ann")


def refused(**keys: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(**keys)
    return str(caught.value).splitlines()


WAIT = "f(x) = (Waittime > 5min)"


@pytest.mark.parametrize(
    ("key", "value", "texts"),
    [
        ("requirement", "GCC >= 4.5", ["GCC >= 4.5"]),
        ("Requirement", "<OSKernel >= 2.6.32 && Java >= 1.5>", ["OSKernel >= 2.6.32 && Java >= 1.5"]),
        ("requirement", ["A = 1 || B = 2", "<C = 3>"], ["A = 1 || B = 2", "C = 3"]),
        ("requirement", "CPU > 4 && CPU < 8", ["CPU > 4 && CPU < 8"]),
        ("requirement", [], []),
        ("network_adjacent", True, ["NetworkAdjacent = True"]),
        ("Network-Adjacent", "yes", ["NetworkAdjacent = True"]),
        ("network_adjacent", False, []),
        ("network_adjacent", "False", []),
        ("NetworkAdjacent", f"True && {WAIT}", [f"NetworkAdjacent = True && {WAIT}"]),
        ("network_adjacent", f"Network-Adjacent = True&&{WAIT}", [f"NetworkAdjacent = True && {WAIT}"]),
        ("exclusive_disk", f"true and {WAIT}", [f"ExclusiveDisk = True && {WAIT}"]),
        ("exclusive_disk", "ExclusiveDisk = True", ["ExclusiveDisk = True"]),
        ("nodes", ["web-1", "192.168.1.2-8"], ["Nodes in (web-1, 192.168.1.2-8)"]),
        ("nodes", "web-1", ["Nodes in (web-1)"]),
        ("nodes", ["n*", "rack1-[01-40,50]"], ["Nodes in (n*, rack1-[01-40,50])"]),
        ("nodes", "n[1-8,12] && f(x) = True", ["Nodes in (n[1-8,12]) && f(x) = True"]),
        ("nodes", "in-1, android", ["Nodes in (in-1, android)"]),
        ("nodes", "Nodes in (web-1, web-2)", ["Nodes in (web-1, web-2)"]),
        ("DataLocality", "in (192.168.1.2-8)", ["DataLocality in (192.168.1.2-8)"]),
        ("data_locality", f"(10.0.0.0/8) && {WAIT}", [f"DataLocality in (10.0.0.0/8) && {WAIT}"]),
        ("data_locality", "/data/sets/a", ['DataLocality = "/data/sets/a"']),
        ("data_locality", f"hdfs://nn:8020/logs && {WAIT}", [f'DataLocality = "hdfs://nn:8020/logs" && {WAIT}']),
        ("DataLocality", "DataLocality = '/this and that'", ["DataLocality = '/this and that'"]),
        ("DataLocality", '"hdfs://nn/a" && f(x) = True', ['DataLocality = "hdfs://nn/a" && f(x) = True']),
        ("job_dependency", "JobA", ['JobDependency = "JobA"']),
        ("JobDependency", "DependedJob = JobA", ['JobDependency = "JobA"']),
        ("depended_job", f"etl/my-job && {WAIT}", [f'JobDependency = "etl/my-job" && {WAIT}']),
        ("job_dependency", ["a", "b"], ['JobDependency = "a"', 'JobDependency = "b"']),
        ("job_dependency", '"the group/A" && f(x) = True', ['JobDependency = "the group/A" && f(x) = True']),
        ("job_dependency", '"R&&D/A"', ['JobDependency = "R&&D/A"']),
    ],
)  # fmt: skip
def test_keys_stand_for_clauses(key: str, value: object, texts: list[str]) -> None:
    assert [each.text for each in read(**{key: value}).clauses] == texts


def test_clauses_know_the_keys_that_they_come_from() -> None:
    spec = read(Requirement=["A = 1", "B = 2"], ExclusiveDisk=True, rank="<CPU>")
    assert [each.field for each in spec.clauses] == ["Requirement[0]", "Requirement[1]", "ExclusiveDisk"]
    assert [(each.field, each.text) for each in spec.ranks] == [("rank", "CPU")]


@pytest.mark.parametrize(
    ("keys", "ports"),
    [
        ({"port": 80}, (("port", 80),)),
        ({"Port": "Port = 80"}, (("port", 80),)),
        ({"ports": "Dynamic"}, (("port", 0),)),
        ({"DynamicPort": True}, (("port", 0),)),
        ({"dynamic_port": False}, ()),
        ({"dynamic_port": False, "port": 80}, (("port", 80),)),
        ({"ports": {"http": 8080, "admin": "dynamic", "debug": "dynamic"}},
         (("http", 8080), ("admin", 0), ("debug", 0))),
    ],
)  # fmt: skip
def test_ports(keys: dict[str, object], ports: tuple[tuple[str, int], ...]) -> None:
    assert read(**keys).job.ports == ports


def test_spread_application_and_job_failure() -> None:
    job = read(max_per_node=1, MaxPerRack="2", application="shop", JobFailure="False").job
    assert (job.max_per_node, job.max_per_rack, job.application, job.job_failure) == (1, 2, "shop", False)
    job = read().job
    assert (job.max_per_node, job.max_per_rack, job.application, job.job_failure) == (0, 0, "", True)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"requirement": " "}, 'requirement: is empty (such as "GCC >= 4.5 && Memory >= 8G")'),
        ({"requirement": ["A = 1", "<>", None]}, "requirement[2]: null is not a text"),
        ({"requirement": True}, "requirement: true is not a text"),
        ({"rank": ["CPU"]}, "rank: a list is not a text"),
        ({"rank": "< >"}, "rank: is empty"),
        ({"network_adjacent": "maybe"}, "network_adjacent: 'maybe' is neither true nor false (true: all tasks run on"),
        ({"exclusive_disk": "false && f(x) = True"}, "exclusive_disk: 'false && f(x) = True' cannot be relaxed"),
        ({"nodes": []}, "nodes: names no node"),
        ({"data_locality": "in ()"}, "data_locality: names no node"),
        ({"data_locality": ["/data/a"]}, "data_locality: is a list with data in it (one text; several clauses of"),
        ({"gang": "no && f(x) = (Waittime > 1min)"}, "cannot be relaxed"),
        ({"gang": "9 && f(x) = (Waittime > 1min)", "tasks": 8}, "starts with at least 9 of 8 tasks"),
        ({"port": 0}, "port: 0 is not a port (1 to 65535, or dynamic;"),
        ({"port": 65536}, "port: 65536 is not a port"),
        ({"port": [80, 81]}, "port: a list is not a port (1 to 65535, or dynamic; of several each with a name"),
        ({"port": "80 && f(x) = True"}, "a port cannot be relaxed"),
        ({"ports": {"a": 80, "b": 80}}, "ports: port 80 is given twice"),
        ({"ports": {"a-b": 80}}, "ports.a-b: 'a-b' is not a name of a port"),
        ({"ports": {}}, "ports: is empty"),
        ({"ports": {f"p{i}": "dynamic" for i in range(33)}}, "ports: 33 ports are too many (at most 32)"),
        ({"port": 80, "dynamic_port": True}, "dynamic_port: cannot be combined with port (of several ports"),
        ({"port": 80, "ports": 81}, "ports: is given twice (it is the same as port)"),
        ({"max_per_node": 0}, "max_per_node: "),
        ({"application": "a b"}, "application: 'a b' is not a name"),
        ({"job_failure": "never"}, "job_failure: 'never' is neither true nor false"),
    ],
)  # fmt: skip
def test_what_is_refused(keys: dict[str, object], sentence: str) -> None:
    (told,) = refused(**keys)
    assert sentence in told


def test_all_mistakes_are_told_together() -> None:
    assert len(refused(port="http", network_adjacent=3.5, max_per_rack="many", requirement="")) == 4
