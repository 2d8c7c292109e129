"""The starts of all waiting jobs in a run forward with the estimates of the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from cress.core.advance.gaps import kept_off_until
from cress.core.answers.forward import Forecast, Forward
from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.openings import EndsBy
from cress.lifecycle.context import Context
from cress.lifecycle.explaining import estimates
from cress.lifecycle.jobs.awaited_times import time_of
from cress.lifecycle.tables.family_rows import Family
from cress.model.job import Condition, JobType
from cress.model.times import NEVER

# The most jobs whose starts are foretold, in the order of submission.
MOST_JOBS = 10_000
# The most kinds of jobs for which it is found out how long reservations keep them off.
MOST_KINDS = 200
# The most dependencies that are followed; of the jobs beyond them nothing is foreseen.
MOST_DEPENDENCIES = 100_000


def foretold(context: Context, by: EndsBy, patient: Callable[[], bool]) -> dict[int, Forecast]:
    """Return the starts of waiting jobs, as waits from now (µs); those that are not reached in time are left out.

    It consumes the scheduler of ``context``, which must be a copy.
    """
    core = context.core
    now = core.now
    # Tasks that are retried after a pause, or wait for those of another job, do not wait for room yet.
    waiting = list(islice((number for number, job in core.jobs.items() if job.waiting or job.later), MOST_JOBS))
    known: dict[object, int] = {}
    at = dict(_times(context, waiting))
    least = {
        number: max(_not_before(core.books, core.jobs[number], known), at.get(number, now)) - now for number in waiting
    }
    dependencies = dict(_dependencies(context, waiting))
    forward = Forward(core, by, estimates(context), patient, dependencies, context.behind_tasks, at)
    starts = forward.until_starts(waiting)
    return {
        job: found._replace(start=found.start - now, least=least[job])
        for job, found in starts.items()
        if found.start is not None
    }


def resumes(context: Context, number: int) -> int:
    """Return the moment (µs since the epoch) at which a job waits again that pauses after a failure; 0 for others."""
    job = context.core.jobs.get(number)
    if job is None or job.waiting or not job.later:
        return 0
    end = _end_of_pause(job)
    return end - context.now + context.utc if end < NEVER else 0


def _not_before(core: Books, job: JobEntry, known: dict[object, int]) -> int:
    """Return the time (µs) before which a waiting job does not start, as far as that does not depend on other jobs.

    ``known`` are times of jobs that reservations keep off alike; of further ones nothing is said.
    """
    if not job.waiting:
        end = _end_of_pause(job)
        return end if end < NEVER else core.now
    if not job.queued:
        return core.now
    kept = core.now
    if core.advance_reservations:
        alike = (job.shape.row, job.duration, job.group.name)
        if alike not in known and len(known) < MOST_KINDS:
            known[alike] = kept_off_until(core, job) or core.now
        kept = known.get(alike, core.now)
    if job.relaxes_at < NEVER and core.fit.excluded(job.shape).all():
        return max(kept, job.relaxes_at)
    return kept


def _end_of_pause(job: JobEntry) -> int:
    """Return the time (µs) at which a job waits again after a failure; NEVER if its tasks wait for other ones.

    A gang starts again as a whole.
    """
    return max(job.later.values()) if job.job.gang else min(job.later.values())


def _dependencies(context: Context, waiting: Iterable[int]) -> Iterator[tuple[int, Sequence[frozenset[int]]]]:
    """Yield the jobs that start when others have ended, with sets of these others, as far as it can be foreseen.

    Every run succeeds in a run forward. What depends on a failure, on values of a step, on things outside of the
    cluster or on a service is not foreseen.
    """
    # Thousands of jobs may come after the same dag of thousands of steps, which is one set for all of them.
    known: dict[int, frozenset[int]] = {}
    followed = 0
    for number in waiting:
        job = context.jobs.get(number)
        unmet = () if job is None else job.unmet_as_whole
        if job is None or not unmet or job.awaits or job.job.when:
            continue
        followed += len(unmet)
        if followed > MOST_DEPENDENCIES:
            return
        for other, condition in unmet:
            family = context.families.get(other)
            if condition is Condition.FAILED or (family is not None and family.job.type is not JobType.DAG):
                break
            if other not in known:
                known[other] = frozenset([other] if family is None else _unfinished(context, family))
        else:
            yield number, [others for other, _ in unmet if (others := known[other])]


def _times(context: Context, waiting: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the jobs that wait for nothing but times (``wait_for``), each with the last of them (µs), from now on."""
    for number in waiting:
        job = context.jobs.get(number)
        if job is not None and job.awaits and not (job.unmet or job.awaits_outside):
            yield number, max(context.now, *(time_of(context, job, thing) for thing in job.awaits))


def _unfinished(context: Context, family: Family) -> Iterator[int]:
    return (number for number in family.members.values() if number in context.jobs)
