"""Judgement of ends: the task is done, has failed, or is retried."""

from __future__ import annotations

from typing import NamedTuple

from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.events import Outcome
from cress.model.options import Options
from cress.model.reports import Cause, Ended

# The place in ``LiveJob.failures`` of a gang: it fails, and is tried again, as a whole.
WHOLE = -1
# The word for an attempt whose lease was given back.
RELEASED = "released"


_FAILED = {Cause.TIME_LIMIT: Outcome.TIMED_OUT, Cause.MEMORY: Outcome.OUT_OF_MEMORY}
# Causes of ends that nobody asked for.
_BY_ITSELF = frozenset({Cause.EXITED, Cause.TIME_LIMIT, Cause.MEMORY})


class Judgement(NamedTuple):
    """The outcome of an attempt, and whether its task is tried again, ``after`` so many µs."""

    outcome: Outcome
    again: bool = False
    after: int = 0


def judge(
    job: LiveJob, attempt: LiveAttempt, report: Ended, options: Options, *, stopping: bool, elsewhere: bool
) -> Judgement:
    """Judge the end of an attempt; ``stopping``: it was to be told to stop; ``elsewhere``: other nodes take tasks."""
    # The program of a lease that is taken from its holder may be told by the holder first, and leave in good order.
    taken = job.job.is_lease and bool(attempt.halted) and not job.ending
    if report.cause is Cause.EXITED and report.code == 0 and not taken:
        return Judgement(Outcome.SUCCEEDED)
    if attempt.halted == RELEASED:
        # Whoever held it is done with it.
        return Judgement(Outcome.SUCCEEDED)
    if job.ending:
        # Tasks of a gang often fail together: each has its own end, whichever was reported first.
        return Judgement(failed(report) if job.failing and report.cause in _BY_ITSELF else Outcome.CANCELLED)
    # One that was to stop for others runs again, however it came to its end.
    wanted = job.job.job_failure or bool(attempt.halted) or stopping
    if report.cause is Cause.UNKNOWN:
        return Judgement(Outcome.LOST, again=wanted)
    if attempt.halted or stopping or report.cause is Cause.STOPPED:
        return Judgement(Outcome.PREEMPTED, again=True)
    if report.cause in (Cause.SHUTDOWN, Cause.TERM):
        return Judgement(Outcome.LOST, again=wanted)
    if report.cause is Cause.NODE:
        return Judgement(Outcome.LOST, again=True)
    if report.cause is Cause.PORT:
        # Not there for as long as the port is taken; elsewhere, or there later, it may be free.
        return Judgement(Outcome.FAILED, again=True, after=options.start_backoff)
    if report.cause is Cause.NOT_STARTED:
        tries = job.unstarted.get(attempt.task, 0) + 1
        return Judgement(Outcome.FAILED, again=elsewhere and tries < options.start_tries, after=options.start_backoff)
    failures = job.failures.get(place_of(job, attempt), 0)
    if failures < job.job.retries:
        return Judgement(failed(report), again=True, after=backoff(job.job.backoff, failures, options.backoff_most))
    return Judgement(failed(report))


def failed(report: Ended) -> Outcome:
    """Return the outcome of an attempt that failed: by its time limit, for want of memory, or otherwise."""
    return _FAILED.get(report.cause, Outcome.FAILED)


def place_of(job: LiveJob, attempt: LiveAttempt) -> int:
    """Return the key under which the failures of the attempt's task are counted."""
    return WHOLE if job.job.gang else attempt.task


def backoff(first: int, failures: int, most: int) -> int:
    """The wait before a task is tried again that failed ``failures`` times before: doubled each time, at most
    ``most``.
    """
    # A number of more than 63 bits is of no use to anybody, and slow to make.
    return min(first << min(failures, 63), most)
