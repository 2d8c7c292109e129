"""Containers and accounts with a real center: what nodes say, what is required, who may run as whom."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator

import pytest

from cress.client import Refused
from tests.system.cluster import Cluster, wait_until

HERE = os.geteuid() == 0 and any(map(shutil.which, ("crun", "runc", "bwrap")))
needed = pytest.mark.skipif(not HERE, reason="containers need root and one of crun, runc, bubblewrap")


@pytest.fixture(scope="module")
def home() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        cluster.start_center("--run-as", "daemon,postgres")
        cluster.start_executor("n1")
        yield cluster
    finally:
        cluster.stop()


@needed
def test_a_job_asks_for_a_container_and_is_told_of_its_memory(home: Cluster) -> None:
    text = "x = [bytearray(1 << 20) for _ in range(4000)]"
    with home.client() as client:
        ids = client.submit(
            [
                {"command": "ls -d /proc/[0-9]* | wc -l", "runtime": "container"},
                {"command": ["/usr/bin/python3", "-c", text], "runtime": "container", "resource": "<1, 64M>"},
                {"command": "id -un", "run_as": "daemon"},
                {"command": "id -un", "run_as": "daemon", "runtime": "container"},
            ]
        ).jobs
        views = [client.job(each.id, wait=60) for each in ids]
        assert [each.state for each in views] == ["succeeded", "out of memory", "succeeded", "succeeded"]
        assert views[0].requirement == "Container = True"
        task = client.task(views[1].id, 0)
        assert re.fullmatch(
            r"out of memory: it used more than the 64M that it may \(peak \d+M\)", task.attempts[-1].error
        )
    outputs = [home.cress("logs", str(each.id)).stdout.split() for each in (views[0], *views[2:])]
    assert int(outputs[0][0]) < 10
    assert outputs[1:] == [["daemon"], ["daemon"]]


@needed
def test_a_node_says_what_it_does_not_limit(home: Cluster) -> None:
    with home.client() as client:
        node = client.node("n1")
    assert node.attributes["Container"] is True
    assert any("network egress is not limited" in each for each in node.unlimited)
    shown = home.cress("nodes", "n1").stdout
    assert "Not limited" in shown
    assert "network egress" in shown


def test_run_as_is_for_open_accounts_and_for_root(home: Cluster) -> None:
    with home.client() as client:
        job = {"command": "true", "run_as": "mail"}
        if os.geteuid() == 0:
            assert client.submit([job]).jobs
        else:
            with pytest.raises(Refused, match="do not run as mail"):
                client.submit([job])


@needed
def test_commands_in_a_container_have_no_more_rights_than_its_task(home: Cluster) -> None:
    with home.client() as client:
        job = {"command": "echo inside > /tmp/mark; exec sleep 1000", "runtime": "container", "run_as": "daemon"}
        id = client.submit([job]).jobs[0].id
        wait_until(lambda: client.job(id).tasks.running, "the task")
        text = "cat /tmp/mark; id -un; grep -E '^Cap(Eff|Bnd)|^NoNewPrivs' /proc/self/status; pwd; touch /etc/x"
        wait_until(lambda: home.cress("exec", str(id), "--", "cat", "/tmp/mark").stdout, "the mark")
        done = home.cress("exec", str(id), "--", "sh", "-c", text)
        client.cancel(id)
    mark, name, *rights, folder = done.stdout.splitlines()
    assert (mark, name) == ("inside", "daemon")
    assert [each.split()[1].strip("0") for each in rights] == ["", "", "1"]
    assert folder.endswith("/work")
    assert "Read-only" in done.stderr
