"""Nodes: what the work runs on."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cress.model.bounds import Amount, Real, Small, Whole
from cress.model.resources import ResourceVector

# What an attribute of a node may be. Versions are text: 4.10 is above 4.5.
Value: TypeAlias = bool | Whole | Real | str

# Dynamic ports are given from these unless a node says otherwise: below the range of Linux for outgoing connections.
DYNAMIC_PORTS = (20_000, 32_767)


# The kind of a disk; every other kind of device is a custom dimension of the cluster.
DISK_KIND = "disk"


class Device(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One device of a node that tasks are given: of its ``kind``, it has the ``id`` that they are told.

    ``path`` is the folder of a disk, or the file of another device (empty: it has none). ``bandwidth``, of a disk:
    bytes/s read and written, operations/s read and written.
    """

    kind: str
    id: str
    model: str = ""
    path: str = ""
    bandwidth: tuple[Amount, Amount, Amount, Amount] = (0, 0, 0, 0)


class Allocated(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A device that a task has: ``amount`` in thousandths; of a disk 1000 for itself, 0 with others."""

    kind: str
    id: str
    amount: Amount


class Load(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The measured load of a node, smoothed: shares in thousandths of its capacity, ``free_memory`` in bytes.

    ``cpu`` is the time that its processors were busy, ``memory`` what is in use, ``network`` what is sent, ``disk`` the
    time that its disks were busy (their mean).
    """

    cpu: Small = 0
    memory: Small = 0
    network: Small = 0
    disk: Small = 0
    free_memory: Amount = 0


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One machine, physical or virtual: a unique name, what it offers, the rack that it stands in.

    ``address`` is where its tasks are reached. ``attributes`` (facts that were found, and labels) are named in
    constraints. ``ports`` are the first and the last of its dynamic ports. ``unlimited`` are sentences about limits
    that do not hold there. ``devices`` are known one by one; ``data`` are paths that it has. ``judged``: it takes no
    new tasks while its measured load is too high. It takes new tasks only of jobs for which the condition ``accepts``
    is true (empty: of all), and which tolerate each of the names in ``repels``.
    """

    name: str
    capacity: ResourceVector
    rack: str = ""
    address: str = ""
    attributes: tuple[tuple[str, Value], ...] = ()
    ports: tuple[int, int] = DYNAMIC_PORTS
    unlimited: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    data: tuple[str, ...] = ()
    judged: bool = True
    accepts: str = ""
    repels: tuple[str, ...] = ()


class Supervisor(msgspec.Struct, frozen=True, array_like=True):
    """The supervisor of an executor, so that somebody on the same machine can look whether it is still there.

    ``pid`` and ``ticks`` (start time of /proc/PID/stat) name the process; ``attempts`` is the folder that the
    directories of its attempts are in.
    """

    pid: Small
    ticks: Amount
    attempts: str


class Local(msgspec.Struct, frozen=True, array_like=True):
    """An executor that the center saw on its own machine when it joined.

    ``machine`` is the id of that machine (empty: it has none), ``space`` the center's own space of process ids.
    """

    supervisor: Supervisor
    machine: str
    space: str
