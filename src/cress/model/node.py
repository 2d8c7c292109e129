"""Nodes: what the work runs on."""

from __future__ import annotations

import msgspec

from cress.model.resources import ResourceVector


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, physical or virtual: a unique name, what it offers, the rack that it stands in."""

    name: str
    capacity: ResourceVector
    rack: str = ""
