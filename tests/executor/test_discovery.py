"""Which disks and GPUs an executor finds on machines of several kinds, and when it does not look for them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cress.executor import devices
from cress.executor.devices import NVME, SOLID, SPINNING, DiskFiles, of_node, says_disk
from cress.executor.settings import ExecutorSettings
from cress.model.node import Device


class Sysfs:
    """A machine of directories: what the kernel would tell of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        for name in ("class/block", "dev/block", "devices"):
            (folder / name).mkdir(parents=True)
        self.mounts = folder / "mountinfo"

    def disk(self, name: str, number: str, *, rotational: bool = False, inside: str = "", slaves: str = "") -> None:
        """A block device; ``inside`` a disk it is a partition, ``slaves`` are what it lies on."""
        place = self.folder / "devices" / inside / name
        (place / "queue").mkdir(parents=True)
        (place / "queue" / "rotational").write_text(f"{int(rotational)}\n")
        if inside:
            (place / "partition").write_text("1\n")
        for each in slaves.split():
            (place / "slaves").mkdir(exist_ok=True)
            (place / "slaves" / each).symlink_to(next((self.folder / "devices").rglob(each)))
        (self.folder / "class/block" / name).symlink_to(place)
        (self.folder / "dev/block" / number).symlink_to(place)

    def mount(self, number: str, place: Path | str, source: str = "/dev/x", *, kind: str = "ext4", **more: str) -> None:
        """A file system there: ``root`` of it, ``options`` of the mount."""
        if place != "/":
            Path(place).mkdir(parents=True, exist_ok=True)
        where = str(place).replace(" ", "\\040")
        options = more.get("options", "rw")
        self.lines.append(
            f"1 2 {number} {more.get('root', '/')} {where} {options} shared:1 - {kind} {source} {options}"
        )
        self.mounts.write_text("\n".join(self.lines) + "\n")

    @property
    def machine(self) -> DiskFiles:
        return DiskFiles(str(self.mounts), str(self.folder / "class/block"), str(self.folder / "dev/block"))


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path / "sys")


def found(sysfs: Sysfs, home: Path) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(each.id, each.path, each.bandwidth) for each in devices.disks(home, sysfs.machine)]


def test_disks_by_class_with_the_folder_that_they_are_mounted_at(sysfs: Sysfs, tmp_path: Path) -> None:
    sysfs.disk("sda", "8:0", rotational=True)
    sysfs.disk("sda1", "8:1", inside="sda")
    sysfs.disk("sdb", "8:16")
    sysfs.disk("nvme0n1", "259:0")
    sysfs.mount("8:1", tmp_path / "a b")
    sysfs.mount("8:16", tmp_path / "b")
    sysfs.mount("259:0", tmp_path / "c")
    assert found(sysfs, tmp_path) == [
        ("nvme0n1", str(tmp_path / "c"), NVME),
        ("sda", str(tmp_path / "a b"), SPINNING),
        ("sdb", str(tmp_path / "b"), SOLID),
    ]


def test_a_volume_on_one_disk_is_that_disk_and_one_on_several_is_itself(sysfs: Sysfs, tmp_path: Path) -> None:
    sysfs.disk("sda", "8:0", rotational=True)
    sysfs.disk("sda2", "8:2", inside="sda")
    sysfs.disk("sdb", "8:16")
    sysfs.disk("sdc", "8:32")
    sysfs.disk("dm-0", "252:0", slaves="sda2")
    sysfs.disk("md0", "9:0", slaves="sdb sdc")
    sysfs.mount("252:0", tmp_path / "lvm")
    sysfs.mount("9:0", tmp_path / "raid")
    assert found(sysfs, tmp_path) == [
        ("md0", str(tmp_path / "raid"), SOLID),
        ("sda", str(tmp_path / "lvm"), SPINNING),
    ]


def test_what_is_no_disk_to_work_on_is_left_out(sysfs: Sysfs, tmp_path: Path) -> None:
    for name, number in (("loop0", "7:0"), ("sr0", "11:0"), ("zram0", "253:0"), ("sdb", "8:16"), ("sdc", "8:32")):
        sysfs.disk(name, number)
    sysfs.mount("7:0", tmp_path / "image")
    sysfs.mount("11:0", tmp_path / "disc", options="ro")
    sysfs.mount("253:0", tmp_path / "swap")
    sysfs.mount("0:22", "/proc", "proc", kind="proc")
    sysfs.mount("0:33", tmp_path / "memory", "tmpfs", kind="tmpfs")
    sysfs.mount("0:34", tmp_path / "far", "server:/x", kind="nfs4")
    sysfs.mount("8:16", tmp_path / "read-only", options="ro,noatime")
    sysfs.mount("8:32", tmp_path / "bound", root="/some/folder")
    assert found(sysfs, tmp_path) == []


