"""Facts about attempts: they start, are adopted, are told to stop, and end."""

from __future__ import annotations

from functools import partial
from heapq import heappush

from cress.core import adoption
from cress.core.books import Books
from cress.core.claims import remove_claim
from cress.core.combined_restarts import has_ended, start_unit
from cress.core.facts.rows import BY_TABLES, LOOSENS, Rows
from cress.core.fragments.use import leave_leases, row_beside_loan, use_leases
from cress.core.job_ends import end_of, expected_end
from cress.core.job_times import last_end
from cress.core.jobs import Attempt, ClaimEntry, JobEntry
from cress.core.kernels.holding import END, NONE
from cress.core.queueing import out_of_queue
from cress.core.tables import devices
from cress.model.decisions import Preempt, Start, Stop
from cress.model.events import ForeignUse, Outcome, TaskAdopted, TaskEnded


class AttemptAppliers:
    """Attempts come and go, with their leases and charges."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._cluster = books.cluster
        self._leases = books.leases
        self._groups = books.groups
        self._pool = books.pool
        self._jobs = books.jobs
        self._attempts = books.attempts
        self._dependencies = books.relations.dependencies

    def rows(self) -> Rows:
        """Return the rows of the ledger's table; starts come with a lease, and have ``start``."""
        return {
            TaskEnded: (self._ended, BY_TABLES),
            TaskAdopted: (partial(adoption.adopt, self._books), LOOSENS),
            ForeignUse: (partial(adoption.use, self._books), LOOSENS),
            Stop: (self._stopped, BY_TABLES),
            Preempt: (self._preempted, BY_TABLES),
        }

    # --- starts ------------------------------------------------------------------------------------------------

    def start(self, fact: Start, slot: int) -> None:
        """Start a task, in the lease in ``slot`` if one is held for it."""
        books, cluster = self._books, self._cluster
        job = self._jobs[fact.job]
        group = job.group
        f = cluster.index[fact.node]
        assert fact.attempt not in self._attempts, f"attempt {fact.attempt} starts twice"
        retried = job.again != []
        for part in fact.parts:
            self._pool.take(self._pool.leases[part.lease], self._pool.placed(f, part))
        if slot == NONE:
            slot = self._hold(fact, job, f)
        claim, leads = None, False
        if fact.claimed:
            claim = job.claim_of(fact.task)
            claim.tasks.remove(fact.task)
            leads = job.waits_whole and start_unit(books, job, fact.task)
        elif fact.leader is not None:
            del job.carried[fact.task]
        else:
            job.take(fact.task)
            leads = bool(job.companions or job.job.starts_with) and start_unit(books, job, fact.task)
        self._enter(fact, job, f, slot)
        if claim is not None:
            if not claim.tasks:
                remove_claim(books, claim)
                if not job.queued and out_of_queue(job) is None:
                    books.enqueue(job)
        elif fact.leader is not None:
            if group.key is not None or group.count_alike:
                self._groups.reorder(group)
        elif not (job.job.gang and job.waiting) or job.starts_in_part:
            # A gang starts as a whole, so its last task takes it out of the queue.
            self._after_start(job, changed=leads or job.job.gang or (retried and job.constraints is not None))
        if self._dependencies.in_use:
            self._doubt_units(job, fact.task, None)
        if cluster.gone or (fact.devices and devices.takes_disk(fact.devices)):
            self._check_room(claim, f)

    def _enter(self, fact: Start, job: JobEntry, f: int, slot: int) -> None:
        """Enter the attempt of a start."""
        books, group = self._books, job.group
        fixed = group.counts_cores and job.cpu_charge
        charge = fixed or group.charge(job.job.request_of(fact.task), self._cluster.specs[f].capacity, f)
        number = fact.attempt
        if number >= books.next_attempt:
            books.next_attempt = number + 1
        expected = expected_end(books, job)
        attempt = Attempt(
            job=job, id=number, task=fact.task, node=f, slot=slot, start=books.now, charge=charge, expected=expected,
            last_end=last_end(job, books.now, expected), amounts=job.job.request_of(fact.task),
            ports=fact.ports + fact.more_ports, due=fact.due,
        )  # fmt: skip
        books.enter_attempt(attempt)
        use_leases(books, fact, attempt)

    def _check_room(self, claim: ClaimEntry | None, f: int) -> None:
        """Check the room on a node after a start.

        A whole device, beside a removed one or reduced since, may exceed the amounts left on the node.
        """
        if claim is None:
            adoption.check_room(self._books, f)
        elif not claim.tasks:
            # Until its last task has started, its nodes hold both the started tasks and the bookings for it.
            for node, _ in claim.reservation.nodes:
                adoption.check_room(self._books, node)

    def _after_start(self, job: JobEntry, *, changed: bool) -> None:
        """Remove a job from its queue after its unit has started, or update its next unit.

        ``changed``: the next unit may have another shape.
        """
        books = self._books
        if not job.waiting or job.full:
            books.dequeue(job)
        else:
            books.turns.forget(job)
            if changed or job.companions:
                books.shapes.refit(job)
        self._groups.reorder(job.group)

    def _hold(self, fact: Start, job: JobEntry, f: int) -> int:
        """Hold the lease of a start that was decided by another scheduler."""
        end = end_of(self._books, job)
        mask, alone = devices.mask_for(self._cluster, f, fact.devices)
        row = row_beside_loan(self._books, fact, job, f, mask)
        if row is not None:
            return self._leases.hold_amounts(f, row, end)
        request = job.job.request_of(fact.task)
        amounts = devices.widened(self._cluster, f, request, mask) if alone else request
        return self._leases.hold_amounts(f, amounts, end, mask, alone)

    # --- ends --------------------------------------------------------------------------------------------------

    def _ended(self, event: TaskEnded) -> None:
        attempt = self._attempts.get(event.attempt)
        if attempt is None:
            stranger = self._books.strangers.get(event.attempt)
            if stranger is not None:
                adoption.leave(self._books, stranger)
            # The end was reported twice, or the node had been declared lost.
            return
        again, after = event.again, event.after
        # A victim is queued again whatever its outcome; a task of a cancelled job is not.
        victim = attempt.stopping and event.outcome is not Outcome.SUCCEEDED
        lost = event.outcome is Outcome.LOST and (attempt.job.job.job_failure or again)
        if victim or lost or event.outcome is Outcome.PREEMPTED:
            again, after = True, 0
        self.give_back(attempt, again, after)

    def give_back(self, attempt: Attempt, again: bool, after: int = 0) -> None:
        """Release lease and charge of an ended attempt; its task is done, or waits again after ``after`` µs."""
        books, cluster = self._books, self._cluster
        job = attempt.job
        group = job.group
        books.remove_attempt(attempt)
        leave_leases(books, attempt, again)
        if cluster.gone or cluster.overdrawn:
            adoption.released(books, attempt.node)
        again = again and not job.cancelled
        if self._dependencies.in_use:
            self._doubt_units(job, attempt.task, attempt.node if again else None)
        if attempt.task in job.beside:
            has_ended(books, job, attempt.task, again)
        elif not (job.claims and self._arrives(attempt, again)) and again:
            self._wait_again(job, attempt.task, after)
        if job.queued or (job.waiting and out_of_queue(job) is None):
            if again or not job.queued:
                books.queue_again(job)
        elif not job.attempts:
            books.drop_if_over(job)
        if group.key is not None or group.counters:
            self._groups.reorder(group)

    def _arrives(self, attempt: Attempt, again: bool) -> bool:
        """Return True if the ended attempt was moved and its task runs ``again``: the task is claimed now."""
        claim = next((claim for claim in attempt.job.claims if attempt.id in claim.victims and not claim.tasks), None)
        if claim is None:
            return False
        if again:
            claim.tasks.append(attempt.task)
        else:
            remove_claim(self._books, claim)
        return True

    def _wait_again(self, job: JobEntry, task: int, after: int) -> None:
        """Let a task wait again, ``after`` µs from now; a gang starts again as a whole."""
        books = self._books
        if after:
            job.later[task] = books.now + after
            heappush(books.later, (books.now + after, job.job.id, task))
        else:
            job.put_back(task, books.now)
        if job.job.gang:
            books.stop_all(job)
            if job.queued and out_of_queue(job) is not None:
                books.dequeue(job)

    def _doubt_units(self, job: JobEntry, task: int, f: int | None) -> None:
        """Mark the units for a check, because a task has started, has ended, or waits again after it ran on node
        ``f``.
        """
        units = self._books.units
        if units.concern(job):
            units.in_doubt = True
            if f is None:
                job.was_on.pop(task, None)
            else:
                job.was_on[task] = f

    # --- stops -------------------------------------------------------------------------------------------------

    def _stopped(self, fact: Stop) -> None:
        attempt = self._attempts.get(fact.attempt)
        if attempt is not None:
            self._books.to_stop.pop(fact.attempt, None)
            self._books.advance_reservations.ending.pop(fact.attempt, None)
            self.leave(attempt, fact.end)

    def leave(self, attempt: Attempt, end: int) -> None:
        """Count an attempt as stopping; its lease is expected back at ``end`` (µs)."""
        leases = self._cluster.leases
        if not attempt.stopping:
            self._books.mark_leaving(attempt)
        if attempt.last_end > end:
            self._books.expected.move(attempt, min(attempt.expected, end), end)
            if int(leases[attempt.slot, END]) > end:
                self._leases.set_end(attempt.slot, end)
        for part in attempt.parts:
            if part.lease is None and int(leases[part.slot, END]) > end:
                self._leases.set_end(part.slot, end)

    def _preempted(self, fact: Preempt) -> None:
        """Count an attempt as stopping that leaves a lease to another task of its workload; victims of a claim already
        count.
        """
        attempt = self._attempts[fact.attempt]
        if not attempt.stopping:
            attempt.keeps = True
            self.leave(attempt, self._books.now + fact.grace)
            workload = self._pool.workload(self._jobs[fact.by])
            if workload is not None:
                workload.awaited[attempt.node] = fact.by
