"""Facts about changed jobs: another description of a job that waits or runs."""

from __future__ import annotations

import msgspec

from cress.core.books import Books
from cress.core.claims import drop_claims
from cress.core.combined_restarts import leave_units
from cress.core.facts.rows import LOOSENS, Rows
from cress.core.job_ends import deadline_of
from cress.core.jobs import JobEntry, describe
from cress.core.kernels.holding import END
from cress.core.placing.kinds import constraints_of
from cress.core.queueing import out_of_queue
from cress.core.stored.fields import ForeseenJob
from cress.model.events import JobChanged
from cress.model.job import Job
from cress.model.times import NEVER


class ChangeAppliers:
    """Submitted jobs get new values of some of their keys."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._jobs = books.jobs
        self._groups = books.groups

    def rows(self) -> Rows:
        """Return the rows of the ledger's table."""
        return {JobChanged: (self._changed, LOOSENS)}

    def _changed(self, event: JobChanged) -> None:
        books, new = self._books, event.job
        job = self._jobs.get(new.id)
        if job is None or job.cancelled:
            return
        if job.queued:
            books.dequeue(job)
        if is_placed_anew(job.job, new):
            self._place_anew(job, new)
        else:
            job.job = new
            describe(job)
        job.deadline = deadline_of(books, job)
        job.would_preempt = False
        self._expect_ends(job)
        books.plans.forget(job)
        books.running.forget()
        # It may now be short enough for a loan.
        books.pool.stamp += 1
        if out_of_queue(job) is None:
            books.enqueue(job)
        self._groups.reorder(job.group)

    def _place_anew(self, job: JobEntry, new: Job) -> None:
        """Let a job without running tasks ask for other places: in another group, of another size, by other clauses."""
        books = self._books
        leave_units(books, job)
        drop_claims(books, job, again=True)
        if job.queued:
            books.dequeue(job)
        books.forget_relations(job)
        before = job.group
        before.jobs -= 1
        job.job, job.group = new, self._groups.get(new.group)
        job.constraints = constraints_of(new, books.dimensions)
        job.shape = books.shapes.first(new, job.constraints)
        job.foreseen, job.relaxes_at = ForeseenJob(), NEVER
        describe(job)
        books.add_job(job)
        # Other jobs may name this one, in its old group or in its new one.
        books.relations.forget_counts()
        books.fit.rematch()
        self._groups.reorder(before)

    def _expect_ends(self, job: JobEntry) -> None:
        """Expect the ends of running tasks by the present time limit and estimate."""
        books, group = self._books, job.group
        for attempt in job.attempts.values():
            if attempt.stopping:
                continue
            last = NEVER if job.limit >= NEVER else attempt.start + job.limit
            run = job.run if group.predicts else job.limit
            expected = last if run >= NEVER or attempt.start + run <= books.now else min(last, attempt.start + run)
            if (expected, last) == (attempt.expected, attempt.last_end):
                continue
            books.expected.move(attempt, expected, last)
            end = expected if group.trusts or not group.predicts else last
            if int(books.cluster.leases[attempt.slot, END]) != end:
                books.leases.set_end(attempt.slot, end)


# Fields of a job that change neither its group nor what a place for it must have.
_WITHOUT_PLACE = dict.fromkeys(("priority", "deadline", "within", "max_running", "retries", "backoff"), 0)


def is_placed_anew(before: Job, after: Job) -> bool:
    """Return True if a change of a job concerns its group, its request or its constraints."""
    kept = {**_WITHOUT_PLACE, "time_limit": None}
    return msgspec.structs.replace(before, **kept) != msgspec.structs.replace(after, **kept)
