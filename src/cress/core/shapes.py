"""Shapes of waiting jobs: what the next unit asks for now, and what follows when that changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cress.core.asking import Asking
from cress.core.future.plans import Plans
from cress.core.jobs import JobEntry, asks_alike
from cress.core.placing.balance import Balance
from cress.core.placing.constraints import NO_WANTS, Constraints, Wants
from cress.core.placing.fit import Fit
from cress.core.placing.kinds import unit_asked
from cress.core.placing.shape import Shape
from cress.core.relaxation import RelaxationTimes
from cress.core.tables.cluster import Cluster
from cress.core.unit_constraints import beside_running, combination
from cress.core.units import Units
from cress.model.job import Job
from cress.model.resources import ResourceVector


class Present(Protocol):
    """The time (µs) of the core."""

    now: int


@dataclass(eq=False)
class Shapes:
    """Shapes of jobs, under their current constraints."""

    _present: Present
    _fit: Fit
    _balance: Balance
    _plans: Plans
    _relaxing: RelaxationTimes
    _asking: Asking
    _units: Units

    def __post_init__(self) -> None:
        self._cluster: Cluster = self._fit.cluster
        self._dependencies = self._units.dependencies

    def first(self, job: Job, constraints: Constraints | None) -> Shape:
        """Return the shape of a job that does not wait yet, its own constraints left out."""
        size = job.tasks if job.gang else 1
        return self._fit.shape(job.request, size) if constraints is None else Shape(job.request, size)

    def shape_of(self, job: JobEntry, size: int, tasks: Sequence[int] = ()) -> Shape:
        """Return the shape of ``size`` tasks of the job, or of its next unit, under its current constraints.

        ``tasks``: the tasks meant, for a gang with parts.
        """
        request, wants = self.asked_by(job, size, tasks)
        return self._fit.shape(request, size, wants)

    def asked_by(self, job: JobEntry, size: int = 1, tasks: Sequence[int] = ()) -> tuple[ResourceVector, Wants]:
        """Return the amounts and the current constraints of the same unit."""
        companions = job.unit() if job.shares_node else []
        if companions:
            home = job.foreseen.homes.get(job.upcoming)
            if home is not None:
                name = self._cluster.names[home]
                request, wants = beside_running(
                    self._dependencies, job, companions, self._present.now, self._balance.utilisation, name
                )
            else:
                request, wants = combination(
                    self._dependencies, job, companions, self._present.now, self._balance.utilisation
                )
            return request, self._asking.unit_as_asked(job, wants)
        numbers = (tasks or job.next_unit()) if job.job.parts else None
        soft, name = job.foreseen.soft, job.group.name
        request, wants = unit_asked(job.job, job.constraints, soft, name, size, numbers)
        return request, self._asking.as_asked((job.job,), wants)

    def enter(self, job: JobEntry) -> None:
        """Give a job that enters its queue the shape of its next unit."""
        if not self._stays(job):
            self.reshape(job, self.shape_of(job, job.unit_size))
            self._relaxing.note(job, self._present.now)
        self._fit.want(job.shape)

    def _stays(self, job: JobEntry) -> bool:
        """Return True if the shape of a job is that of its next unit, because it asks for amounts only."""
        shape = job.shape
        return (
            asks_alike(job)
            and shape.wants is NO_WANTS
            and shape.row >= 0
            and shape.size == job.unit_size
            and not self._asking.is_asked
        )

    def renew(self, job: JobEntry) -> None:
        """Update the shape of a job whose unit waits, in its queue or for claimed room; others changed its wants."""
        if job.queued:
            self.refit(job)
        elif job.claims:
            self.fit_anew(job)

    def look_at(self, job: JobEntry) -> None:
        """Update the shape of a waiting job: clauses may have become soft or hard."""
        self._units.in_doubt = self._units.in_doubt or job.shares_node
        if self.weigh(job) or job.shares_node:
            self.fit_anew(job)
        self._relaxing.note(job, self._present.now)

    def refit(self, job: JobEntry) -> None:
        """Update the shape of a job after its next unit has changed."""
        if job.queued:
            self.weigh(job)
            self.fit_anew(job)
            self._relaxing.note(job, self._present.now)

    def fit_anew(self, job: JobEntry) -> None:
        """Give a job, or its claims, the shape of its next unit."""
        old = job.shape
        shape = self.shape_of(job, job.unit_size if job.queued else old.size)
        if shape is old:
            return
        self.reshape(job, shape)
        if job.queued:
            self._fit.want(job.shape)
            self._fit.unwant(old)
            job.group.policy.reshaped(job)
        # Earlier failures, reservations and plans belong to another shape.
        self._plans.forget(job)
        self._cluster.loosened += 1

    def weigh(self, job: JobEntry) -> bool:
        """Make every clause of a job hard or soft as due now; return True if one has changed."""
        if job.constraints is None:
            return False
        soft = job.constraints.soft_with(self._present.now - job.since, self._balance.utilisation)
        changed = soft != job.foreseen.soft
        job.foreseen.soft = soft
        return changed

    def reshape(self, job: JobEntry, shape: Shape) -> None:
        """Give a job and its claims another shape."""
        if shape is job.shape:
            return
        job.shape = shape
        for claim in job.claims:
            own = self.claimed(job)
            if own is not claim.shape:
                self._fit.want(own)
                self._fit.unwant(claim.shape)
                claim.shape = own

    def claimed(self, job: JobEntry) -> Shape:
        """Return the shape of a claimed unit of the job, which never starts together with other jobs."""
        if not job.shares_node or not job.unit():
            return job.shape
        wants = self._asking.as_asked((job.job,), job.wants_of(job.upcoming))
        return self._fit.shape(job.job.request, 1, wants)
