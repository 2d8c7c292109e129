"""The expected starts of all waiting jobs, from one run forward with the estimates and the wall clock of the machine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import msgspec

from cress.core.answers.forward import Forward
from cress.core.answers.start_errors import Interval, StartErrors
from cress.core.openings import EndsBy
from cress.lifecycle.context import Context
from cress.lifecycle.explaining import estimates
from cress.model.explanation import ExpectedStart

# The most jobs whose starts are foretold, in the order of submission.
MOST_JOBS = 5_000


class ForetoldStart(msgspec.Struct, frozen=True):
    """The expected start of a job (UTC, µs), and the wait in the run forward, from which it was learned (µs)."""

    start: ExpectedStart
    wait: int


def foretold(context: Context, errors: StartErrors, patient: Callable[[], bool]) -> dict[int, ForetoldStart]:
    """Return the expected starts of waiting jobs; those that the run does not reach in its time are left out.

    It consumes the scheduler of ``context``, which must be a copy.
    """
    core, utc = context.core, context.utc
    now = core.now
    waiting = [number for number, job in core.jobs.items() if job.waiting]
    forward = Forward(core, EndsBy.MEAN, estimates(context), patient)
    result: dict[int, ForetoldStart] = {}
    for number, found in forward.until_starts(islice(waiting, MOST_JOBS)).items():
        if found.start is not None:
            wait = found.start - now
            told = errors.interval(wait)
            result[number] = ForetoldStart(
                ExpectedStart(
                    earliest=utc + told.earliest,
                    likely=utc + told.likely,
                    latest=utc + told.latest,
                    because=found.because,
                    behind=found.behind,
                    ahead=found.ahead,
                ),
                wait,
            )
    return result


def interval_of(foreseen: ForetoldStart, utc: int) -> Interval:
    """Return the waits (µs) from ``utc`` until the three moments of an expected start."""
    start = foreseen.start
    early, likely, late = (max(0, (at or utc) - utc) for at in (start.earliest, start.likely, start.latest))
    return Interval(early, likely, late)
