"""Measured load: what nodes said last, and which of them are too busy for new tasks (algorithms §7, step 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.model.events import LoadSeen
from cress.model.node import Load

if TYPE_CHECKING:
    from cress.core.ledger import Ledger


class Loads:
    """The loads of the nodes of one cluster, by index; a node that says nothing has none."""

    def __init__(self) -> None:
        self.seen: dict[int, Load] = {}


def see(core: Ledger, event: LoadSeen) -> None:
    """The measured load of a node is another one now."""
    f = core.cluster.index[event.name]
    if event.load is None:
        core.loads.seen.pop(f, None)
    else:
        core.loads.seen[f] = event.load
