"""Disks that are full: refused with a clear sentence, nothing corrupt, and on it goes when there is room again."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cress.center.keeping.store_maintenance import check
from cress.executor.node_facts import PRETENDED_BOOT
from cress.executor.processes import is_alive
from tests.system.cluster import Cluster, wait_until


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path, int], None]]:
    """Mounts a disk of so many megabytes over a folder."""
    mounted: list[Path] = []

    def mount(folder: Path, size: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}m,mode=700,nr_inodes=400", "cress-test", str(folder)]
        if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("a small disk can be mounted by root only: what happens on a full one was not shown")
        mounted.append(folder)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Leave no room, for bytes or for files."""
    ballast = folder / "ballast"
    ballast.mkdir(exist_ok=True)
    try:
        with (ballast / "bytes").open("ab", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
    except OSError:
        pass
    with contextlib.suppress(OSError):
        for number in itertools.count():
            (ballast / f"{number}").touch(exist_ok=True)


def make_room(folder: Path) -> None:
    shutil.rmtree(folder / "ballast")


def script(cluster: Cluster, name: str, text: str) -> dict[str, object]:
    return {"command": text, "name": name, "directory": str(cluster.folder), "resource": "<1, 1M>"}


def test_a_full_disk_of_the_center(bare: Cluster, small_disk: Callable[[Path, int], None]) -> None:
    small_disk(bare.data, 8)
    bare.start_center()
    # The executor's directory is on another disk.
    executor = bare.folder / "executor"
    bare.start_executor("n1", "<4, 8G>", "--data", str(executor))
    bare.file("job.yaml", f"command: 'true'\nenvironment: {{LARGE: {'x' * 100_000}}}\n")
    with bare.client() as client:
        wait = 'echo "$CRESS_ATTEMPT" >> ran; until [ -e go ]; do sleep 0.05; done; exit 7'
        ends = client.submit([script(bare, "ends", wait)]).jobs[0].id
        wait_until((bare.folder / "ran").exists, "a task that runs")
        acknowledged = [ends]
        while True:
            done = bare.cress("submit", "job.yaml")
            if done.returncode:
                break
            acknowledged.append(int(done.stdout.split()[1]))
            fill(bare.data)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
        assert "full" in done.stderr
        assert "full" in client.state().problem
        # Reading goes on, and so do tasks; one that ends now is told later.
        assert len(client.jobs().jobs) == len(acknowledged)
        (bare.folder / "go").touch()
        make_room(bare.data)
        wait_until(lambda: not client.state().problem, "room being noticed")
        done = bare.cress("submit", "job.yaml")
        assert done.returncode == 0, done.stderr
        acknowledged.append(int(done.stdout.split()[1]))
        for job in acknowledged[1:]:
            assert client.job(job, wait=60).state == "succeeded"
        assert client.job(ends, wait=60).state == "failed"
        (attempt,) = client.tasks(ends).tasks[0].attempts
        assert attempt.code == 7
    assert (bare.folder / "ran").read_text().count("\n") == 1
    assert check(bare.data / "cress.db").problems == []
    bare.kill_center()
    bare.start_center()
    with bare.client() as client:
        assert {job.id for job in client.jobs().jobs} == set(acknowledged)


@pytest.mark.long
def test_a_center_whose_disk_is_full_stops_no_task_even_if_it_is_killed_meanwhile(
    bare: Cluster, small_disk: Callable[[Path, int], None]
) -> None:
    term = 45
    small_disk(bare.data, 8)
    # Tasks of executors on the center's own machine do not depend on terms.
    bare.environment[PRETENDED_BOOT] = "elsewhere"
    options = ("--option", f"term={term}s", "--option", "term_margin=1s")
    bare.start_center(*options)
    bare.start_executor("n1", "<4, 8G>", "--data", str(bare.folder / "executor"))
    bare.file("job.yaml", f"command: 'true'\nenvironment: {{LARGE: {'x' * 100_000}}}\n")
    with bare.client() as client:
        wait = "echo $$ > pid; until [ -e go ]; do sleep 0.05; done; exit 7"
        stays = client.submit([script(bare, "stays", wait)]).jobs[0].id
        wait_until(lambda: (bare.folder / "pid").exists() and (bare.folder / "pid").read_text(), "a task that runs")
        pid = int((bare.folder / "pid").read_text())
        while bare.cress("submit", "job.yaml").returncode == 0:
            fill(bare.data)
        time.sleep(1.1 * term)
        assert is_alive(pid), "the task was stopped while the center could not store"
        assert "full" in client.state().problem
    bare.kill_center()
    bare.start_center(*options)
    with bare.client() as client:
        assert "full" in client.state().problem
        time.sleep(1.1 * term)
        assert is_alive(pid), bare.log("n1.log") + bare.log("center.log")
        assert bare.cress("submit", "job.yaml").returncode == 3
        make_room(bare.data)
        wait_until(lambda: not client.state().problem, "room being noticed")
        wait_until(lambda: client.node("n1").state == "up", "the executor being registered")
        (bare.folder / "go").touch()
        assert client.job(stays, wait=60).state == "failed"
        assert [each.code for each in client.tasks(stays).tasks[0].attempts] == [7]
    assert "read-only until it can store again" in bare.log("center.log")
    assert check(bare.data / "cress.db").problems == []


def test_a_full_disk_of_an_executor(bare: Cluster, small_disk: Callable[[Path, int], None]) -> None:
    executor = bare.folder / "executor"
    small_disk(executor, 4)
    bare.start_center("--option", "start_rest_most=2s")
    bare.start_executor("n1", "<8, 8G>", "--data", str(executor))
    with bare.client() as client:
        wait = "until [ -e go ]; do sleep 0.05; done; exit 7"
        ends = client.submit([script(bare, "ends", wait)]).jobs[0].id
        wait_until(lambda: client.job(ends).state == "running" and client.job(ends).started, "a task that runs")
        fill(executor)
        waits = [client.submit([script(bare, f"waits{number}", "echo ran")]).jobs[0].id for number in range(6)]
        wait_until(lambda: "could not start a program" in client.nodes()[0].reason, "a node that rests")
        assert "left on device" in client.nodes()[0].reason or "disk full" in client.nodes()[0].reason
        # What runs goes on, and how it ends is known.
        (bare.folder / "go").touch()
        assert client.job(ends, wait=60).state == "failed"
        assert client.tasks(ends).tasks[0].attempts[0].code == 7
        assert {client.job(job).state for job in waits} <= {"waiting", "running"}
        make_room(executor)
        for job in waits:
            assert client.job(job, wait=60).state == "succeeded"
            assert b"".join(client.logs(job)) == b"ran\n"
        wait_until(lambda: client.nodes()[0].state == "up", "the node being well")
    # The journal is whole: the next supervisor reads it.
    supervisor = int((executor / "supervisor.lock").read_text())
    os.kill(supervisor, 9)
    wait_until(lambda: int((executor / "supervisor.lock").read_text()) != supervisor, "another supervisor")
    with bare.client() as client:
        last = client.submit([script(bare, "last", "true")]).jobs[0].id
        assert client.job(last, wait=60).state == "succeeded"
