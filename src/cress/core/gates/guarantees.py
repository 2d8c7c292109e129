"""The guarantees of other groups: their demand up to their quotas leaves no room for a unit (design note 0011)."""

from __future__ import annotations

from typing import Any

from cress.core.books import Books
from cress.core.diagnostics.amounts import say_forbidden
from cress.core.gates.gate import Gate
from cress.core.groups.guarantees import ForbiddenBy, Guarantees
from cress.core.jobs import JobEntry
from cress.core.placing.shape import Shape
from cress.core.placing.vetoes import Verdict

_NOTHING = None, None


class OthersGuarantees(Gate[ForbiddenBy]):
    """The gate for a unit larger than the quota of its group, whose start would break the guarantees of other
    groups.
    """

    verdict = Verdict.FORBIDDEN

    def __init__(self, core: Books) -> None:
        super().__init__(core)
        # The demands for this pass, once needed; between decisions anything may change.
        self._in_pass = False
        self._of_pass: Guarantees | None = None
        # The last unit in this pass, as job and shape, and the answer; a blocked unit is asked about several times.
        self._asked: tuple[JobEntry | None, Shape | None] = _NOTHING
        self._found: ForbiddenBy | None = None

    def begin_pass(self) -> None:
        """Fix all demands, once they are needed, until the end of the pass."""
        self._in_pass, self._of_pass, self._asked = True, None, _NOTHING

    def rest(self) -> None:
        """Drop the demands of the pass."""
        self._in_pass, self._of_pass, self._asked = False, None, _NOTHING

    def opens(self) -> bool:
        return len(self._core.groups.by_name) > 1

    def find(self, job: JobEntry) -> ForbiddenBy | None:
        if self._asked == (job, job.shape):
            return self._found
        if len(self._core.jobs) <= job.group.jobs:
            return None
        demands = self._of_pass or Guarantees(self._core.groups, self._core.cluster)
        found = demands.against(job)
        if self._in_pass:
            self._of_pass, self._asked, self._found = demands, (job, job.shape), found
        return found

    def told(self, job: JobEntry, found: ForbiddenBy) -> dict[str, Any]:
        return {"bounded": say_forbidden(self._core, job, found)}
