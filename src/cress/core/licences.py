"""Licences: countable resources of the whole cluster, taken and given back with tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.model.events import LicencesSet

if TYPE_CHECKING:
    from cress.core.ledger import Ledger


class Licences:
    """How many there are of each, and how many tasks have."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.taken: dict[str, int] = {}


def set_counts(core: Ledger, event: LicencesSet) -> None:
    """There are so many of each from now on."""
    core.relations.licences.counts = dict(event.counts)
