"""The promises in the state of a scheduler, without what it only foresees."""

from __future__ import annotations

from typing import Protocol

from cress.core.stored.state import CoreState


class Exports(Protocol):
    """A scheduler, or a machine round one, as far as its state is concerned."""

    def export(self) -> CoreState:
        """Return the whole state."""


def promised_state(core: Exports) -> CoreState:
    """Return all promises: equal for schedulers that applied the same facts."""
    state = core.export()
    state.foreseen = None
    for job in state.jobs:
        job.again.sort()
    return state