def test_the_disk_of_the_root_counts_with_the_folder_of_the_executor_if_that_lies_there(
    sysfs: Sysfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = tmp_path.stat().st_dev
    sysfs.disk("vda", f"{os.major(number)}:{os.minor(number)}", rotational=True)
    sysfs.disk("vdb", "4000:1", rotational=True)
    monkeypatch.setattr(devices, "_reached", lambda _: True)
    sysfs.mount("4000:1", "/")
    assert found(sysfs, tmp_path) == []
    sysfs.lines.clear()
    sysfs.mount(f"{os.major(number)}:{os.minor(number)}", "/")
    assert found(sysfs, tmp_path) == [("vda", str(tmp_path), SPINNING)]
    # Where other accounts could not come to it, it is none for tasks.
    monkeypatch.setattr(devices, "_reached", lambda _: False)
    assert found(sysfs, tmp_path) == []


@pytest.mark.parametrize(
    ("resource", "says"),
    [
        ("", False),
        ("<4, 8G>", False),
        ("4,8G,1G", False),
        ("<4,8G,1G,500M>", True),
        ("<4,8G,1G,0>", True),
        ("<4,8G,disk=1M>", True),
        ("<4, 8G, iops_read = 100>", True),
        ("<4,8G,1G,gpu=2>", False),
    ],
)
def test_a_resource_that_speaks_of_the_disk(resource: str, says: bool) -> None:
    assert says_disk(resource) is says


def test_what_is_configured_comes_before_what_is_found(
    sysfs: Sysfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sysfs.disk("sdb", "8:16")
    sysfs.mount("8:16", tmp_path / "b")
    monkeypatch.setattr(devices, "gpus", lambda: [Device(kind="gpu", id="0")])

    def kinds(**settings: object) -> list[str]:
        made = ExecutorSettings(name="n", directory=tmp_path, center_url="ws://x", token="t", **settings)  # type: ignore[arg-type]
        return [f"{each.kind}:{each.id}" for each in of_node(made, sysfs.machine)]

    assert kinds() == ["disk:sdb", "gpu:0"]
    assert kinds(resource="<4,8G>") == ["disk:sdb", "gpu:0"]
    assert kinds(resource="<4,8G,1G,1M>") == ["gpu:0"]
    assert kinds(resource="<4,8G,gpu=2>") == ["disk:sdb"]
    assert kinds(told=("disk",)) == ["gpu:0"]
    assert kinds(told=("disk", "gpu"), devices=(Device(kind="gpu", id="a"),)) == ["gpu:a"]
    assert kinds(discover=False, devices=(Device(kind="fpga", id="a"),)) == ["fpga:a"]
    # More than a node may have: the center would refuse it. Nor would it take a path that nobody can print.
    for i in range(70):
        sysfs.disk(f"sdc{i:02}", f"65:{i}")
        sysfs.mount(f"65:{i}", tmp_path / f"c{i:02}")
    sysfs.disk("sda", "8:0")
    sysfs.mount("8:0", tmp_path / "a\x7f")
    assert kinds() == ["disk:sdb", *(f"disk:sdc{i:02}" for i in range(60)), "gpu:0"]
    assert kinds(devices=(Device(kind="fpga", id="a"),))[-2:] == ["disk:sdc58", "gpu:0"]


def test_gpus_are_those_that_the_driver_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str | bytes] = ["Tesla V100-SXM2-16GB", b"NVIDIA A10", "NVIDIA A10"]
    module = ModuleType("pynvml")

    class NVMLError(Exception):
        pass

    stand_in = {
        "NVMLError": NVMLError,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: len(names),
        "nvmlDeviceGetHandleByIndex": lambda i: i,
        "nvmlDeviceGetName": lambda i: names[i],
        "nvmlDeviceGetMinorNumber": lambda i: i,
    }
    for name, value in stand_in.items():
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.setattr(devices, "NVML", "libnone.so.0")
    assert devices.gpus() == [], "without the library the package is not even read"
    monkeypatch.setattr(devices, "NVML", None)  # the program itself, which is there
    # Of several models: one of none, since all of a kind are alike.
    assert [each.model for each in devices.gpus()] == ["", "", ""]
    del names[0]
    assert devices.gpus() == [
        Device(kind="gpu", id="0", model="A10", path="/dev/nvidia0"),
        Device(kind="gpu", id="1", model="A10", path="/dev/nvidia1"),
    ]
    assert devices.model_of("Tesla V100-SXM2-16GB") == "V100-SXM2-16GB"

    def broken() -> None:
        raise NVMLError("no driver")

    module.nvmlInit = broken  # type: ignore[attr-defined]
    assert devices.gpus() == []
    monkeypatch.setitem(sys.modules, "pynvml", None)  # an import of it fails
    assert devices.gpus() == []


def test_a_real_machine_is_looked_at_without_trouble(tmp_path: Path) -> None:
    for each in devices.disks(tmp_path, DiskFiles()):
        assert Path(each.path).is_dir()
        assert min(each.bandwidth) > 0


def test_file_systems_that_are_on_no_disk_are_not_asked(
    sysfs: Sysfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of another machine, which is away, would answer never; and one may say of itself nothing at all."""
    sysfs.disk("sdb", "8:16")
    sysfs.mount("8:16", tmp_path / "b")
    sysfs.mount("0:45", tmp_path / "away", "server:/export", kind="nfs")
    sysfs.mount("0:46", tmp_path / "unnamed", "", kind="tmpfs")
    asked: list[str] = []

    def is_folder(path: str) -> bool:
        asked.append(path)
        return True

    monkeypatch.setattr(os.path, "isdir", is_folder)
    assert [path for _, path, _ in found(sysfs, tmp_path)] == [str(tmp_path / "b")]
    assert asked == [str(tmp_path / "b")]
