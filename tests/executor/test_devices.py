"""Disks and devices of attempts: what programs are told, folders that come and go, what containers see of them."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor import processes
from cress.executor.environment import variables
from cress.executor.runtimes.base import Spawn
from cress.executor.runtimes.engines import ENGINES
from cress.executor.scratch_folders import ScratchFolders
from cress.model.node import Allocated, Device
from cress.model.reports import Cause
from cress.model.run import File, Run
from cress.protocol.messages import Devices, Launch, Launches
from cress.shell.executor.node_devices import AttemptDevices, NodeDevices
from cress.shell.executor.starting import LaunchContext, StartError
from tests.executor.harness import Client, SupervisorProcess, shell, supervisor, until

COMMANDS = {"crun": "crun", "runc": "runc", "bubblewrap": "bwrap"}
NOT_HERE = "containers need root and one of crun, runc, bubblewrap (Debian packages of these names)"
GPUS = (Device(kind="gpu", id="0"), Device(kind="gpu", id="1", path="/dev/nvidia1"))
NODE = (
    Device(kind="disk", id="slow", path="/data/slow", bandwidth=(1, 1, 0, 0)),
    Device(kind="disk", id="fast", path="/data/fast", bandwidth=(2, 2, 0, 0)),
    *GPUS,
    Device(kind="fpga", id="a0", path="/dev/fpga0"),
)
NONE = {"CRESS_DEVICES_DISK": "", "CRESS_DEVICES_GPU": "", "CRESS_DEVICES_FPGA": "", "CUDA_VISIBLE_DEVICES": ""}

TOLD: dict[str, tuple[tuple[Allocated, ...], dict[str, str]]] = {
    "nothing": ((), NONE),
    "a disk": (
        (Allocated("disk", "fast", 1000),),
        NONE
        | {"CRESS_DEVICES_DISK": "fast", "CRESS_DISK": "/data/fast/cress-k/7", "CRESS_DISKS": "/data/fast/cress-k/7"},
    ),
    "a part of a disk is told as a disk": (
        (Allocated("disk", "slow", 0),),
        NONE
        | {"CRESS_DEVICES_DISK": "slow", "CRESS_DISK": "/data/slow/cress-k/7", "CRESS_DISKS": "/data/slow/cress-k/7"},
    ),
    "two GPUs": (
        (Allocated("gpu", "0", 1000), Allocated("gpu", "1", 1000)),
        NONE | {"CRESS_DEVICES_GPU": "0,1", "CUDA_VISIBLE_DEVICES": "0,1"},
    ),
    "part of a GPU": (
        (Allocated("gpu", "1", 460),),
        NONE
        | {
            "CRESS_DEVICES_GPU": "1",
            "CRESS_DEVICES_GPU_SHARE": "0.46",
            "CUDA_VISIBLE_DEVICES": "1",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "46",
        },
    ),
    "an FPGA, and no GPU": ((Allocated("fpga", "a0", 1000),), NONE | {"CRESS_DEVICES_FPGA": "a0"}),
    "a disk that nobody described has no folder": (
        (Allocated("disk", "disk0", 0),),
        NONE | {"CRESS_DEVICES_DISK": "disk0"},
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_programs_are_told_which_devices_they_have(case: str) -> None:
    allocated, expected = TOLD[case]
    assert _told(NodeDevices("k", NODE).of(7, allocated)) == expected | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_where_there_are_no_devices_nothing_is_told() -> None:
    assert _told(NodeDevices("k").of(7, ())) == {}


def test_an_attempt_has_the_files_of_its_devices() -> None:
    found = NodeDevices("k", NODE).of(
        7, (Allocated("gpu", "0", 1000), Allocated("gpu", "1", 500), Allocated("fpga", "a0", 1))
    )
    assert found.files == ("/dev/nvidia1", "/dev/fpga0")
    assert found.covered == ("/data/slow/cress-k", "/data/fast/cress-k")


COUNTED = (Allocated("disk", "disk0", 1000), Allocated("disk", "disk1", 0))
MISSING: dict[str, tuple[tuple[Device, ...] | None, tuple[Allocated, ...], tuple[Allocated, ...]]] = {
    "devices are not known yet": (None, COUNTED, ()),
    "disks that the node only counts": (GPUS, COUNTED, ()),
    "a described disk of a node that has lost all of them": (
        GPUS,
        (Allocated("disk", "sda", 0),),
        (Allocated("disk", "sda", 0),),
    ),
    "a counted disk of a node that describes its disks now": (NODE, COUNTED, COUNTED),
    "a GPU": (NODE, (Allocated("gpu", "2", 1000),), (Allocated("gpu", "2", 1000),)),
}


@pytest.mark.parametrize("case", MISSING)
def test_devices_that_are_missing(case: str) -> None:
    has, allocated, expected = MISSING[case]
    assert NodeDevices("k", has).missing(allocated) == expected


def _told(devices: AttemptDevices) -> dict[str, str]:
    spawn = Spawn(
        attempt=7, task=0, run=Run(job=1, command=("true",)), folder=b"/a/7", context=LaunchContext(devices=devices)
    )
    common = ("CRESS_ATTEMPT", "CRESS_RESTARTS", "CRESS_TASK_INDEX", "CRESS_DIRECTORY", "CRESS_OUTPUT")
    return {name.decode(): value.decode() for name, value in variables(spawn).items() if name.decode() not in common}


# --- through a real supervisor ----------------------------------------------------------------------------------------


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[SupervisorProcess]:
    with supervisor(tmp_path / "e") as process:
        yield process


def disk(path: Path, name: str = "d") -> Device:
    path.mkdir(exist_ok=True)
    return Device(kind="disk", id=name, path=str(path), bandwidth=(10**6, 10**6, 0, 0))


def launch(client: Client, run: Run, attempt: int, *devices: Allocated) -> None:
    launches = (Launch(attempt, run.job, 0, (), devices),)
    client.send(Launches(epoch=1, runs=(run,), launches=launches))


def folders(path: Path) -> list[str]:
    """What attempts have on a disk."""
    return sorted(each.name for each in path.glob("cress-node1-*/*"))


def test_an_attempt_has_a_folder_of_its_own_on_its_disk_until_it_is_over(
    tmp_path: Path, parent: SupervisorProcess
) -> None:
    place = tmp_path / "disk"
    client = parent.start()
    client.send(Devices(devices=(disk(place),)))
    text = (
        'cd "$CRESS_DISK" && stat -c %a . && mkdir a && chmod 0 a && touch b && echo "$CRESS_DISK"; while [ -e b '
        "]; do sleep 0.02; done"
    )
    launch(client, shell(text), 1, Allocated("disk", "d", 1000))
    client.wait_started(1)
    own = Path(until(lambda: parent.output(1).splitlines()[1:2], "the program")[0])
    assert parent.output(1).splitlines()[0] == "700"
    assert own.parent.parent == place
    assert own.name == "1"
    assert sorted(each.name for each in own.iterdir()) == ["a", "b"]
    (own / "b").unlink()
    assert client.wait_ended(1).code == 0
    until(lambda: not folders(place), "the folder to be gone")


@pytest.mark.long
def test_folders_are_gone_although_the_supervisor_was_killed(tmp_path: Path, parent: SupervisorProcess) -> None:
    place = tmp_path / "disk"
    client = parent.start()
    client.send(Devices(devices=(disk(place),)))
    waits = shell('cd "$CRESS_DISK" && echo x > file; while [ -e file ]; do sleep 0.02; done; echo seen')
    launch(client, waits, 1, Allocated("disk", "d", 0))
    launch(client, shell('touch "$CRESS_DISK/file"; exec sleep 1000'), 2, Allocated("disk", "d", 0))
    for attempt in (1, 2):
        client.wait_started(attempt)
    (one,) = until(lambda: list(place.glob("cress-*/1/file")), "its file")
    until(lambda: list(place.glob("cress-*/2/file")), "the file of the other")
    second = client.started[2].pid
    parent.kill()
    os.kill(second, 9)
    # What runs keeps its folder, and what is over has none, also before anybody says which devices there are.
    client = parent.start()
    client.wait_ended(2)
    until(lambda: folders(place) == ["1"], "the folder of the one that is over to be gone")
    one.unlink()
    client.wait_ended(1)
    until(lambda: not folders(place), "the other folder to be gone")
    assert "seen" in parent.output(1)


def test_what_nobody_knows_is_removed_when_the_disks_are_known(tmp_path: Path, parent: SupervisorProcess) -> None:
    place = tmp_path / "disk"
    client = parent.start()
    client.send(Devices(devices=(disk(place),)))
    launch(client, shell("true"), 1, Allocated("disk", "d", 0))
    client.wait_ended(1)
    (base,) = place.glob("cress-node1-*")
    strangers = place / "cress-other-1"
    for each in (base / "99" / "deep", strangers / "5"):
        each.mkdir(parents=True)
    (base / "link").symlink_to(strangers)
    client.send(Devices(devices=(disk(place),)))
    until(lambda: not folders(place), "it to be gone")
    assert (strangers / "5").is_dir()


def test_a_disk_or_a_device_that_is_not_there_is_the_nodes_trouble(tmp_path: Path, parent: SupervisorProcess) -> None:
    place = tmp_path / "disk"
    client = parent.start()
    client.send(Devices(devices=(disk(place), Device(kind="fpga", id="a0", path=f"{tmp_path}/fpga0"))))
    place.rmdir()
    launch(client, shell("true"), 1, Allocated("disk", "d", 0))
    end = client.wait_ended(1)
    assert (end.cause, end.error) == (Cause.NODE, f"disk d ({place}) cannot be used: No such file or directory")
    launch(client, shell("true"), 2, Allocated("fpga", "a0", 1000))
    end = client.wait_ended(2)
    assert (end.cause, end.error) == (Cause.NODE, f"the device {tmp_path}/fpga0 does not exist on this node")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_disk_that_is_full_or_another_one_is_the_nodes_trouble(tmp_path: Path, parent: SupervisorProcess) -> None:
    place = tmp_path / "disk"
    client = parent.start()
    client.send(Devices(devices=(disk(place),)))
    client.sync()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)], check=True)
    try:
        launch(client, shell("true"), 1, Allocated("disk", "d", 0))
        end = client.wait_ended(1)
        why = "cannot be used: another file system is mounted there than when the executor started"
        assert (end.cause, end.error) == (Cause.NODE, f"disk d ({place}) {why}")
        client.send(Devices(devices=(disk(place),)))
        launch(client, shell('echo "$CRESS_DISK"'), 2, Allocated("disk", "d", 0))
        assert client.wait_ended(2).code == 0
        (place / "file").write_bytes(bytes(60 * 1024))
        with pytest.raises(OSError, match="No space"), (place / "more").open("wb") as file:
            file.write(bytes(8 * 1024))
        launch(client, shell("true"), 3, Allocated("disk", "d", 0))
        end = client.wait_ended(3)
        assert (end.cause, end.error) == (Cause.NODE, f"disk d ({place}) is full")
    finally:
        subprocess.run(["umount", str(place)], check=True)
    # Nothing is mounted there any more, and the agent comes back: what is below is not the disk.
    client.send(Devices(devices=(disk(place),)))
    launch(client, shell("true"), 4, Allocated("disk", "d", 0))
    end = client.wait_ended(4)
    assert (end.cause, end.error) == (Cause.NODE, f"disk d ({place}) {why}")


@pytest.mark.parametrize("runtime", ["process", "container"])
def test_a_task_with_files_has_its_disk_as_well(tmp_path: Path, parent: SupervisorProcess, runtime: str) -> None:
    place = tmp_path / "disk"
    client = parent.start()
    if runtime == "container" and not client.inventory.container:
        pytest.skip(NOT_HERE)
    client.send(Devices(devices=(disk(place),)))
    (tmp_path / "source").write_text("hello")
    files = (File(source=str(tmp_path / "source"), path="in"),)
    run = shell('mv in "$CRESS_DISK/out" && cat "$CRESS_DISK/out"', files=files, runtime=runtime)
    launch(client, run, 1, Allocated("disk", "d", 0))
    end = client.wait_ended(1)
    assert (end.code, end.error) == (0, "")
    assert parent.output(1) == "hello"
    until(lambda: not folders(place), "the folder to be gone")


@pytest.mark.skipif(os.geteuid() != 0, reason="other accounts need root")
def test_a_folder_belongs_to_the_account_of_its_task(tmp_path: Path, parent: SupervisorProcess) -> None:
    for each in (tmp_path, *tmp_path.parents[:-2]):
        each.chmod(each.stat().st_mode | stat.S_IXOTH)
    place = tmp_path / "disk"
    client = parent.start()
    client.send(Devices(devices=(disk(place),)))
    run = shell('touch "$CRESS_DISK/mine" && stat -c %U:%a "$CRESS_DISK"', run_as="nobody", directory="/")
    launch(client, run, 1, Allocated("disk", "d", 1000))
    end = client.wait_ended(1)
    assert (end.code, end.error) == (0, "")
    assert parent.output(1) == f"{pwd.getpwnam('nobody').pw_name}:700\n"


# --- folders, without a supervisor -----------------------------------------------------------------------------------


def scratch_on(place: Path) -> tuple[ScratchFolders, NodeDevices, Path]:
    """The folders of attempts on one disk, and where they are."""
    node_devices = NodeDevices("k", (disk(place),))
    return ScratchFolders(print), node_devices, Path(node_devices.base(disk(place)))


def removed(scratch: ScratchFolders) -> None:
    """Remove what is to go, and wait for the children that do it."""
    before = processes.children(os.getpid())
    scratch.remove()
    for pid in processes.children(os.getpid()) - before:
        assert os.waitpid(pid, 0)[1] == 0
        assert scratch.ended(pid)


def test_a_number_that_was_used_before_has_a_new_folder_that_stays(tmp_path: Path) -> None:
    """What is left of that number is removed, in the same turn, and though something of the like is still being
    removed.
    """
    scratch, node_devices, base = scratch_on(tmp_path)
    for name in ("7", "7.old"):
        (base / name).mkdir(parents=True)
        (base / name / "file").touch()
    scratch.fit(node_devices, (disk(tmp_path),))
    scratch.make(7, node_devices.of(7, (Allocated("disk", "d", 0),)), None)
    (base / "7" / "mine").touch()
    removed(scratch)
    assert [str(each.relative_to(base)) for each in sorted(base.rglob("*"))] == ["7", "7/mine"]


def test_a_link_in_the_place_of_the_executors_folder_is_not_followed(tmp_path: Path) -> None:
    scratch, node_devices, base = scratch_on(tmp_path / "disk")
    other = tmp_path / "other"
    (other / "7").mkdir(parents=True)
    (other / "7" / "file").touch()
    base.symlink_to(other)
    scratch.fit(node_devices, (disk(tmp_path / "disk"),))
    devices = node_devices.of(7, (Allocated("disk", "d", 0),))
    with pytest.raises(StartError, match="belongs to another account"):
        scratch.make(7, devices, None)
    # It was its own when the task began.
    scratch.over(7)
    removed(scratch)
    assert (other / "7" / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_what_a_task_has_mounted_in_its_folder_is_not_removed(tmp_path: Path) -> None:
    scratch, node_devices, base = scratch_on(tmp_path / "disk")
    scratch.fit(node_devices, (disk(tmp_path / "disk"),))
    scratch.make(7, node_devices.of(7, (Allocated("disk", "d", 0),)), None)
    for each in (tmp_path / "precious", base / "7" / "a b"):
        each.mkdir()
    (tmp_path / "precious" / "file").touch()
    subprocess.run(["mount", "--bind", str(tmp_path / "precious"), str(base / "7" / "a b")], check=True)
    scratch.over(7)
    removed(scratch)
    assert (tmp_path / "precious" / "file").exists()
    assert not (base / "7").exists()


# --- containers ------------------------------------------------------------------------------------------------------

# A device that machines have and containers do not.
KERNEL = "/dev/kmsg"


@pytest.mark.skipif(os.geteuid() != 0 or not any(map(shutil.which, COMMANDS.values())), reason=NOT_HERE)
@pytest.mark.parametrize("engine", [each.name for each in ENGINES])
def test_a_container_sees_its_disk_and_its_devices_and_not_those_of_others(tmp_path: Path, engine: str) -> None:
    if shutil.which(COMMANDS[engine]) is None:
        pytest.skip(f"{COMMANDS[engine]} is not installed")
    if not Path(KERNEL).exists():
        pytest.skip(f"this machine has no {KERNEL}")
    place = tmp_path / "disk"
    with supervisor(tmp_path / "e", options=("--engine", engine)) as parent:
        client = parent.start()
        client.send(Devices(devices=(disk(place), Device(kind="fpga", id="a0", path=KERNEL))))
        first = shell('cd "$CRESS_DISK" && touch file && ls .. && exec sleep 1000', runtime="container")
        launch(client, first, 1, Allocated("disk", "d", 0))
        client.wait_started(1)
        until(lambda: parent.output(1), "its output")
        look = f'[ -c {KERNEL} ] && echo device; ls "{place}"/cress-*; touch "{place}/x"; true'
        launch(client, shell(look, runtime="container"), 2, Allocated("fpga", "a0", 1000))
        launch(client, shell(look, runtime="container"), 3)
        assert (client.wait_ended(2).code, client.wait_ended(3).code) == (0, 0)
        assert parent.output(1) == "1\n"
        assert parent.output(2) == "device\n"
        assert parent.output(3) == ""
        assert list(place.glob("cress-*/1/file"))
        assert not (place / "x").exists()
        client.stop(1, grace=0)
        client.wait_ended(1)
        until(lambda: not folders(place), "the folder to be gone")
