"""Changes of limits on running jobs (design note 0031): claims beyond them are dropped."""

from __future__ import annotations

from cress.core.books import Books
from cress.core.claims import drop_claim


def drop_claims_beyond(core: Books) -> None:
    """Drop the newest claims beyond the present limits on running jobs; no start exceeds a limit."""
    for claim in reversed(list(core.claims)):
        job = claim.job
        if not any(counter.is_over(job.job.user) for counter in job.group.counters) or claim.moved is not None:
            continue
        runs = {each.job.job.counted_as for each in job.group.attempts.values()}
        if claim in core.claims and job.job.counted_as not in runs:
            drop_claim(core, claim, again=True)
