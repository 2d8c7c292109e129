"""Judgement of ends: the task has succeeded, has failed, or is retried."""

from __future__ import annotations

from typing import NamedTuple

from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.events import Outcome
from cress.model.options import Options
from cress.model.reports import Cause, Ended

# The key of a gang in ``LiveJob.failures``: it fails, and is retried, as a whole.
WHOLE = -1
# The word for an attempt whose lease was returned.
RELEASED = "released"


_FAILED = {Cause.TIME_LIMIT: Outcome.TIMED_OUT, Cause.MEMORY: Outcome.OUT_OF_MEMORY}
# Causes of ends without an order.
_BY_ITSELF = frozenset({Cause.EXITED, Cause.TIME_LIMIT, Cause.MEMORY})


class Judgement(NamedTuple):
    """The outcome of an attempt, and the flag that its task is retried, ``after`` µs."""

    outcome: Outcome
    again: bool = False
    after: int = 0


def judge(
    job: LiveJob, attempt: LiveAttempt, report: Ended, options: Options, *, stopping: bool, elsewhere: bool
) -> Judgement:
    """Judge the end of an attempt; ``stopping``: an order to stop it was decided; ``elsewhere``: other nodes take
    tasks.
    """
    # The holder of a reclaimed lease may have told the program before, which then exits in good order.
    taken = job.job.is_lease and bool(attempt.halted) and not job.ending
    if report.cause is Cause.EXITED and report.code == 0 and not taken:
        return Judgement(Outcome.SUCCEEDED)
    if attempt.halted == RELEASED:
        # Its holder has finished with it.
        return Judgement(Outcome.SUCCEEDED)
    if job.ending:
        # Tasks of a gang often fail together: each keeps its own outcome, in any order of the reports.
        return Judgement(failed(report) if job.failing and report.cause in _BY_ITSELF else Outcome.CANCELLED)
    # An attempt that was to stop for others is retried, however it ended.
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
        # Not on this node while the port is taken; elsewhere, or later, it may be free.
        return Judgement(Outcome.FAILED, again=True, after=options.start_backoff)
    if report.cause is Cause.NOT_STARTED:
        tries = job.unstarted.get(attempt.task, 0) + 1
        return Judgement(Outcome.FAILED, again=elsewhere and tries < options.start_tries, after=options.start_backoff)
    failures = job.failures.get(place_of(job, attempt), 0)
    if failures < job.job.retries:
        return Judgement(failed(report), again=True, after=backoff(job.job.backoff, failures, options.backoff_most))
    return Judgement(failed(report))


def failed(report: Ended) -> Outcome:
    """Return the outcome of a failed attempt: time limit, lack of memory, or other failure."""
    return _FAILED.get(report.cause, Outcome.FAILED)


def place_of(job: LiveJob, attempt: LiveAttempt) -> int:
    """Return the key under which the failures of the attempt's task are counted."""
    return WHOLE if job.job.gang else attempt.task


def backoff(first: int, failures: int, most: int) -> int:
    """Return the wait before the retry of a task with ``failures`` earlier failures: doubled each time, at most
    ``most``.
    """
    # A number of more than 63 bits has no use, and is slow to compute.
    return min(first << min(failures, 63), most)
