"""Disks and GPUs of real nodes: who has which, what programs are told, what a restarted executor still knows.

The GPUs are stand-ins: devices of a file, which is how an operator describes what is not found.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from cress.client import Client
from tests.system.cluster import Cluster, wait_until

# Says what it was told, leaves something on its disk, and stays until it is told to go.
TELL = """\
import json, os, time
told = {name: value for name, value in os.environ.items() if "CUDA" in name or "DEVICES" in name or "DISK" in name}
if "CRESS_DISK" in os.environ:
    with open(os.environ["CRESS_DISK"] + "/mine", "w") as mine:
        mine.write(os.environ["CRESS_ATTEMPT"])
name = os.environ["CRESS_JOB_NAME"] + os.environ["CRESS_TASK_INDEX"]
with open(name + ".new", "w") as said:
    json.dump(told, said)
os.rename(name + ".new", name + ".told")
while not os.path.exists("go"):
    time.sleep(0.02)
"""

DEVICES = """\
disks:
  - {{path: {folder}/disk1, bandwidth: 200M}}
  - {{path: {folder}/disk2, bandwidth: 100M}}
devices:
  gpu: {{count: 2, model: V100M16}}
"""


def equipped(cluster: Cluster) -> None:
    """A center that knows GPUs, and a node with two of them and two disks."""
    for name in ("disk1", "disk2"):
        (cluster.folder / name).mkdir()
    file = cluster.file("devices.yaml", DEVICES.format(folder=cluster.folder))
    cluster.start_center("--dimension", "gpu")
    cluster.start_executor("n1", "<8, 8G>", "--devices", str(file), "--keep-tasks")


def submit(cluster: Cluster, client: Client, name: str, resource: str, **more: object) -> int:
    script = cluster.file("tell.py", TELL)
    job = {"name": name, "command": ["python3", str(script)], "directory": str(cluster.folder), "resource": resource}
    return client.submit([{**job, **more}]).jobs[0].id


def told(cluster: Cluster, name: str) -> dict[str, str]:
    path = cluster.folder / f"{name}.told"
    wait_until(path.exists, f"the start of {name}")
    found: dict[str, str] = json.loads(path.read_text())
    return found


def folders(cluster: Cluster) -> list[Path]:
    """What attempts have on the disks."""
    return sorted(cluster.folder.glob("disk*/cress-n1-*/*"))


def test_tasks_have_the_devices_that_they_asked_for(bare: Cluster) -> None:
    equipped(bare)
    with bare.client() as client:
        halves = submit(bare, client, "half", "<1, 100M, gpu=0.5>", tasks=2)
        first, second = told(bare, "half0"), told(bare, "half1")
        assert (
            first
            == second
            == {
                "CRESS_DEVICES_GPU": "0",
                "CRESS_DEVICES_GPU_SHARE": "0.5",
                "CRESS_DEVICES_DISK": "",
                "CUDA_VISIBLE_DEVICES": "0",
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
            }
        )
        # Half of a GPU and half of another would not be one: the other one was left whole.
        whole = submit(bare, client, "whole", "<1, 100M, gpu=1>", requirement='GPUModel = "V100M16"')
        assert told(bare, "whole0")["CUDA_VISIBLE_DEVICES"] == "1"
        # Each its own disk: the least one that is fast enough for it.
        disks = submit(bare, client, "sort", "<1, 100M, 0, 50M>", tasks=2, requirement="ExclusiveDisk = True")
        one, two = (told(bare, f"sort{i}") for i in (0, 1))
        assert {one["CRESS_DEVICES_DISK"], two["CRESS_DEVICES_DISK"]} == {"disk1", "disk2"}
        assert one["CUDA_VISIBLE_DEVICES"] == ""
        own = [Path(each["CRESS_DISK"]) for each in (one, two)]
        assert {each.parent.parent for each in own} == {bare.folder / "disk1", bare.folder / "disk2"}
        assert all((each / "mine").read_text() == each.name for each in own)
        waiting = submit(bare, client, "late", "<1, 100M, gpu=0.25>")
        wait_until(lambda: "lacks gpu" in client.job(waiting).reason, "the reason")

        # The supervisor is killed, and the agent with it: what runs goes on, and keeps what it has.
        os.kill(bare.supervisor(), signal.SIGKILL)
        bare.executors["n1"].kill()
        bare.executors["n1"].wait()
        file = bare.folder / "devices.yaml"
        bare.start_executor("n1", "<8, 8G>", "--devices", str(file))
        assert all((each / "mine").exists() for each in own)
        assert client.job(waiting).state == "waiting"

        (bare.folder / "go").touch()
        for job in (halves, whole, disks, waiting):
            assert client.job(job, wait=60).state == "succeeded"
        assert told(bare, "late0")["CRESS_DEVICES_GPU_SHARE"] == "0.25"
        wait_until(lambda: not folders(bare), "the end of the folders")


@pytest.mark.long
def test_a_disk_that_is_gone_is_said_and_not_used(bare: Cluster) -> None:
    equipped(bare)
    with bare.client() as client:
        (bare.folder / "disk2").rmdir()
        job = submit(bare, client, "sort", "<1, 100M, 0, 50M>", requirement="ExclusiveDisk = True")
        tries = wait_until(
            lambda: [each for each in client.tasks(job).tasks[0].attempts if each.outcome != "running"], "a try"
        )
        # The task is not to blame: the node rests for a moment.
        assert tries[0].outcome == "lost"
        assert tries[0].error == f"disk disk2 ({bare.folder}/disk2) cannot be used: No such file or directory"
        (bare.folder / "disk2").mkdir()
        told(bare, "sort0")
        (bare.folder / "go").touch()
        assert client.job(job, wait=60).state == "succeeded"


@pytest.mark.long
def test_a_mistake_in_the_file_is_told_with_its_line(bare: Cluster) -> None:
    file = bare.file("devices.yaml", "disks:\n  - path: /a\n    bandwidth: fast\n")
    for command in (("executor", "--center", "ws://127.0.0.1:1", "--token-file", "x"), ("up",)):
        end = bare.cress(*command, "--devices", file)
        assert end.returncode == 2
        assert f"{file}:3: disks[0].bandwidth: 'fast' does not begin with a number" in end.stderr
        assert "Traceback" not in end.stderr
