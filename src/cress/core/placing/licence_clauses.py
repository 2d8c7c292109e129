"""What licences keep off the nodes: a unit that wants more of one than are free goes nowhere.

It is passed over, as somebody who waits for another job is: no end of a task makes room for it, and nobody is preempted.
Shapes that want a licence are asked again when enough of it come free, or too few are left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from cress.core.placing.constraints import Wants
from cress.core.placing.matching import EXTRAS, Bools, Matching, Predicate
from cress.core.placing.relations import Relations
from cress.core.tables.licences import Amounts, Licence
from cress.model.events import LicencesSet

if TYPE_CHECKING:
    from cress.core.ledger import Ledger
    from cress.core.tables.cluster import Ints


class Licensed(Predicate):
    """Enough of each licence are free: the same for all nodes."""

    of_nodes = False

    def __init__(self, relations: Relations, wanted: Amounts) -> None:
        self.text = " and ".join(f"licence {name}" for name, _ in wanted)
        self.watches = tuple(Licence(name) for name, _ in wanted)
        self._relations = relations
        self._wanted = wanted

    def excludes(self, places: Ints) -> Bools:
        return np.full(len(places), bool(self._relations.licences.short(self._wanted)))

    def never(self, places: Ints) -> Bools:
        return np.full(len(places), bool(self._relations.licences.never(self._wanted)))


def _licensed(matching: Matching, wants: Wants) -> Iterable[Predicate]:
    if wants.licences:
        yield Licensed(matching.relations, wants.licences)


def take(core: Ledger, amounts: Amounts) -> None:
    """A task starts that takes these."""
    known = core.relations.licences
    before = {name: known.free(name) for name, _ in amounts}
    known.hold(amounts)
    assert all(known.free(name) >= 0 for name, _ in amounts), f"{known.short(amounts)} are not free"
    _changed(core, before)


def give_back(core: Ledger, amounts: Amounts) -> None:
    """A task is over that had these."""
    known = core.relations.licences
    before = {name: known.free(name) for name, _ in amounts}
    known.hold(amounts, -1)
    _changed(core, before)


def set_counts(core: Ledger, event: LicencesSet) -> None:
    """There are so many of each from now on."""
    known = core.relations.licences
    before = {name: known.free(name) for name in (*known.counts, *dict(event.counts), *known.taken)}
    known.counts = dict(event.counts)
    core.cluster.matching.facts_changed()
    _changed(core, before)


def _changed(core: Ledger, before: dict[str, int]) -> None:
    """Ask those again for whom what is free was enough and is not, or the other way round."""
    known, matching = core.relations.licences, core.cluster.matching
    for name, old in before.items():
        free = known.free(name)
        for shape in core.relations.watchers(Licence(name)):
            wanted = dict(shape.wants.licences).get(name, 0)
            if (wanted <= old) != (wanted <= free):
                matching.redo(shape)


EXTRAS.append(_licensed)
