"""Nodes: what the work runs on."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cress.model.resources import ResourceVector

# What an attribute of a node may be. Versions are text: 4.10 is above 4.5.
Value: TypeAlias = bool | int | float | str

# Dynamic ports are given from these unless a node says otherwise: below the range of Linux for outgoing connections.
DYNAMIC_PORTS = (20_000, 32_767)


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One machine, physical or virtual: a unique name, what it offers, the rack that it stands in.

    ``address`` is where its tasks are reached. ``attributes`` (facts that were found, and labels) are named in
    constraints. ``ports`` are the first and the last of its dynamic ports. ``unlimited`` are sentences about limits that
    do not hold there.
    """

    name: str
    capacity: ResourceVector
    rack: str = ""
    address: str = ""
    attributes: tuple[tuple[str, Value], ...] = ()
    ports: tuple[int, int] = DYNAMIC_PORTS
    unlimited: tuple[str, ...] = ()


class Supervisor(msgspec.Struct, frozen=True, array_like=True):
    """The supervisor of an executor, so that somebody on the same machine can look whether it is still there.

    ``pid`` and ``ticks`` (start time of /proc/PID/stat) name the process; ``attempts`` is the folder that the
    directories of its attempts are in.
    """

    pid: int
    ticks: int
    attempts: str


class Local(msgspec.Struct, frozen=True, array_like=True):
    """An executor that the center saw on its own machine when it joined.

    ``machine`` is the id of that machine (empty: it has none), ``space`` the center's own space of process ids.
    """

    supervisor: Supervisor
    machine: str
    space: str
