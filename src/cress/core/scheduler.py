"""The scheduler: the only entry to the core.

``observe`` applies events, ``decide`` runs passes of the cycle (source G, figure 3), ``next_wakeup`` returns the time
of the next change by itself. Times are microseconds on the caller's clock, which never goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from functools import partial
from typing import Any

import msgspec

from cress.core.books import Books
from cress.core.cycle import Cycle
from cress.core.diagnostics.match_report import CurrentConstraints, NodeMatch, current_constraints, match_nodes
from cress.core.gates.gates import Gates
from cress.core.invariants import broken_invariants
from cress.core.job_times import longest_left, mean_left, shortest_left
from cress.core.ledger import Fact, Ledger
from cress.core.making_room.apart import Apart
from cress.core.making_room.evictions import Evictions
from cress.core.making_room.in_leases import InLeases
from cress.core.making_room.maker import RoomMaker
from cress.core.making_room.own_parts import OwnParts
from cress.core.offers import Offers
from cress.core.outlook import Behind, TimeLeft, foreseen, outlook
from cress.core.passes import Decided
from cress.core.passing_time import advance
from cress.core.placing.vetoes import Veto
from cress.core.questions import needs_estimate, never_fits, never_within_bounds, settled
from cress.core.reason import Reasons
from cress.core.starting.claims import Claims
from cress.core.starting.starter import Starter
from cress.core.starting.starts import TaskStarts
from cress.core.state import export_state, restore_state
from cress.core.stored.state import CoreState
from cress.core.stored.versions import state_of
from cress.core.upkeep import Upkeep
from cress.language.syntax import prepare
from cress.model.decisions import Decision, Decisions
from cress.model.estimates import RunEstimate
from cress.model.events import Event
from cress.model.group import Group
from cress.model.job import Job
from cress.model.options import Options
from cress.model.outlook import Outlook
from cress.model.resources import Dimensions
from cress.model.times import NEVER
from cress.model.zones import zone_of


class Scheduler:
    """The scheduler of one cluster, with its groups and jobs.

    It has ``books``, the ``ledger`` that changes them by facts, and parts that decide; each part is handed the others
    that it calls.
    ``zone`` is the time zone of quota timetables; the wall clock itself comes with ``ClockSet`` events.
    """

    def __init__(self, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> None:
        self.books = books = Books(dimensions, options, zone)
        self.ledger = ledger = Ledger(books)
        self.gates = gates = Gates(books)
        self._decided = decided = Decided(books, ledger)
        starts = TaskStarts(books, decided, gates.pending)
        starter = Starter(books, decided, starts, gates.pending)
        claims = Claims(books, decided, starts)
        own_parts = OwnParts(books, starts)
        in_leases = InLeases(books, decided, starts, claims, own_parts)
        evictions = Evictions(books, claims)
        apart = Apart(books, gates, starter, evictions)
        room_maker = RoomMaker(books, decided, claims, in_leases, evictions)
        self.offers = Offers(books, gates, starter, own_parts, evictions, room_maker, apart.start)
        self.cycle = Cycle(books, decided, gates, starter, own_parts, evictions, self.offers)
        self._upkeep = Upkeep(books, decided, claims)
        self._reasons = Reasons(books, gates, evictions, self.cycle)
        # Changes with every call that may change something.
        self._revision = 0
        # The tables that shells read.
        self.dimensions = dimensions
        self.cluster = books.cluster
        self.groups = books.groups
        self.jobs = books.jobs
        self.attempts = books.attempts
        self.claims = books.claims
        self.pool = books.pool
        self.loads = books.loads
        self.relations = books.relations
        self.advance_reservations = books.advance_reservations
        # The questions that shells ask.
        self.waiting = books.waiting
        self.settled = partial(settled, books)
        self.fits_now = books.fit.fits_now
        self.never_fits = partial(never_fits, books)
        self.never_within_bounds = partial(never_within_bounds, books)
        self.needs_estimate = partial(needs_estimate, books)

    @property
    def now(self) -> int:
        """The time (µs)."""
        return self.books.now

    @property
    def options(self) -> Options:
        """The options of the cluster."""
        return self.books.options

    # --- facts and decisions -----------------------------------------------------------------------------------

    def observe(self, now: int, events: Sequence[Event], *, checked: bool = False) -> None:
        """Apply events in this order, all at time ``now`` (µs).

        Raises ``InputError`` before anything changes. ``checked``: the caller has checked them.
        """
        self._revision += 1
        self.ledger.observe(now, events, checked=checked)

    def apply(self, now: int, facts: Sequence[Fact]) -> None:
        """Apply events and decisions of another scheduler, in their order, all at time ``now``; decide nothing.

        Promises are equal to the other's afterwards; foreseen values are computed again by the next ``decide``.
        """
        self._revision += 1
        books, ledger = self.books, self.ledger
        advance(books, now)
        books.forget_foreseen()
        for fact in facts:
            try:
                ledger.apply(fact)
            except (LookupError, ValueError, StopIteration) as error:
                raise ValueError(f"{fact} contradicts the state of the cluster: the log is damaged") from error
        ledger.settle_batch()

    def propose(self, facts: Iterable[Decision]) -> None:
        """Let the next ``decide`` begin with these decisions, which were checked against the present state."""
        self._upkeep.propose(facts)

    def decide(self, now: int, budget: int = 2**31) -> Decisions:
        """Run passes until one places nothing, at most ``budget`` of them; return the decisions in order."""
        self._revision += 1
        books, upkeep, run_pass = self.books, self._upkeep, self.cycle.run_pass
        advance(books, now)
        decided: list[Decision] = []
        self._decided.items = decided
        upkeep.begin(now)
        more = True
        while more and budget > 0:
            budget -= 1
            if books.live:
                upkeep.follow()
            more = run_pass(now)
        if books.to_stop:
            # A decision may have ended a lease.
            upkeep.stop_attempts()
        self.gates.rest()
        if books.matching.behind:
            books.matching.flush()
        return Decisions(decided, more=more)

    def begin_batch(self) -> None:
        """Postpone long updates of rows to ``preparing``, which is called before the next ``decide``."""
        self.books.matching.postpones = True

    def preparing(self) -> Iterator[None]:
        """Update rows before ``decide``, and pause after every few of them: there may be thousands.

        Nothing may change meanwhile.
        """
        matching = self.books.matching
        matching.postpones = False
        for _ in matching.flushing():
            self._revision += 1
            yield
        self._revision += 1

    def preparing_groups(self, groups: tuple[Group, ...]) -> Iterator[None]:
        """Prepare the groups of the next ``GroupsApplied``, and pause after every few of them; nothing changes."""
        return self.groups.preparing(groups)

    def next_wakeup(self) -> int | None:
        """Return the earliest time (µs) at which something changes by itself, as known after the last ``decide``;
        ``None`` if there is none.
        """
        books, groups = self.books, self.groups
        wake = min(self.cycle.last.wake, groups.next_quota_change, books.advance_reservations.next_change)
        if books.later:
            wake = min(wake, books.later[0][0])
        if books.relaxing.times:
            wake = min(wake, books.relaxing.next())
        wake = min(wake, books.pool.next_return())
        tree = groups.tree
        tree.settle()
        if tree.order:
            # Expected ends and past borrowing matter only to waiting jobs.
            wake = min(wake, books.expected.next())
            if tree.clock is not None:
                wake = min(wake, tree.next_tick(groups))
        for group in groups.timed:
            wake = min(wake, group.policy.next_change())
        return None if wake >= NEVER else wake

    # --- explanations and state ------------------------------------------------------------------------------

    def veto(self, job_id: int) -> Veto | None:
        """Return why the next unit of a job waits, as of the last ``decide``; ``None`` if no task of it waits."""
        with self.books.fit.unchanged((self._revision, self.cluster.stamp, self.cluster.loosened)):
            return self._reasons.why_waiting(job_id)

    def constraints(self, job_id: int) -> CurrentConstraints | None:
        """Return the current requirement and rank of a job as text; ``None`` if there is no such job."""
        job = self.jobs.get(job_id)
        return None if job is None else current_constraints(self.books, job)

    def estimate_of(self, job_id: int) -> RunEstimate | None:
        """Return the estimate of the run of one task of a job; ``None`` without an estimate or such a job."""
        job = self.jobs.get(job_id)
        return None if job is None else job.estimate

    def outlook(self, job_id: int, now: int | None = None, behind: Behind | None = None) -> Outlook | None:
        """Return the forecast for a job with a deadline; ``None`` without a deadline or such a job.

        For a step with the rest of a dag ``behind`` it, the forecast is that of its dag. ``now`` (µs): a time later
        than the last one given to the scheduler.
        """
        job = self.jobs.get(job_id)
        return None if job is None else outlook(self.books, job, max(self.now, now or 0), behind)

    def latest_start(self, job_id: int, behind: Behind | None = None) -> int:
        """Return the latest start (µs) with which a job meets its deadline by the optimistic estimates.

        NEVER if it has none, or runs. For a step with the rest of a dag ``behind`` it, the deadline is that of the
        dag.
        """
        job = self.jobs.get(job_id)
        if job is None or (job.attempts and not job.waiting) or job.deadline >= NEVER:
            return NEVER
        if behind is None:
            return job.deadline - shortest_left(job)
        return behind.deadline - (self.groups.wall_offset or 0) - behind.left.shortest - shortest_left(job)

    def left_of(self, job_id: int) -> TimeLeft | None:
        """Return the estimated time of a job from its start on; ``None`` if there is no such job."""
        job = self.jobs.get(job_id)
        return None if job is None else TimeLeft(shortest_left(job), mean_left(job), longest_left(job))

    def foreseen(self, job: Job, estimate: RunEstimate | None = None, behind: Behind | None = None) -> Outlook | None:
        """Return the forecast for a job that is not submitted; ``None`` without a deadline."""
        return foreseen(self.books, job, estimate, behind)

    @staticmethod
    def prepare_match() -> None:
        """Build the parts that ``match`` and submits with expressions need; it takes a tenth of a second, once.

        Any thread may call it.
        """
        prepare()

    def match(self, requirement: str = "", rank: str = "") -> list[NodeMatch]:
        """Evaluate a requirement and a rank on each present node, in the order of nodes; nothing changes.

        Raises ``InputError`` for invalid texts.
        """
        return match_nodes(self.books, requirement, rank)

    def validate(self) -> list[str]:
        """Return the broken invariants, each a sentence that begins with its name; empty if all hold."""
        return broken_invariants(self.books, self.veto)

    def export(self) -> CoreState:
        """Return the whole state; it shares no changing object with the scheduler."""
        return export_state(self.books, self.cycle.last)

    @classmethod
    def restore(cls, state: CoreState | dict[str, Any] | msgspec.Raw) -> Scheduler:
        """Return a scheduler that continues from an exported ``state`` with the same decisions.

        Plain or encoded data may come from an earlier version.
        """
        state = state_of(state)
        core = cls(Dimensions(state.dimensions), state.options, zone_of(state.zone))
        restore_state(core.books, core.cycle.last, state)
        return core

    def clone(self) -> Scheduler:
        """Return an independent copy, for trials."""
        return self.restore(self.export())
