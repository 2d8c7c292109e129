"""Facts about jobs: submits, estimates, cancels, holds."""

from __future__ import annotations

from heapq import heapify

from cress.core.books import Books
from cress.core.claims import drop_claims
from cress.core.combined_restarts import leave_units
from cress.core.facts.rows import BY_TABLES, Rows
from cress.core.job_ends import deadline_of, overdue_at
from cress.core.jobs import JobEntry
from cress.core.placing.kinds import constraints_of
from cress.core.placing.mix import asks_for_devices
from cress.core.queueing import out_of_queue
from cress.model.events import JobAfter, JobCancelled, JobHeld, JobSubmitted, RunEstimated, TasksReleased
from cress.model.times import NEVER


class JobAppliers:
    """Jobs come, go, and stop or begin to wait."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._jobs = books.jobs
        self._groups = books.groups
        self._mix = books.mix
        # True if the order of nodes needs the mix of likely shapes.
        self._learns = books.options.node_order == "fragmentation"

    def rows(self) -> Rows:
        """Return the rows of the ledger's table."""
        return {
            JobSubmitted: (self._submitted, BY_TABLES),
            RunEstimated: (self._run_estimated, BY_TABLES),
            JobCancelled: (self._cancelled, BY_TABLES),
            JobHeld: (self._held_or_released, BY_TABLES),
            JobAfter: (self._held_or_released, BY_TABLES),
            TasksReleased: (self._tasks_released, BY_TABLES),
        }

    def _submitted(self, event: JobSubmitted) -> None:
        books, job = self._books, event.job
        constraints = constraints_of(job, books.dimensions)
        state = JobEntry.of(
            job, self._groups.get(job.group), books.shapes.first(job, constraints), books.now, behind=event.behind,
            constraints=constraints, estimate=event.estimate,
        )  # fmt: skip
        if event.by_task:
            # Each task waits until it is released.
            state.waiting, state.next_task = 0, job.tasks
            state.later = dict.fromkeys(range(job.tasks), NEVER)
        state.first_attempt = books.next_attempt
        state.overdue_at = overdue_at(books, state)
        state.deadline = deadline_of(books, state)
        books.add_job(state)
        if out_of_queue(state) is None:
            books.enqueue(state)
        if self._learns and asks_for_devices(job):
            self._mix.arrive(job)
            if self._mix.due(len(self._jobs)):
                waiting = ((other.job, other.waiting) for other in self._jobs.values() if asks_for_devices(other.job))
                self._mix.renew(waiting)

    def _run_estimated(self, event: RunEstimated) -> None:
        books = self._books
        for number in event.jobs:
            job = self._jobs.get(number)
            if job is None or job.estimate == event.estimate:
                continue
            before = job.duration
            job.expect(event.estimate)
            # It may now be short enough for a loan.
            books.pool.stamp += 1
            if job.attempts:
                books.running.forget()
            if job.queued:
                job.group.policy.revalued(job)
                if job.duration != before:
                    # Earlier failures and reservations belong to another duration.
                    books.cluster.loosened += 1

    def _cancelled(self, event: JobCancelled) -> None:
        books = self._books
        job = self._jobs.get(event.job)
        if job is None or job.cancelled:
            return
        job.cancelled = True
        leave_units(books, job)
        drop_claims(books, job, again=False)
        if job.queued:
            books.dequeue(job)
        job.waiting = 0
        job.again.clear()
        job.waits.clear()
        if job.later:
            books.later = [entry for entry in books.later if entry[1] != event.job]
            heapify(books.later)
            job.later.clear()
        books.stop_all(job)
        books.drop_if_over(job)

    def _held_or_released(self, event: JobHeld | JobAfter) -> None:
        books = self._books
        job = self._jobs.get(event.job)
        if job is None or job.cancelled:
            return
        offered = not job.held and job.behind is None
        if isinstance(event, JobHeld):
            job.held = event.held
        else:
            job.behind = event.behind
        if not offered:
            job.wait_anew(books.now)
        if out_of_queue(job) is None:
            if not job.queued:
                books.enqueue(job)
        elif job.held or job.behind is not None:
            leave_units(books, job)
            drop_claims(books, job, again=True)
            if job.queued:
                books.dequeue(job)

    def _tasks_released(self, event: TasksReleased) -> None:
        books = self._books
        job = self._jobs.get(event.job)
        if job is None or job.cancelled:
            return
        for task in event.dropped:
            del job.later[task]
        for task in event.tasks:
            del job.later[task]
            job.put_back(task, books.now)
        if event.tasks:
            books.queue_again(job)
        books.drop_if_over(job)
