"""The starts of all waiting jobs in a run forward with the estimates of the machine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from cress.core.answers.forward import Forecast, Forward
from cress.core.openings import EndsBy
from cress.lifecycle.context import Context
from cress.lifecycle.explaining import estimates

# The most jobs whose starts are foretold, in the order of submission.
MOST_JOBS = 10_000


def foretold(context: Context, by: EndsBy, patient: Callable[[], bool]) -> dict[int, Forecast]:
    """Return the starts of waiting jobs, as waits from now (µs); those that are not reached in time are left out.

    It consumes the scheduler of ``context``, which must be a copy.
    """
    core = context.core
    now = core.now
    # Tasks that are retried after a pause do not wait yet.
    later = {number for _, number, _ in core.books.later}
    waiting = [number for number, job in core.jobs.items() if job.waiting or number in later]
    starts = Forward(core, by, estimates(context), patient).until_starts(islice(waiting, MOST_JOBS))
    return {job: found._replace(start=found.start - now) for job, found in starts.items() if found.start is not None}
