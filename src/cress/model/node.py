"""Nodes: the machines that run tasks."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cress.model.bounds import Amount, Name, Real, Small, Text, Whole
from cress.model.resources import ResourceVector

# The value of an attribute of a node. Versions are text: 4.10 is above 4.5.
Value: TypeAlias = bool | Whole | Real | Text

# The default range of dynamic ports, below the range of Linux for outgoing connections.
DYNAMIC_PORTS = (20_000, 32_767)


# The kind of a disk; every other kind of device is a custom dimension of the cluster.
DISK_KIND = "disk"


class Device(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One device of a node that tasks can get: its ``kind``, and the ``id`` that tasks see.

    ``path`` is the folder of a disk, or the file of another device (empty: none). ``bandwidth``, of a disk: bytes/s
    read and written, operations/s read and written.
    """

    kind: Name
    id: Name
    model: Name = ""
    path: Text = ""
    bandwidth: tuple[Amount, Amount, Amount, Amount] = (0, 0, 0, 0)


class Allocated(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A device of a task: ``amount`` in thousandths; for a disk 1000 means exclusive, 0 shared."""

    kind: str
    id: str
    amount: Amount


class Load(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The measured load of a node, smoothed: shares in thousandths of its capacity, ``free_memory`` in bytes.

    ``cpu`` is the busy time of its processors, ``memory`` the used part, ``network`` the sent traffic, ``disk`` the
    busy time of its disks (their mean).
    """

    cpu: Small = 0
    memory: Small = 0
    network: Small = 0
    disk: Small = 0
    free_memory: Amount = 0


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One machine, physical or virtual: a unique name, its capacity, and its rack.

    Its tasks are reached at ``address``. Constraints refer to ``attributes`` (detected facts, and labels). ``ports``
    are the first and the last of its dynamic ports. ``unlimited`` are sentences about limits that it does not enforce.
    ``devices`` are listed one by one; ``data`` are paths of data on it. ``judged``: it takes no new tasks while its
    measured load is too high. It takes new tasks only of jobs for which the condition ``accepts`` is true (empty: all
    jobs), and which tolerate all names in ``repels``.
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
    """The supervisor of an executor, so that a process on the same machine can check that it still runs.

    ``pid`` and ``ticks`` (start time of /proc/PID/stat) identify the process; ``attempts`` is the folder with the
    directories of its attempts.
    """

    pid: Small
    ticks: Amount
    attempts: Text


class Local(msgspec.Struct, frozen=True, array_like=True):
    """An executor that was on the center's own machine when it joined.

    ``machine`` is the id of that machine (empty: none), ``space`` the center's own pid namespace.
    """

    supervisor: Supervisor
    machine: str
    space: str
