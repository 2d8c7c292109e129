"""The cost of victims of an urgent unit, and the most that they may cost."""

from __future__ import annotations

from cress.core.jobs import Attempt, JobEntry
from cress.model.times import NEVER

# Victims of an urgent unit may lose this many times as much work if they have no deadline to lose.
WITHOUT_DEADLINE = 10


def cost_of(victim: Attempt, now: int) -> float:
    """Return the work (µs × millicores) that counts as lost with a victim of an urgent unit.

    Without a deadline it is a tenth of what the victim has done: no deadline is lost with it.
    """
    done = (now - victim.start) * max(1, victim.amounts[0])
    return done if victim.job.deadline < NEVER else done / WITHOUT_DEADLINE


def worthwhile(job: JobEntry) -> float:
    """Return the most work (µs × millicores) that victims may lose together for an urgent unit of a job."""
    return (
        job.group.options.urgency_cost
        * job.longest
        * sum(number * max(1, request[0]) for request, number in job.unit_requests())
    )
