"""Taking and returning licences; the affected shapes are matched again."""

from __future__ import annotations

from cress.core.placing.matching import Matching
from cress.core.tables.licences import Amounts, Licence


def take(matching: Matching, amounts: Amounts, *, more: bool = False) -> None:
    """Take licences for a task that starts; with ``more`` (a running task) even if too few are free."""
    known = matching.relations.licences
    before = {name: known.free(name) for name, _ in amounts}
    known.hold(amounts)
    assert more or all(known.free(name) >= 0 for name, _ in amounts), f"{known.short(amounts)} are not free"
    _changed(matching, before)


def give_back(matching: Matching, amounts: Amounts) -> None:
    """Return the licences of a task that ended."""
    known = matching.relations.licences
    before = {name: known.free(name) for name, _ in amounts}
    known.hold(amounts, -1)
    _changed(matching, before)


def set_counts(matching: Matching, counts: Amounts) -> None:
    """Set the total number of each licence."""
    known = matching.relations.licences
    before = {name: known.free(name) for name in (*known.counts, *dict(counts), *known.taken)}
    known.counts = dict(counts)
    matching.facts_changed()
    _changed(matching, before)


def _changed(matching: Matching, before: dict[str, int]) -> None:
    """Match the shapes again for which the free number became sufficient or too small."""
    known = matching.relations.licences
    for name, old in before.items():
        free = known.free(name)
        for shape in matching.watchers(Licence(name)):
            wanted = dict(shape.wants.licences).get(name, 0)
            if (wanted <= old) != (wanted <= free):
                matching.redo(shape)
