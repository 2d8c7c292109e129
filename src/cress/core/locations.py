"""Where data lies that clauses name, as events said last (algorithms §8, DataLocality)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.model.events import DataLocated

if TYPE_CHECKING:
    from cress.core.ledger import Ledger


class Locations:
    """What is known of data, by its name: hosts and their shares in thousandths, or why nothing is known."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[tuple[str, int], ...]] = {}
        self.problems: dict[str, str] = {}


def see(core: Ledger, event: DataLocated) -> None:
    """Data lies elsewhere than was thought, or is to be forgotten."""
    known = core.relations.locations
    known.places.pop(event.data, None)
    known.problems.pop(event.data, None)
    if event.problem:
        known.problems[event.data] = event.problem
    elif event.places is not None:
        known.places[event.data] = event.places
