"""The search for victims in plain Python: a task or a gang is an object, nodes are looked at one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from cress.core.jobs import Attempt, JobEntry
from cress.core.scheduler import Scheduler
from cress.model.group import PreemptivePolicy
from cress.model.job import JobType

Vector = tuple[int, ...]
# The victims beyond those taken before, in order, and the node: cost, node, victims.
Found = tuple[tuple[int, int, int], int, "list[PlainVictim]"]


def plus(a: Vector, b: Vector, times: int = 1) -> Vector:
    return tuple(x + times * y for x, y in zip(a, b, strict=True))


def covers(have: Vector, need: Vector) -> bool:
    return all(x >= y for x, y in zip(have, need, strict=True))


@dataclass(eq=False)
class PlainVictim:
    """Tasks that go together."""

    attempts: list[Attempt]
    rank: int
    worth: int
    longest: int
    work: int
    loss: Vector

    @property
    def order(self) -> tuple[int, int, int, int, int]:
        return (self.rank, self.worth, len(self.attempts), self.work, -self.attempts[0].id)

    def on(self, f: int) -> Vector:
        held = [attempt.job.shape.request for attempt in self.attempts if attempt.node == f]
        return tuple(map(sum, zip(*held, strict=True))) if held else (0,) * len(self.attempts[0].job.shape.request)


class PlainSearch:
    """Who would yield to one unit of ``job``."""

    def __init__(self, core: Scheduler, job: JobEntry, excluded: frozenset[int] = frozenset()) -> None:
        self.core = core
        self.job = job
        takers = [group for group in core.groups if group is not job.group and group.can_be_preempted()]
        takers.sort(key=lambda group: (-group.excess(), group.name))
        self.spare = [
            tuple(used - leaving - quota for used, leaving, quota in zip(g.used, g.leaving, g.quota, strict=True))
            for g in takers
        ]
        self.victims = sorted(
            (victim for rank, group in enumerate(takers) for victim in self._of(list(group.attempts.values()), rank)),
            key=lambda victim: victim.order,
        )
        nodes = [f for f in range(core.cluster.node_count) if f not in excluded]
        self.levels = {f: self._level(f) for f in nodes if self._takes_tasks(f)}

    def _takes_tasks(self, f: int) -> bool:
        cluster = self.core.cluster
        return not cluster.lost[f] and cluster.cordoned[f] is None and cluster.overloaded[f] is None

    def _level(self, f: int) -> Vector:
        """Free with what leaves, without what is claimed."""
        level = self.core.cluster.free(f)
        for attempt in self.core.books.leaving.values():
            if attempt.node == f:
                level = plus(level, attempt.job.shape.request)
        for claim in self.core.claims:
            for node, count in claim.reservation.nodes:
                if node == f:
                    level = plus(level, claim.job.shape.request, -count)
        return level

    def _of(self, attempts: list[Attempt], rank: int) -> list[PlainVictim]:
        victims = []
        for attempt in attempts:
            job = attempt.job
            together = list(job.attempts.values()) if job.job.gang else [attempt]
            latest = self.core.now - job.group.options.min_runtime
            if (
                attempt is not together[0]
                or job.job.type is JobType.DATABASE
                or any(each.stopping or each.start > latest for each in together)
            ):
                continue
            ran = [self.core.now - each.start for each in together]
            by_priority = self.job.group.spec.preemptive is PreemptivePolicy.LOW_PRIORITY_FIRST
            loss = tuple(map(sum, zip(*(each.charge for each in together), strict=True)))
            worth = job.job.priority if by_priority else max(ran)
            victims.append(PlainVictim(together, rank, worth, max(ran), sum(ran), loss))
        return victims

    def plan(self) -> tuple[list[Attempt], list[tuple[int, int]]] | None:
        """Who ends, in the order in which they were taken, and how many copies go to which nodes.

        Only if nobody can yield without it, the last victim takes its group below its quota.
        """
        self.beyond = False
        found = self._plan()
        if found is None:
            self.beyond = True
            found = self._plan()
        return found

    def _plan(self) -> tuple[list[Attempt], list[tuple[int, int]]] | None:
        placed: dict[int, int] = {}
        taken: list[PlainVictim] = []
        for _ in range(self.job.shape.size):
            options = [found for f in self.levels if (found := self._take(f, placed, taken)) is not None]
            if not options:
                return None
            _, f, more = min(options, key=lambda found: found[:2])
            taken.extend(more)
            placed[f] = placed.get(f, 0) + 1
        for victim in reversed(taken.copy()):
            rest = [other for other in taken if other is not victim]
            if all(covers(self._with(f, rest), self._need(count)) for f, count in placed.items()):
                taken = rest
        attempts = [attempt for victim in taken for attempt in victim.attempts]
        return (attempts, sorted(placed.items())) if attempts else None

    def _need(self, copies: int) -> Vector:
        return tuple(amount * copies for amount in self.job.shape.request)

    def _with(self, f: int, victims: list[PlainVictim]) -> Vector:
        level = self.levels[f]
        for victim in victims:
            level = plus(level, victim.on(f))
        return level

    def _take(self, f: int, placed: dict[int, int], taken: list[PlainVictim]) -> Found | None:
        """For one more copy on ``f``; if the order finds nothing, the largest victims first."""
        need = self._need(placed.get(f, 0) + 1)
        if covers(self._with(f, taken), need):
            return (-(2**62), 0, 0), f, []
        victims = [victim for victim in self.victims if victim not in taken and any(victim.on(f))]
        asked = [(k, amount) for k, amount in enumerate(need) if amount]
        largest = sorted(victims, key=lambda victim: -min(victim.on(f)[k] / amount for k, amount in asked))
        for order in (victims, largest):
            chosen: list[PlainVictim] = []
            for victim in order:
                if self._may_yield(victim, [*taken, *chosen]):
                    chosen.append(victim)
                    if covers(self._with(f, [*taken, *chosen]), need):
                        break
            if not covers(self._with(f, [*taken, *chosen]), need):
                continue
            for victim in reversed(chosen.copy()):
                rest = [other for other in chosen if other is not victim]
                if covers(self._with(f, [*taken, *rest]), need):
                    chosen = rest
            number = sum(len(victim.attempts) for victim in chosen)
            work = sum(victim.work for victim in chosen)
            return (max(victim.worth for victim in chosen), number, work), f, chosen
        return None

    def _may_yield(self, victim: PlainVictim, gone: list[PlainVictim]) -> bool:
        before = (0,) * len(victim.loss)
        for other in gone:
            if other.rank == victim.rank:
                before = plus(before, other.loss)
        above = zip(self.spare[victim.rank], before, victim.loss, strict=True)
        if not any(spare > lost if self.beyond else spare >= lost + loss for spare, lost, loss in above):
            return False
        job = victim.attempts[0].job
        going = sum(len(other.attempts) for other in (victim, *gone) if other.attempts[0].job is job)
        stay = sum(not attempt.stopping for attempt in job.attempts.values()) - going
        return not job.job.minimum or stay >= job.job.minimum
