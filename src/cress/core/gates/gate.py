"""A gate: one thing other than room for which a waiting unit may not start."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from cress.core.jobs import JobEntry
from cress.core.placing.vetoes import Verdict, Veto
from cress.model.times import NEVER

Found = TypeVar("Found")


class Gate(ABC, Generic[Found]):
    """One restriction. ``find`` is its answer, which changes nothing; the cycle and the reason of a job ask for it."""

    # Whether it depends on who owns a unit or on what its group uses: then it says nothing of units like it.
    of_owner = False
    # Whether it refuses nothing while one group alone waits.
    between_groups = False

    def opens(self) -> bool:
        """Return whether it can refuse any unit in the decision that begins."""
        return True

    @abstractmethod
    def find(self, job: JobEntry) -> Found | None:
        """Return why the next unit of a queued job may not start; ``None`` if it may."""

    def found_last(self, job: JobEntry) -> Found | None:
        """Return the answer of the last pass, as far as it still holds: another one than ``find`` only where a pass
        itself changes it.
        """
        return self.find(job)

    @abstractmethod
    def kind(self, found: Found) -> Verdict:
        """Return the kind of a refusal."""

    def note(self, job: JobEntry, found: Found) -> int:
        """Take note of a refusal in a pass; return the time (µs) at which it ends by itself."""
        return NEVER

    def veto(self, job: JobEntry, found: Found) -> Veto:
        """Return a refusal as the reason why the job waits."""
        return Veto(kind=self.kind(found), job=job.job.id, group=job.group.name)
