"""What a task finds in its environment about its node, its ports and its gang."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.executor.environment import MOST_HOSTS, host_file, of_job, variables
from cress.executor.runtimes.base import Spawn
from cress.model.job import JobType
from cress.model.run import Host, Run
from cress.protocol.messages import Gang
from cress.shell.executor.starting import LaunchContext
from tests.executor.harness import SupervisorProcess
from tests.ports import free_ports

RUN = Run(job=1, command=("true",), ports=(("http", 80), ("peer", 0)))


def told(run: Run, context: LaunchContext) -> dict[str, str]:
    """What is told beyond what every attempt is."""
    found = variables(Spawn(attempt=7, task=2, run=run, folder=b"/a/7", context=context))
    common = {b"CRESS_ATTEMPT": b"7", b"CRESS_RESTARTS": b"0", b"CRESS_TASK_INDEX": b"2", b"CRESS_DIRECTORY": b"/a/7"}
    common[b"CRESS_OUTPUT"] = b"/a/7/values"
    assert common.items() <= found.items()
    return {name.decode(): value.decode() for name, value in found.items() if name not in common}


def test_a_task_without_wishes_is_told_nothing_more() -> None:
    assert told(Run(job=1, command=("true",)), LaunchContext()) == {}


@pytest.mark.parametrize(
    ("kind", "family", "told_as", "of"),
    [
        (JobType.BATCH, 0, b"7", None),
        (JobType.BATCH, 5, b"7", b"5"),  # a run of a cron job, a step of a dag: jobs of their own
        (JobType.SERVICE, 5, b"5", b"5"),
        (JobType.DATABASE, 5, b"5", b"5"),
    ],
)
def test_tasks_of_services_and_databases_are_told_the_number_that_people_know(
    kind: JobType, family: int, told_as: bytes, of: bytes | None
) -> None:
    found = of_job(Run(job=7, command=("true",), name="web", group="g", tasks=3, type=kind, family=family))
    assert (found[b"CRESS_JOB_ID"], found.get(b"CRESS_FAMILY_ID")) == (told_as, of)
    assert (found[b"CRESS_JOB_NAME"], found[b"CRESS_GROUP"], found[b"CRESS_TASK_COUNT"]) == (b"web", b"g", b"3")


def test_ports_are_told_by_name_and_the_first_without() -> None:
    assert told(RUN, LaunchContext(ports=(80, 20_001), address="10.0.0.2", rack="r1")) == {
        "CRESS_PORT": "80",
        "CRESS_PORT_http": "80",
        "CRESS_PORT_peer": "20001",
        "CRESS_ADDRESS": "10.0.0.2",
        "CRESS_RACK": "r1",
    }


def test_a_gang_is_told_where_its_tasks_are_and_where_they_meet() -> None:
    hosts = (Host("10.0.0.2", (80, 20_001)), Host("10.0.0.1", (80, 20_007)), Host("10.0.0.2", (80, 20_002)))
    found = told(RUN, LaunchContext(ports=(80, 20_007), hosts=hosts))
    assert found["CRESS_HOSTS"] == "10.0.0.2,10.0.0.1,10.0.0.2"
    assert (found["CRESS_MASTER"], found["CRESS_MASTER_PORT"]) == ("10.0.0.2", "20001"), (
        "a dynamic one, if there is one"
    )
    assert found["CRESS_HOSTFILE"] == "/a/7/hosts"
    assert host_file(hosts) == b"10.0.0.2 slots=2\n10.0.0.1 slots=1\n"


def test_a_gang_of_fixed_ports_meets_at_the_first_and_one_without_ports_at_none() -> None:
    fixed = Run(job=1, command=("true",), ports=(("a", 80), ("b", 81)))
    assert told(fixed, LaunchContext(hosts=(Host("h", (80, 81)),)))["CRESS_MASTER_PORT"] == "80"
    assert "CRESS_MASTER_PORT" not in told(Run(job=1, command=("true",)), LaunchContext(hosts=(Host("h"),)))


def test_more_hosts_than_a_variable_holds_are_in_the_file_only() -> None:
    hosts = tuple(Host(f"10.{i // 65536}.{i // 256 % 256}.{i % 256}") for i in range(MOST_HOSTS // 9))
    found = told(RUN, LaunchContext(hosts=hosts))
    assert "CRESS_HOSTS" not in found
    assert found["CRESS_MASTER"] == "10.0.0.0"
    assert len(host_file(hosts).splitlines()) == len(hosts)


def test_real_tasks_find_all_of_it(parent: SupervisorProcess) -> None:
    client = parent.start()
    one, two = free_ports(2)
    hosts = (Host("10.0.0.2", (one,)), Host("10.0.0.2", (two,)))
    run = Run(
        job=3,
        command=("/bin/sh", "-c", 'env | grep ^CRESS_ | sort; cat "$CRESS_HOSTFILE"'),
        tasks=2,
        ports=(("rendezvous", 0),),
    )
    client.launch(run, 5, ports=(one,), gangs=(Gang(3, hosts),), address="10.0.0.2", rack="r4")
    assert client.wait_ended(5).code == 0
    lines = parent.output(5).splitlines()
    assert lines[-1] == "10.0.0.2 slots=2"
    found = dict(line.split("=", 1) for line in lines[:-1])
    expected = {
        "CRESS_PORT": str(one),
        "CRESS_PORT_rendezvous": str(one),
        "CRESS_HOSTS": "10.0.0.2,10.0.0.2",
        "CRESS_MASTER": "10.0.0.2",
        "CRESS_MASTER_PORT": str(one),
        "CRESS_ADDRESS": "10.0.0.2",
        "CRESS_RACK": "r4",
        "CRESS_NODE": "node1",
        "CRESS_TASK_COUNT": "2",
        "CRESS_TASK_INDEX": "0",
    }
    assert expected.items() <= found.items()
    assert Path(found["CRESS_HOSTFILE"]).parent == Path(found["CRESS_DIRECTORY"])
