"""Advance reservations of others: every gap is too short for a unit, or they alone keep it off the nodes."""

from __future__ import annotations

from typing import Any

from cress.core.advance.gaps import NoGap, fits_in_no_gap, is_kept_off
from cress.core.advance.telling import longest_now, reserved_from, say_shorter
from cress.core.books import Books
from cress.core.gates.gate import Gate, veto_of
from cress.core.gates.room import no_room
from cress.core.jobs import JobEntry
from cress.core.placing.vetoes import Verdict, Veto


class Gaps(Gate[NoGap]):
    """Every gap between the repetitions of advance reservations is too short."""

    verdict = Verdict.NO_GAP

    def opens(self) -> bool:
        return bool(self._core.advance_reservations)

    def find(self, job: JobEntry) -> NoGap | None:
        return fits_in_no_gap(self._core, job)

    def told(self, job: JobEntry, found: NoGap) -> dict[str, Any]:
        longest = longest_now(self._core, job)
        could = say_shorter(longest) if longest else "it needs a shorter time_limit"
        return {"places": found.names, "details": (could,), "gap": found.longest}


class ReservedNodes(Gate[bool]):
    """Advance reservations alone keep a unit off the nodes; it waits for their end, or for its own repetition."""

    verdict = Verdict.RESERVED_AHEAD

    def opens(self) -> bool:
        return bool(self._core.advance_reservations)

    def find(self, job: JobEntry) -> bool | None:
        return is_kept_off(self._core, job) or None

    def veto(self, job: JobEntry, found: bool) -> Veto:
        # Not as of a refused unit: what was foreseen for this one goes on to bind others (``_waits_for_no_room``).
        return reserved_ahead(self._core, job) or no_room(self._core, job)


def reserved_ahead(core: Books, job: JobEntry) -> Veto | None:
    """Return the veto of a unit that only advance reservations keep off the nodes; ``None`` if another node is open."""
    reserved = reserved_from(core, job) if core.advance_reservations else None
    # A gang with room for some of its tasks on reserved nodes may wait for room on others.
    if reserved is None or (job.shape.size > 1 and not is_kept_off(core, job)):
        return None
    kept = core.reservations.of(job)
    start = kept.start if kept is not None and kept.rows else core.plans.planned_start(job)
    return veto_of(job, Verdict.RESERVED_AHEAD, until=start, reserved=reserved)
