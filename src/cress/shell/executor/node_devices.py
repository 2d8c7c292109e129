"""Devices of a node and their allocation to attempts, in the executor's view. This module touches no file."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import msgspec

from cress.model.devices import is_counted
from cress.model.node import DISK_KIND, Allocated, Device


class AttemptDevices(msgspec.Struct, frozen=True):
    """Devices of one attempt: ``allocated`` as decided; ``kinds`` are the kinds of devices of its node.

    ``folders`` are its own, on its disks; ``files`` are those of its other devices; ``covered`` are the folders on all
    disks of the node that contain folders of attempts.
    """

    # The name in messages to a stage; see Spawn.
    allocated: tuple[Allocated, ...] = msgspec.field(default=(), name="devices")
    kinds: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()

    def owned(self) -> tuple[str, ...]:
        """Return the folders on disks that belong to the attempt alone."""
        disks = [allocated for allocated in self.allocated if allocated.kind == DISK_KIND]
        return tuple(
            folder
            for folder, disk in zip(self.folders, disks, strict=False)
            if disk.amount and len(disks) == len(self.folders)
        )


class NodeDevices:
    """The devices of a node. ``key`` identifies the executor on its disks, which other executors may use as well."""

    def __init__(self, key: str, devices: Sequence[Device] | None = None) -> None:
        """Keep the devices of the node; ``None``: not known yet."""
        self._key = key
        self._known = devices is not None
        devices = devices or ()
        self._devices = {(device.kind, device.id): device for device in devices}
        self._kinds = tuple(dict.fromkeys(device.kind for device in devices))
        self._covered = tuple(self.base(device) for device in devices if device.kind == DISK_KIND and device.path)

    def base(self, disk: Device) -> str:
        """Return the folder on a disk that holds the folders of attempts."""
        return f"{disk.path.rstrip('/')}/cress-{self._key}"

    def missing(self, allocated: Sequence[Allocated]) -> tuple[Allocated, ...]:
        """Return the allocated devices that the node does not have (any more).

        A node without disks of its own may have reported only their number; the center named these.
        """
        if not self._known:
            return ()
        gone = (device for device in allocated if (device.kind, device.id) not in self._devices)
        return tuple(device for device in gone if DISK_KIND in self._kinds or not is_counted(device))

    def of(self, attempt: int, allocated: Sequence[Allocated]) -> AttemptDevices:
        """Return the devices of an attempt with this allocation."""
        folders: list[str] = []
        files: list[str] = []
        for given in allocated:
            device = self._devices.get((given.kind, given.id))
            if device is None or not device.path:
                continue
            if given.kind == DISK_KIND:
                folders.append(f"{self.base(device)}/{attempt}")
            else:
                files.append(device.path)
        return AttemptDevices(tuple(allocated), self._kinds, tuple(folders), tuple(files), self._covered)


def key_of(name: str, folder: str) -> str:
    """Return the key of the executor of the node ``name`` that works in ``folder``."""
    return (
        re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[:64]
        + f"-{zlib.crc32(folder.encode(errors='surrogateescape')):08x}"
    )
