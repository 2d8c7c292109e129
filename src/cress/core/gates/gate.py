"""A gate: one restriction, other than room, on the start of a waiting unit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.placing.vetoes import Verdict, Veto
from cress.model.times import NEVER

Found = TypeVar("Found")


def veto_of(job: JobEntry, kind: Verdict, behind: JobEntry | None = None, **told: Any) -> Veto:
    """Return the reason of a kind why a job waits, ``behind`` another one if that is the reason; ``told`` are further
    fields of it.
    """
    if behind is not None:
        told |= {"behind": behind.job.id, "behind_shown": behind.job.counted_as, "behind_group": behind.group.name}
    return Veto(kind=kind, job=job.job.id, shown=job.job.counted_as, group=job.group.name, **told)


class Gate(ABC, Generic[Found]):
    """One restriction. ``find`` returns its answer without changes, to the cycle and to the reason of a job alike."""

    # The kind of its refusals.
    verdict: Verdict
    # True if it depends on the owner of a unit or on the use of its group, so that similar units may get another
    # answer.
    of_owner = False
    # True if it refuses nothing while a single group waits.
    between_groups = False

    def __init__(self, core: Books) -> None:
        self._core = core

    def opens(self) -> bool:
        """Return True if it can refuse any unit in the pass that begins."""
        return True

    def answers_alike(self, job: JobEntry) -> bool:
        """Return True if it refuses, in the same pass, all units of the group with the shape of a refused one."""
        return False

    @abstractmethod
    def find(self, job: JobEntry) -> Found | None:
        """Return why the next unit of a queued job may not start; ``None`` if it may."""

    def found_last(self, job: JobEntry) -> Found | None:
        """Return the answer of the last pass, as far as it still holds.

        It differs from ``find`` only if the pass itself changes the answer.
        """
        return self.find(job)

    def kind(self, found: Found) -> Verdict:
        """Return the kind of a refusal."""
        return self.verdict

    def note(self, job: JobEntry, found: Found) -> int:
        """Note a refusal in a pass; return the time (µs) at which it ends by itself."""
        return NEVER

    def veto(self, job: JobEntry, found: Found) -> Veto:
        """Return a refusal as the reason why the job waits."""
        return veto_of(job, self.kind(found), **self.told(job, found))

    def told(self, job: JobEntry, found: Found) -> dict[str, Any]:
        """Return the fields of the veto that tell more of a refusal."""
        return {}
