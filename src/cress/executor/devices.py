"""Discovery of the disks and GPUs of a machine, without starting a program (docs/devices.md).

A disk counts once, regardless of its number of partitions: with the largest file system mounted from it. The disk of
the root file system counts with the executor's own folder, if the folder is on it. GPUs are those that NVML finds,
where its Python package is installed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from cress.executor.settings import ExecutorSettings
from cress.model.devices import MOST_DEVICES
from cress.model.node import DISK_KIND, Device

# Bytes/s read and written, operations/s read and written, by class: conservative figures for common disks.
NVME = (2_000_000_000, 1_000_000_000, 200_000, 100_000)
SOLID = (500_000_000, 400_000_000, 50_000, 30_000)
SPINNING = (150_000_000, 150_000_000, 150, 150)

GPU = "gpu"
NVML = "libnvidia-ml.so.1"
# Block devices other than disks: memory, images in files, drives for discs and floppies, network block devices.
_NO_DISKS = re.compile(r"(ram|zram|loop|sr|fd|nbd)\d+")
_NAMES_DISK = re.compile(r"\s*(disk|disk_read|disk_write|iops_read|iops_write)\s*=", re.IGNORECASE)
# File systems that a machine boots from: not for tasks.
_BOOT = ("/boot", "/efi")


class DiskFiles(msgspec.Struct, frozen=True):
    """The files in which the kernel lists its disks."""

    mounts: str = "/proc/self/mountinfo"
    blocks: str = "/sys/class/block"
    numbers: str = "/sys/dev/block"


class _Mounted(msgspec.Struct, frozen=True):
    """A file system: the name of its whole disk, its mount point, its size in bytes."""

    disk: str
    place: str
    size: int


def of_node(settings: ExecutorSettings, machine: DiskFiles | None = None) -> tuple[Device, ...]:
    """Return the devices of a node: those of its file, and those discovered of kinds that the file does not mention."""
    found = list(settings.devices)
    if not settings.discover:
        return tuple(found)
    told = GPU in settings.told or re.search(rf"\b{GPU}\s*=", settings.resource)
    cards = [] if told else gpus()
    if DISK_KIND not in settings.told and not says_disk(settings.resource):
        # The number of devices of a node is limited, so surplus disks are left out.
        room = max(0, MOST_DEVICES - len(found) - len(cards))
        found += disks(settings.directory, machine or DiskFiles())[:room]
    return (*found, *cards)


def says_disk(resource: str) -> bool:
    """Return whether a resource has an amount of disk, as its fourth amount or by name."""
    parts = resource.strip().strip("<>").split(",")
    return any(_NAMES_DISK.match(part) for part in parts) or (len(parts) > 3 and "=" not in parts[3])


def disks(home: Path, machine: DiskFiles) -> list[Device]:
    """Return the disks of a machine, by name. ``home`` is the executor's folder."""
    largest: dict[str, _Mounted] = {}
    root = ""
    for mount in _mounted(machine):
        if mount.place == "/":
            root = mount.disk
        if mount.disk not in largest or mount.size > largest[mount.disk].size:
            largest[mount.disk] = mount
    found = []
    for name, disk in sorted(largest.items()):
        place = disk.place
        if name == root:
            if _disk_of(home, machine) != root or not _reached(home):
                continue
            place = str(home)
        if os.access(place, os.W_OK) and place.isprintable():
            found.append(Device(kind=DISK_KIND, id=name, path=place, bandwidth=_bandwidth(name, machine)))
    return found


def _mounted(machine: DiskFiles) -> Iterable[_Mounted]:
    """Yield the writable file systems on disks."""
    try:
        lines = Path(machine.mounts).read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        left, _, right = line.partition(" - ")
        fields, (kind, source, options) = left.split(), right.split(" ")[:3]
        number, root, place, own = fields[2], fields[3], _unescaped(fields[4]), fields[5].split(",")
        # A bind mount of a part is no further file system; with btrfs, however, the mounts are parts (subvolumes).
        if (root != "/" and kind != "btrfs") or "ro" in own or "ro" in options.split(","):
            continue
        disk = _whole(number, _unescaped(source), machine)
        if place.startswith(_BOOT) or not disk or _NO_DISKS.fullmatch(disk):
            continue
        # Only local file systems get here, since a remote one may not answer.
        if not os.path.isdir(place):  # noqa: PTH112
            continue
        with contextlib.suppress(OSError):
            room = os.statvfs(place)
            yield _Mounted(disk, place, room.f_blocks * room.f_frsize)


def _whole(number: str, source: str, machine: DiskFiles) -> str:
    """Return the name of the whole disk below a file system; empty: there is none."""
    place = Path(machine.numbers, number)
    if not place.exists():
        # File systems over several disks have numbers of their own.
        place = Path(machine.blocks, Path(os.path.realpath(source)).name)
        if not source.startswith("/dev/") or not place.exists():
            return ""
    place = place.resolve()
    for _ in range(8):
        below = list((place / "slaves").iterdir()) if (place / "slaves").is_dir() else []
        if (place / "partition").exists():
            place = place.parent
        elif len(below) == 1:
            # A volume on a single disk counts as that disk.
            place = below[0].resolve()
        else:
            break
    return place.name


def _disk_of(folder: Path, machine: DiskFiles) -> str:
    with contextlib.suppress(OSError):
        number = folder.stat().st_dev
        return _whole(f"{os.major(number)}:{os.minor(number)}", "", machine)
    return ""


def _reached(folder: Path) -> bool:
    """Return whether tasks can reach a folder.

    Tasks with accounts of their own can if everyone may pass through its parents.
    """
    if os.geteuid() != 0:
        return True
    with contextlib.suppress(OSError):
        return all(parent.stat().st_mode & stat.S_IXOTH for parent in (folder, *folder.parents))
    return False


def _bandwidth(name: str, machine: DiskFiles) -> tuple[int, int, int, int]:
    if name.startswith("nvme"):
        return NVME
    with contextlib.suppress(OSError):
        if Path(machine.blocks, name, "queue/rotational").read_text().strip() == "0":
            return SOLID
    return SPINNING


def _unescaped(text: str) -> str:
    r"""Return a path from the kernel, which writes ``\040`` for a space."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def gpus() -> list[Device]:
    """Return the GPUs that NVML finds; none without its library or its Python package ``nvidia-ml-py``."""
    try:
        # The package takes 16 MB, which an executor without GPUs saves.
        ctypes.CDLL(NVML)
        import pynvml
    except (OSError, ImportError):
        return []
    found: list[Device] = []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        for i in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(i)
            name = pynvml.nvmlDeviceGetName(handle)
            minor = pynvml.nvmlDeviceGetMinorNumber(handle)
            found.append(Device(kind=GPU, id=str(i), model=model_of(name), path=f"/dev/nvidia{minor}"))
    except pynvml.NVMLError:
        return []
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
    return _alike(found)


def _alike(found: list[Device]) -> list[Device]:
    """Remove the model of GPUs whose models differ, since all devices of a kind must have one model."""
    if len({device.model for device in found}) <= 1:
        return found
    return [msgspec.structs.replace(device, model="") for device in found]


def model_of(name: str | bytes) -> str:
    """Return the model as a word for constraints: the product name without the maker, such as ``V100-SXM2-16GB``."""
    text = name.decode(errors="replace") if isinstance(name, bytes) else name
    return re.sub(r"^(NVIDIA|Tesla)\s+", "", re.sub(r"^NVIDIA\s+", "", " ".join(text.split())))
