"""Changes of limits on running jobs (design note 0031): everything is counted again, and excess claims are dropped."""

from __future__ import annotations

from cress.core.books import Books
from cress.core.running_jobs import QueuedJobs


def recount(core: Books) -> None:
    """Count all running and waiting jobs again, after a change of groups or limits."""
    if not any(group.counters for group in core.groups):
        return
    for group in core.groups:
        group.waiting_jobs = QueuedJobs()
        for counter in group.counters:
            counter.forget()
    for job in core.jobs.values():
        times = len(job.attempts) + len(job.claims)
        for counter in job.group.counters if times else ():
            counter.begin(job.owned, times)
        if job.queued and job.group.counters:
            job.group.waiting_jobs.add(job.owned)
    for group in core.groups:
        if group.counters:
            core.groups.reorder(group)


def drop_claims_beyond(core: Books) -> None:
    """Drop the newest claims beyond the present limits on running jobs; no start exceeds a limit."""
    for claim in reversed(list(core.claims)):
        job = claim.job
        if not any(counter.is_over(job.job.user) for counter in job.group.counters) or claim.moved is not None:
            continue
        runs = {each.job.job.counted_as for each in job.group.attempts.values()}
        if claim in core.claims and job.job.counted_as not in runs:
            core.drop_claim(claim, again=True)
