"""The balance gate (source B): a unit waits while another one would balance the nodes better."""

from __future__ import annotations

from typing import Any

from cress.core.books import Books
from cress.core.gates.gate import Gate
from cress.core.gates.pending import Pending
from cress.core.groups.running_limits import within
from cress.core.jobs import JobEntry
from cress.core.placing.vetoes import Verdict


class BalanceGate(Gate[int]):
    """The gate for units that make the balance of every node with room for them worse, while another unit would
    improve one.

    It holds a unit for at most ``gate_hold``.
    """

    verdict = Verdict.GATE

    def __init__(self, core: Books, pending: Pending) -> None:
        super().__init__(core)
        self._pending = pending

    def opens(self) -> bool:
        return self._core.options.balance_gate == "on"

    def find(self, job: JobEntry) -> int | None:
        """Return the time (µs) until which a unit is held."""
        core, since = self._core, job.foreseen.held_since
        if not self.opens() or (since is not None and core.now >= self._end(since)):
            return None
        # A held unit that no longer fits anywhere stays held: it must not block units that improve the balance.
        stays = since is not None and not core.fit.fitting(job.shape)
        if not stays:
            self._pending.count()
            if not core.balance.holds_back(job.shape, self._rows_that_may_start()):
                return None
        return self._end(core.now if since is None else since)

    def found_last(self, job: JobEntry) -> int | None:
        since = job.foreseen.held_since
        return None if since is None or self._core.now >= self._end(since) else self._end(since)

    def _end(self, since: int) -> int:
        return since + self._core.options.gate_hold

    def _rows_that_may_start(self) -> set[int] | None:
        """Return the shape rows of units that the limits on running jobs let start; ``None`` without such limits."""
        core = self._core
        if not core.groups.counted:
            return None
        rows = {job.shape.row for group in core.groups for job in within(group, group.policy)}
        return rows | {claim.shape.row for claim in core.claims}

    def note(self, job: JobEntry, found: int) -> int:
        if job.foreseen.held_since is None:
            job.foreseen.held_since = self._core.now
        return found

    def told(self, job: JobEntry, found: int) -> dict[str, Any]:
        return {"until": found}
