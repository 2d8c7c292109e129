"""Nodes: what the work runs on."""

from __future__ import annotations

import msgspec

from cress.model.resources import ResourceVector


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, physical or virtual: a unique name, what it offers, the rack that it stands in."""

    name: str
    capacity: ResourceVector
    rack: str = ""


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
