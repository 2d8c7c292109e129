"""Licences as an account; the affected shapes are matched again."""

from __future__ import annotations

from cress.core.accounts import Account, ChargedAttempt
from cress.core.placing.matching import Matching
from cress.core.tables.licences import Amounts, Licence


class LicenceAccount(Account):
    """The licences of the cluster that running tasks have taken."""

    def __init__(self, matching: Matching) -> None:
        self._matching = matching
        self._known = matching.relations.licences

    def begin(self, attempt: ChargedAttempt) -> None:
        self._hold(attempt.job.job.licences, 1)

    def end(self, attempt: ChargedAttempt) -> None:
        self._hold(attempt.job.job.licences, -1)

    def forget(self) -> None:
        self._known.taken.clear()

    def _hold(self, amounts: Amounts, sign: int) -> None:
        before = {name: self._known.free(name) for name, _ in amounts}
        self._known.hold(amounts, sign)
        self._changed(before)

    def set_counts(self, counts: Amounts) -> None:
        """Set the total number of each licence."""
        known = self._known
        before = {name: known.free(name) for name in (*known.counts, *dict(counts), *known.taken)}
        known.counts = dict(counts)
        self._matching.facts_changed()
        self._changed(before)

    def _changed(self, before: dict[str, int]) -> None:
        """Match the shapes again for which the free number became sufficient or too small."""
        for name, old in before.items():
            free = self._known.free(name)
            for shape in self._matching.watchers(Licence(name)):
                wanted = dict(shape.wants.licences).get(name, 0)
                if (wanted <= old) != (wanted <= free):
                    self._matching.redo(shape)
