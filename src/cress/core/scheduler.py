"""The scheduler: the only entry to the core.

``observe`` applies events, ``decide`` runs passes of the cycle (source G, figure 3), ``next_wakeup`` returns the time
of the next change by itself. Times are microseconds on the caller's clock, which never goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cress.core.cycle import Cycle
from cress.core.diagnostics.match_report import CurrentConstraints, NodeMatch, current_constraints, match_nodes
from cress.core.invariants import broken_invariants
from cress.core.ledger import Fact
from cress.core.outlook import Behind, TimeLeft, foreseen, outlook
from cress.core.placing.vetoes import Veto
from cress.core.reason import why_waiting
from cress.core.state import export_state, restored
from cress.core.stored.state import CoreState
from cress.language.syntax import prepare
from cress.model.estimates import RunEstimate
from cress.model.job import Job
from cress.model.outlook import Outlook
from cress.model.times import NEVER


class Scheduler(Cycle):
    """The scheduler of one cluster, with its groups and jobs.

    ``zone`` is the time zone of quota timetables; the wall clock itself comes with ``ClockSet`` events.
    """

    def apply(self, now: int, facts: Sequence[Fact]) -> None:
        """Apply events and decisions of another scheduler, in their order, all at time ``now``; decide nothing.

        Promises are equal to the other's afterwards; foreseen values are computed again by the next ``decide``.
        """
        self.advance(now)
        self.forget_foreseen()
        for fact in facts:
            try:
                self.apply_fact(fact)
            except (LookupError, ValueError, StopIteration) as error:
                raise ValueError(f"{fact} contradicts the state of the cluster: the log is damaged") from error
        self.settle_batch()

    # --- explanations and state ------------------------------------------------------------------------------

    def veto(self, job_id: int) -> Veto | None:
        """Return why the next unit of a job waits, as of the last ``decide``; ``None`` if no task of it waits."""
        return why_waiting(self, job_id)

    def constraints(self, job_id: int) -> CurrentConstraints | None:
        """Return the current requirement and rank of a job as text; ``None`` if there is no such job."""
        job = self.jobs.get(job_id)
        return None if job is None else current_constraints(self, job)

    def estimate_of(self, job_id: int) -> RunEstimate | None:
        """Return the estimate of the run of one task of a job; ``None`` without an estimate or such a job."""
        job = self.jobs.get(job_id)
        return None if job is None else job.estimate

    def outlook(self, job_id: int, now: int | None = None, behind: Behind | None = None) -> Outlook | None:
        """Return the forecast for a job with a deadline; ``None`` without a deadline or such a job.

        For a step with the rest of a dag ``behind`` it, the forecast is that of its dag. ``now`` (µs): a time later
        than the last one given to the scheduler.
        """
        job = self.jobs.get(job_id)
        return None if job is None else outlook(self, job, max(self.now, now or 0), behind)

    def latest_start(self, job_id: int, behind: Behind | None = None) -> int:
        """Return the latest start (µs) with which a job meets its deadline by the optimistic estimates.

        NEVER if it has none, or runs. For a step with the rest of a dag ``behind`` it, the deadline is that of the
        dag.
        """
        job = self.jobs.get(job_id)
        if job is None or (job.attempts and not job.waiting) or job.deadline >= NEVER:
            return NEVER
        if behind is None:
            return job.deadline - job.shortest_left()
        return behind.deadline - (self.groups.wall_offset or 0) - behind.left.shortest - job.shortest_left()

    def left_of(self, job_id: int) -> TimeLeft | None:
        """Return the estimated time of a job from its start on; ``None`` if there is no such job."""
        job = self.jobs.get(job_id)
        return None if job is None else TimeLeft(job.shortest_left(), job.mean_left(), job.longest_left())

    def foreseen(self, job: Job, estimate: RunEstimate | None = None, behind: Behind | None = None) -> Outlook | None:
        """Return the forecast for a job that is not submitted; ``None`` without a deadline."""
        return foreseen(self, job, estimate, behind)

    @staticmethod
    def prepare_match() -> None:
        """Build the parts that ``match`` and submits with expressions need; it takes a tenth of a second, once.

        Any thread may call it.
        """
        prepare()

    def match(self, requirement: str = "", rank: str = "") -> list[NodeMatch]:
        """Evaluate a requirement and a rank on each present node, in the order of nodes; nothing changes.

        Raises ``InputError`` for invalid texts.
        """
        return match_nodes(self, requirement, rank)

    def validate(self) -> list[str]:
        """Return the broken invariants, each a sentence that begins with its name; empty if all hold."""
        return broken_invariants(self)

    def export(self) -> CoreState:
        """Return the whole state; it shares no changing object with the scheduler."""
        return export_state(self)

    @classmethod
    def restore(cls, state: CoreState | dict[str, Any]) -> Scheduler:
        """Return a scheduler that continues from an exported ``state`` with the same decisions.

        Plain data may come from an earlier version.
        """
        return restored(cls, state)

    def clone(self) -> Scheduler:
        """Return an independent copy, for trials."""
        return restored(type(self), self.export())
