"""One pass of the cycle: what it has met so far; and the decisions of one call of ``decide``."""

from __future__ import annotations

import msgspec

from cress.core.books import Books
from cress.core.future.reservations import Ahead
from cress.core.gates.gates import Gates
from cress.core.jobs import Attempt, GroupState, JobEntry, Rights
from cress.core.ledger import Ledger
from cress.model.decisions import Decision, Preempt, Stop
from cress.model.times import NEVER


class Pass(msgspec.Struct, eq=False):
    """A pass at time ``now`` (µs): the units that it met, and the time at which it asks to be repeated.

    ``ahead`` are the blocked units whose reservations bind others, ``blocked`` all blocked units, in the order of the
    pass. ``owed`` are those among them that may take room from other groups, but found none; there may be one of each
    of thousands of groups.
    """

    gates: Gates
    now: int
    ahead: Ahead = msgspec.field(default_factory=Ahead)
    blocked: list[JobEntry] = []
    owed: dict[JobEntry, None] = {}
    # In a tree: the groups that may come later to take room beyond their quotas, for themselves or a group above.
    to_come: list[GroupState] = []
    # The units that do not start now, as one of these groups could take their room back. They are not blocked.
    deferred: list[JobEntry] = []
    # The units that would be beyond the rights of their groups on the nodes on which they fit, with the last rights
    # for which this was found.
    too_dear: dict[JobEntry, Rights] = {}
    # The unit that ended the pass (``quota_only``), or that held other groups to their quota.
    last_blocked: JobEntry | None = None
    # True if several groups have waiting jobs.
    several: bool = False
    # True while the groups that may take room are served, and once they were.
    serving: bool = False
    served: bool = False
    # True if units take turns: they are in several queues, or in one queue whose order changes.
    takes_turns: bool = False
    # The last unit found that would take a start back, after the state for which it was found.
    taken_back: tuple[object, JobEntry | None] = (), None
    # Whether units are urgent; the head of a group is asked about in each round.
    urgent: dict[JobEntry, bool] = {}
    # The time (µs) at which something changes by itself, as far as the pass depends on it.
    wake: int = NEVER

    def wake_at(self, time: int) -> None:
        """Repeat the pass at ``time`` (µs) at the latest."""
        self.wake = min(self.wake, time)

    def refuses(self, job: JobEntry) -> bool:
        """Return True if a gate refuses a unit: then every policy passes it over, as if it did not wait."""
        until = self.gates.refuse(job)
        if until is None:
            return False
        self.wake_at(until)
        return True


class Decided:
    """The decisions of one ``decide``; each changes the books as soon as it is made."""

    def __init__(self, books: Books, ledger: Ledger) -> None:
        self._books = books
        self.apply = ledger.apply
        self.items: list[Decision] = []

    def do(self, fact: Decision) -> None:
        """Apply a proposal, which makes it a decision."""
        self.apply(fact)
        self.items.append(fact)

    def preempt(self, victim: Attempt, by: JobEntry) -> None:
        """Signal a victim, which makes room for a job, and stop it after its grace."""
        node, grace = self._books.cluster.names[victim.node], victim.grace(self._books.options)
        job = victim.job.job.id
        self.do(Preempt(attempt=victim.id, job=job, task=victim.task, node=node, grace=grace, by=by.job.id))

    def stop(self, attempt: Attempt, end: int, reservation: str = "") -> None:
        """Stop an attempt by ``end`` (µs), at the end of an advance ``reservation`` if one is named."""
        node, job = self._books.cluster.names[attempt.node], attempt.job.job.id
        self.do(Stop(attempt=attempt.id, job=job, task=attempt.task, node=node, end=end, reservation=reservation))
