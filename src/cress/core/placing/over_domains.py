"""Predicates that compare domains, the values of an attribute: ``spread``, ``away_from``, ``near``, ``within``.

All of them count tasks per domain. For a task that starts alone they return the domains that are open now. For a gang
only the result counts: its predicates close the domains that are closed for every assignment, and the rest is in their
rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cress.core.kernels.domains import (
    NEVER_ALL,
    WITHOUT_ANY,
    WITHOUT_ANY_IN_DOMAINS,
    close_beyond_shares,
    close_full,
    close_uneven,
    close_unused,
    worth_of_even,
)
from cress.core.placing.constraints import NO_OWNER, Wants
from cress.core.placing.context import ClauseContext
from cress.core.placing.gang_rules import Filling, Limit, Rule, Within, least_used, share_bound
from cress.core.placing.placement_clauses import PlacedPredicate, members_with, parts_of
from cress.core.placing.predicates import Predicate
from cress.core.placing.relations import Own, Whose
from cress.core.tables.arrays import Bools, Floats, Ints
from cress.core.tables.domains import Domains
from cress.core.tables.selected import Avoid, Selected
from cress.language.clauses import Clause, OverDomains, brief
from cress.language.domain_clauses import WHOLE
from cress.language.selectors import parse_selector

# The number of names of domains, or of jobs, in a reason.
MOST_SHOWN = 5


class OverDomain(PlacedPredicate):
    """A predicate over the domains of one attribute."""

    compares = True
    binds = True
    ruled = True

    def __init__(self, context: ClauseContext, key: str, by: str, text: str) -> None:
        super().__init__(context.relations, text)
        self._context = context
        self.key = key
        self._by = by
        self._others: Sequence[Predicate] = ()
        # The closed domains, after the state for which they were computed.
        self._closed: tuple[tuple[int, int, Domains | None], Bools] = ((-1, -1, None), np.zeros(0, np.bool_))
        # The values by distance, after the domains in use.
        self._distances: tuple[Domains | None, list[int], bool, Floats] = (None, [], False, np.zeros(0, np.float32))
        # The eligible domains, after the facts from which they were computed.
        self._eligible: tuple[int, Domains | None, Bools] = (-1, None, np.zeros(0, np.bool_))

    def among(self, others: Sequence[Predicate]) -> None:
        self._others = [each for each in others if each.of_nodes and not each.compares]

    @property
    def domains(self) -> Domains:
        """The domains of the attribute."""
        return self.relations.domains(self.key)

    def running(self) -> Ints:
        """Return, per domain, the number of the tasks that it watches, for reading only."""
        tallies = [self.relations.tally(whose, self.key) for whose in self.watches]
        # Mostly there is one.
        return tallies[0] if len(tallies) == 1 else sum(tallies, np.zeros(len(self.domains) + 1, np.int64))

    def used(self) -> list[int]:
        """Return the domains with tasks that it watches."""
        used: list[int] = np.flatnonzero(self.running()[:-1]).tolist()
        return used

    def eligible(self) -> Bools:
        """Return, per domain, True if it is eligible.

        It then has a present node, not cordoned, that static clauses allow.
        """
        domains = self.domains
        facts, seen, found = self._eligible
        if facts != self.relations.facts or seen is not domains:
            places = self._context.there()
            for each in self._others:
                places = places[~each.never(places)]
            found = np.zeros(len(domains) + 1, np.bool_)
            found[domains.of[places]] = True
            found[-1] = False
            self._eligible = (self.relations.facts, domains, found)
        return found

    def weigh(self, weight: float, worth: Floats, changed: Ints) -> int:
        # + 0 turns -0 into 0, because scores are compared by their bits.
        return take_over(np.float32(weight) * self.values() + np.float32(0), worth, changed)

    def closed(self) -> Bools:
        """Return, per domain, True if it is closed now; computed once until a task starts or ends, or something
        changes.
        """
        relations, domains = self.relations, self.domains
        now = (relations.moves, relations.facts, domains)
        if self._closed[0] != now:
            closed = np.zeros(len(domains) + 1, np.bool_)
            self.close(closed, np.zeros(len(domains) + 1, np.int64))
            self._closed = (now, closed)
        return self._closed[1]

    def excludes(self, places: Ints) -> Bools:
        found: Bools = self.closed()[self.domains.of[places]]
        return found

    def values(self) -> Floats:
        """Return the value of each domain as a term of a rank; the last one is for nodes without the attribute."""
        return (~self.closed()).astype(np.float32)

    def suits(self, places: Ints) -> Floats:
        found: Floats = self.values()[self.domains.of[places]]
        return found

    def never(self, places: Ints) -> Bools:
        found: Bools = self.domains.of[places] == len(self.domains)
        return found

    def _by_distance(self, used: list[int], *, nobody: bool) -> Floats:
        """Return, per domain, 1 if it is in use, else less with the distance to the nearest one in use.

        1 for all while ``nobody`` is True: no such task runs anywhere.
        """
        domains = self.domains
        if self._distances[:3] != (domains, used, nobody):
            found = np.zeros(len(domains) + 1, np.float32)
            far = domains.far
            for d in range(len(domains) if used and not nobody else 0):
                nearest = min(domains.distance(d, each) for each in used)
                found[d] = np.float32(1 - nearest / (far + 1) if far > 1 or not nearest else 0)
            found[used] = 1
            if nobody:
                found[:-1] = 1
            self._distances = (domains, used, nobody, found)
        return self._distances[3]

    def shown_domains(self, numbers: Iterable[int]) -> str:
        """Return the names of domains for people, in natural order for any order of nodes: r2 before r10."""
        names = sorted((self.domains.names[d] for d in numbers), key=lambda name: (len(name), name))
        more = len(names) - MOST_SHOWN
        return ", ".join(names[:MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


class Spread(OverDomain):
    """The limit of tasks in a domain, relative to the least used eligible one, or by the shares of the domains."""

    counts_eligible = True

    def __init__(self, context: ClauseContext, clause: Clause, wants: Wants) -> None:
        value = _value(clause)
        super().__init__(context, value.key, value.by, brief(clause))
        self.watches = owners_of(clause, wants)
        self._skew = value.most_skew
        self._targets = {name.casefold(): share for name, share in value.targets}
        self._size = wants.together
        # The shares, after the eligible domains.
        self._weights: tuple[Bools | None, Ints] = (None, np.zeros(0, np.int64))

    def weights(self) -> Ints | None:
        """Return the shares of the domains as integers; ``None`` without targets."""
        if not self._targets:
            return None
        eligible = self.eligible()
        if self._weights[0] is not eligible:
            named = np.array([self._targets.get(name.casefold(), -1) for name in self.domains.names] + [0], np.int64)
            rest = int(np.count_nonzero((named < 0) & eligible))
            # The others divide the rest of the whole equally.
            found = np.where(named < 0, WHOLE - sum(self._targets.values()), named * max(1, rest))
            self._weights = (eligible, np.where(eligible, found, 0))
        return self._weights[1]

    def _counts(self, whose: Whose) -> Ints:
        return self.relations.tally(whose, self.key)

    def close(self, closed: Bools, changed: Ints) -> int:
        weights = self.weights()
        if len(self.watches) == 1 and weights is not None:
            counts = self._counts(self.watches[0])
            return int(close_beyond_shares(counts, weights, self._size, self._skew, closed, changed))
        if len(self.watches) == 1 and self._size == 1:
            return int(close_uneven(self._counts(self.watches[0]), self.eligible(), self._skew, closed, changed))
        return take_over(self._closed_to_all(weights), closed, changed)

    def _closed_to_all(self, weights: Ints | None) -> Bools:
        """Return the domains that are closed to a gang, or to tasks of several jobs that start together."""
        closed = np.zeros(len(self.domains) + 1, np.bool_)
        for whose in self.watches:
            counts = self._counts(whose)
            if weights is not None:
                closed |= counts >= share_bound(weights, int(counts.sum()) + self._size, self._skew)
            else:
                least = (
                    least_used(counts, self.eligible())
                    if self._size == 1
                    else _reached(counts[self.eligible()], self._size)
                )
                closed |= counts >= least + self._skew
        closed[-1] = True
        return closed

    def weigh(self, weight: float, worth: Floats, changed: Ints) -> int:
        if len(self.watches) == 1 and not self._targets:
            counts = self._counts(self.watches[0])
            return int(worth_of_even(counts, self.eligible(), np.float32(weight), worth, changed))
        return super().weigh(weight, worth, changed)

    def values(self) -> Floats:
        """Return 1 for the domains that come first, less for fuller ones, and 0 for nodes without the attribute."""
        value = np.ones(len(self.domains) + 1, np.float64)
        weights = self.weights()
        for whose in self.watches:
            counts = self._counts(whose)
            if weights is not None:
                over = np.maximum(0, counts + 1 - share_bound(weights, int(counts.sum()) + 1, 1))
                over[weights == 0] += 1
            else:
                over = np.maximum(0, counts - least_used(counts, self.eligible()))
            value /= 1 + over
        value[-1] = 0
        return value.astype(np.float32)

    def rules(self, *, empty: bool) -> tuple[Rule, ...]:
        counts = np.zeros(len(self.domains) + 1, np.int64) if empty else self._counts(self.watches[0])
        return (Filling(self.domains, counts, self.eligible(), self._skew, self.weights()),)

    def detail(self) -> str:
        """Return a sentence about the present spread of the tasks, and the domain for which they wait."""
        domains, counts, eligible = self.domains, self._counts(self.watches[0]), self.eligible()
        total = int(counts.sum())
        weights = self.weights()
        if weights is not None and eligible.any() and not weights.any():
            could = self.shown_domains(np.flatnonzero(eligible[:-1]).tolist())
            return f"its targets leave no share to {self._by} {could}, and with one it could start there"
        if not eligible.any() or not total:
            return ""
        closed = self.closed()
        full = [d for d in np.flatnonzero(closed[:-1] & eligible[:-1]).tolist() if counts[d]]
        if not full:
            return ""
        d = max(full, key=lambda d: (int(counts[d]), -d))
        has = f"{self._by} {domains.names[d]} has {int(counts[d])} of its {total} task{'s' * (total > 1)}"
        if weights is not None:
            share = weights[d] / max(1, int(weights.sum()))
            return f"{has}, and its share is {share:.3g}".replace(f"{share:.3g}", f"{100 * share:.3g} %")
        low = int(np.flatnonzero(eligible)[int(np.argmin(counts[eligible]))])
        return f"{has}, and may have at most {self._skew} more than {domains.names[low]} ({int(counts[low])})"

    def change(self, places: Ints) -> str:
        """Return the least ``most_skew`` that would let a task start on one of these nodes."""
        asked = np.unique(self.domains.of[places])
        asked = asked[asked < len(self.domains)]
        counts, weights = self._counts(self.watches[0]), self.weights()
        if weights is not None:
            asked = asked[weights[asked] > 0]
            bound = share_bound(weights, int(counts.sum()) + 1, 1)
            needed = counts[asked] + 2 - bound[asked]
        else:
            needed = counts[asked] + 1 - least_used(counts, self.eligible())
        return f"with most_skew {int(needed.min())} one more would start" if len(asked) else ""


def take_over(new: npt.NDArray[Any], answers: npt.NDArray[Any], changed: Ints) -> int:
    """Copy ``new`` into ``answers``; write the changed domains into ``changed``, and return their number."""
    numbers = np.flatnonzero(new != answers)
    changed[: len(numbers)] = numbers
    answers[:] = new
    return len(numbers)


def _reached(counts: Ints, size: int) -> int:
    """Return the tasks of the least used domain after ``size - 1`` more go to the least used ones.

    This order gives the last task the largest choice.
    """
    if not len(counts):
        return 0
    low, high = int(counts.min()), int(counts.min()) + size - 1
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.maximum(0, middle - counts).sum()) < size:
            low = middle
        else:
            high = middle - 1
    return low


def owners_of(clause: Clause, wants: Wants) -> tuple[Own, ...]:
    """Return the jobs of a unit that have a clause, as owners of tasks."""
    return tuple(dict.fromkeys(Own(each.owner) for each in members_with(clause, wants)))


class OfJobs(OverDomain):
    """A predicate about the tasks of the jobs matched by a selector, or of the job itself."""

    def __init__(self, context: ClauseContext, clause: Clause, wants: Wants) -> None:
        value = _value(clause)
        super().__init__(context, value.key, value.by, brief(clause))
        watches: dict[Whose, None] = {}
        # True if the tasks of the job itself are among them.
        self._own = False
        selections = context.relations.selections
        for member in members_with(clause, wants):
            if parse_selector(value.jobs).is_self:
                watches[Own(member.owner)] = None
                self._own = True
            else:
                selected = Selected(member.group, value.jobs)
                watches[selected] = None
                job = context.relations.job_of(member.owner) if member.owner != NO_OWNER else None
                self._own |= job is not None and selections.selects(selected, job.job.id)
        self.watches = tuple(watches)
        self._jobs = value.jobs
        self._size = wants.together


class AwayFrom(OfJobs):
    """The predicate "no task of these jobs runs in the domain"."""

    def close(self, closed: Bools, changed: Ints) -> int:
        return int(close_full(self.running(), 0, True, closed, changed))

    def values(self) -> Floats:
        """Return 1 for domains without such tasks, less with more of them."""
        value = 1 / (1 + self.running())
        value[-1] = 0
        return value.astype(np.float32)

    def rules(self, *, empty: bool) -> tuple[Rule, ...]:
        return (Limit(self.domains, 1),) if self._own else ()

    def detail(self) -> str:
        used = self.used()
        if self.key == "name" or not used:
            return ""
        return f"tasks of {_jobs_text(self._jobs)} run in {self._by} {self.shown_domains(used)}"


class Near(OfJobs):
    """The predicate "a task of these jobs runs in the domain"; if the job itself is one of them, its first task may
    start anywhere.
    """

    def _first(self, running: Ints) -> bool:
        return self._own and not running.any()

    def close(self, closed: Bools, changed: Ints) -> int:
        return int(close_unused(self.running(), WITHOUT_ANY if self._own else NEVER_ALL, closed, changed))

    def values(self) -> Floats:
        """Return 1 for such domains, less for others with the distance."""
        return self._by_distance(self.used(), nobody=self._first(self.running()))

    def rules(self, *, empty: bool) -> tuple[Rule, ...]:
        return (Within(self.domains, ()),) if self._own and (empty or self._first(self.running())) else ()

    def detail(self) -> str:
        used = self.used()
        if not used:
            return "" if self._own else f"no task of {_jobs_text(self._jobs)} runs"
        return (
            ""
            if self.key == "name"
            else f"tasks of {_jobs_text(self._jobs)} run in {self._by} {self.shown_domains(used)}"
        )


class Together(OverDomain):
    """The predicate "all tasks of the job are in one domain"; a gang takes the tightest one that holds it."""

    def __init__(self, context: ClauseContext, clause: Clause, wants: Wants) -> None:
        value = _value(clause)
        super().__init__(context, value.key, value.by, brief(clause))
        self.watches = owners_of(clause, wants)

    def close(self, closed: Bools, changed: Ints) -> int:
        return int(close_unused(self.running(), WITHOUT_ANY_IN_DOMAINS, closed, changed))

    def values(self) -> Floats:
        """Return 1 for domains in use, less for others with the distance."""
        used = self.used()
        return self._by_distance(used, nobody=not used)

    def rules(self, *, empty: bool) -> tuple[Rule, ...]:
        return (Within(self.domains, () if empty else tuple(self.used())),)

    def detail(self) -> str:
        used = self.used()
        return f"its tasks run in {self._by} {self.shown_domains(used)}" if used else ""


class KeptOff(OverDomain):
    """The predicate "no task of the jobs that exclude this one runs in the domain"."""

    def __init__(self, context: ClauseContext, avoid: Avoid) -> None:
        self._whose, by = avoid
        super().__init__(context, self._whose.key, by, "")
        self.watches = (self._whose,)

    binds = False

    @property
    def text(self) -> str:
        """The jobs that exclude this one, for people."""
        jobs = self.relations.selections.jobs_of(self._whose)
        some = ", ".join(map(str, jobs[:MOST_SHOWN])) + (
            f" and {len(jobs) - MOST_SHOWN} more" * (len(jobs) > MOST_SHOWN)
        )
        several = len(jobs) > 1
        return (
            f"the distance to job{'s' * several} {some}, which keep{'s' * (not several)} away from "
            f"{_jobs_text(self._whose.jobs)} by {self._by}"
        )

    @text.setter
    def text(self, text: str) -> None:
        """Ignore the text from the base class, because this text follows the jobs."""

    def close(self, closed: Bools, changed: Ints) -> int:
        return int(close_full(self.running(), 0, False, closed, changed))

    def never(self, places: Ints) -> Bools:
        return np.zeros(len(places), np.bool_)

    def change(self, places: Ints) -> str:
        return f"without that distance {len(places)} node{'s' * (len(places) > 1)} would do"


def _jobs_text(jobs: str) -> str:
    return "the job itself" if parse_selector(jobs).is_self else jobs


def _value(clause: Clause) -> OverDomains:
    assert isinstance(clause.value, OverDomains)
    return clause.value


def avoiding_predicates(context: ClauseContext, wants: Wants) -> Iterable[Predicate]:
    """Yield the predicates for other jobs that exclude the members of a unit."""
    avoids = dict.fromkeys((*wants.avoids, *(each for part in parts_of(wants) for each in part.avoids)))
    for avoid in avoids:
        yield KeptOff(context, avoid)
