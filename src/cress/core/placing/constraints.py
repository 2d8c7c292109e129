"""Constraints of jobs, and the wants that follow from them at a time: hard and soft clauses (source E §3.3).

Constraints are parsed once for all jobs with the same texts. They become ``Wants`` with the waiting time of the job
and the load of the cluster; wants are matched and shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from cress.core.tables.licences import Amounts, amounts_text, times
from cress.core.tables.selected import Avoid
from cress.language.clauses import Clause, Kind, OverDomains, Rank, RankTerm, Requirement
from cress.language.jobfacts import Facts, facts_of, for_job, keys_in, names_jobs
from cress.language.parser import parse_rank, parse_requirement
from cress.language.selectors import parse_selector
from cress.model.errors import InputError
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.resources import Dimensions, ResourceVector
from cress.model.times import NEVER

NO_OWNER = -1

# The view of a job for nodes with choices: the attributes that they use, and the names that it tolerates.
Asker: TypeAlias = tuple[Facts, tuple[str, ...]]

# Kinds of clauses that are expressions.
BY_EXPRESSION = (Kind.CONDITION, Kind.NODES, Kind.RESOURCE)


class KindRow(NamedTuple):
    """Properties of a kind of clause: ``key``, its key in job files, if it has one of its own.

    ``own``: it counts tasks of the job itself. ``named``: it names jobs, relative to the group of the job. ``sized``:
    the number of tasks that start together matters. ``of_gang``: it is about all tasks of a gang, so all its parts have
    it, or none.
    """

    key: str = ""
    own: bool = False
    named: bool = False
    sized: bool = False
    of_gang: bool = False


# The kinds of clauses with such properties.
KINDS: dict[Kind, KindRow] = {
    Kind.DISK: KindRow("exclusive_disk"),
    Kind.ADJACENT: KindRow(own=True, of_gang=True),
    Kind.DEPENDENCY: KindRow(named=True),
    Kind.WHOLE: KindRow(of_gang=True),
    Kind.SPREAD: KindRow("spread", own=True, sized=True, of_gang=True),
    Kind.AWAY: KindRow("away_from", own=True, named=True, sized=True, of_gang=True),
    Kind.NEAR: KindRow("near", own=True, named=True, sized=True, of_gang=True),
    Kind.WITHIN: KindRow("within", own=True, sized=True, of_gang=True),
}
FOR_ALL = "in the requirement of each part, or as a key of the job, such as spread: or gang:"


class TaskLimit(NamedTuple):
    """At most ``most`` tasks of a job run together in one domain of the attribute ``by``; ``key`` is its key of the
    job.
    """

    key: str
    by: str
    most: int


@dataclass(frozen=True, slots=True)
class Wants:
    """The constraints that hold now: the ``hard`` clauses in order, and the ``terms`` whose sum is the score of a
    node.

    ``ports`` are the requested numbers, 0 for a dynamic one; ``limits`` are those of the job's tasks that run together.
    ``owner`` is the id of the job if the match depends on its own tasks, ``group`` the name of its group if names of
    other jobs are relative to it. ``parts`` are the wants of the members of a unit of several jobs, whose clauses are
    joined in ``hard``; ``members`` are their requests. ``apart``: nodes with fewer tasks of the owner come first,
    before any rank. ``askers`` are the views of the unit's jobs for nodes with choices.
    ``licences`` are those of all tasks of the unit together. ``together`` tasks start at once, if that matters to a
    clause. ``avoids``: other jobs exclude it, so it avoids them. ``kinds`` are the kinds of the tasks that start, in
    a gang with several kinds.
    """

    hard: tuple[Clause, ...] = ()
    terms: tuple[RankTerm, ...] = ()
    ports: tuple[int, ...] = ()
    limits: tuple[TaskLimit, ...] = ()
    owner: int = NO_OWNER
    group: str = ""
    parts: tuple[Wants, ...] = ()
    apart: bool = False
    licences: Amounts = ()
    members: tuple[ResourceVector, ...] = ()
    askers: tuple[Asker, ...] = ()
    together: int = 1
    avoids: tuple[Avoid, ...] = ()
    kinds: tuple[KindWants, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __hash__(self) -> int:
        if not self._hash:
            object.__setattr__(self, "_hash", hash(tuple(getattr(self, name) for name in _FIELDS)))
        return self._hash


class KindWants(NamedTuple):
    """Wants of the tasks of one kind, ``size`` of which start together. ``number`` is the index of the kind in its
    job.
    """

    number: int
    request: ResourceVector
    size: int
    wants: Wants


_FIELDS = tuple(each.name for each in fields(Wants) if each.compare)
NO_WANTS = Wants()


class Constraints:
    """The constraints of a job besides amounts: clauses, a rank, and ``keys``, the constraints from keys of the job.

    Clauses are numbered as written; ``soft`` is a set of them, as bits.
    """

    __slots__ = (
        "_last",
        "_made",
        "_spans",
        "by_load",
        "by_time",
        "data",
        "grouped",
        "keys",
        "lasting",
        "least",
        "owned",
        "rank",
        "requirement",
        "sized",
        "whole",
    )

    def __init__(self, requirement: Requirement, rank: Rank, keys: Wants = NO_WANTS) -> None:
        self.requirement = requirement
        self.rank = rank
        self.keys = keys
        relaxations = [clause.relaxation for clause in requirement.clauses]
        self.by_load = any(each is not None and each.by_load for each in relaxations)
        asked = [*requirement.clauses, *(term.what for term in rank.terms if isinstance(term.what, Clause))]
        rows = [KINDS[clause.kind] for clause in asked if clause.kind in KINDS]
        self.owned = bool(keys.apart or keys.limits) or any(row.own for row in rows)
        self.grouped = any(row.named for row in rows)
        self.sized = any(row.sized for row in rows)
        # The data of DataLocality clauses, hard or soft.
        self.data = tuple(dict.fromkeys(str(each.value) for each in asked if each.kind is Kind.DATA))
        # Clauses that are always hard.
        hard = tuple(clause for clause in requirement.clauses if clause.relaxation is None)
        # For a gang that may start in part: the index of that clause, and the least number of tasks.
        whole = [(i, each.value) for i, each in enumerate(requirement.clauses) if each.kind is Kind.WHOLE]
        self.whole = 1 << whole[0][0] if whole else 0
        self.least = whole[0][1] if whole and isinstance(whole[0][1], int) else 0
        lasting = replace(keys, hard=hard, apart=False)
        self.lasting = NO_WANTS if lasting == NO_WANTS else lasting
        # Waiting times at which clauses may become soft or hard.
        self._spans: list[int] = []
        # True if there are any.
        self.by_time = self.next_change(-1) < NEVER
        self._made: dict[tuple[int, str, int, int], Wants] = {}
        self._last: tuple[tuple[int, int, str, int, int], Wants] = ((0, NO_OWNER, "", 0, 0), NO_WANTS)

    def soft_now(self, waited: int, load: float) -> int:
        """Return the clauses whose f(x) is true after ``waited`` µs in the queue, at this load of the cluster (0
        … 1).
        """
        bits = 0
        for i, clause in enumerate(self.requirement.clauses):
            if clause.relaxation is not None and clause.relaxation.holds(waited, load):
                bits |= 1 << i
        return bits

    def soft_with(self, waited: int, utilisation: Callable[[], float]) -> int:
        """Return ``soft_now`` for the load that ``utilisation`` returns, which is asked only if it matters."""
        return self.soft_now(waited, utilisation() if self.by_load else 0.0)

    def soft_by_load(self, load: float) -> tuple[int, ...]:
        """Return the soft clauses at this load, one entry per interval of waiting time without a change."""
        if not self._spans:
            waited: int = 0
            while waited < NEVER:
                self._spans.append(waited)
                waited = self.next_change(waited)
        return tuple([self.soft_now(waited, load) for waited in self._spans])

    def next_change(self, waited: int) -> int:
        """Return the smallest waiting time (µs) above ``waited`` at which a clause may become soft or hard; NEVER
        without one.
        """
        soonest = NEVER
        for clause in self.requirement.clauses:
            if clause.relaxation is not None:
                change = clause.relaxation.next_change(waited)
                soonest = soonest if change is None else min(soonest, change)
        return soonest

    def wants(self, soft: int, owner: int = NO_OWNER, group: str = "", size: int = 1, together: int = 0) -> Wants:
        """Return the wants with these clauses ``soft``, for ``size`` tasks at once of the job ``owner`` of ``group``.

        ``together``: the tasks of other kinds that start with them are counted too; 0 means ``size``.
        """
        owner = owner if self.owned else NO_OWNER
        group = group if self.grouped else ""
        together = (together or size) if self.sized else 1
        size = size if self.keys.licences else 1
        key = (soft, owner, group, size, together)
        if key == self._last[0]:
            return self._last[1]
        made = self._made.get((soft, group, size, together)) if owner == NO_OWNER else None
        if made is not None:
            return made
        hard: list[Clause] = []
        terms = list(self.rank.terms)
        for i, clause in enumerate(self.requirement.clauses):
            if clause.kind is Kind.WHOLE:
                continue
            if soft >> i & 1:
                assert clause.relaxation is not None
                what = clause.expression if clause.kind in BY_EXPRESSION else clause.hard()
                terms.append(RankTerm(clause.relaxation.weight, what))
            else:
                hard.append(clause.hard())
        made = replace(
            self.keys, hard=tuple(hard), terms=tuple(terms), owner=owner, group=group,
            licences=times(self.keys.licences, size), together=together,
        )  # fmt: skip
        if made == NO_WANTS:
            made = NO_WANTS
        if owner == NO_OWNER:
            self._made[(soft, group, size, together)] = made
        else:
            # Tasks of one job usually start in sequence.
            self._last = key, made
        return made


def _is_of_gang(clause: Clause) -> bool:
    """Return True if a clause is about all tasks of a gang; distances to other jobs are about each by itself."""
    row = KINDS.get(clause.kind)
    if row is None or not row.of_gang:
        return False
    return not isinstance(clause.value, OverDomains) or not row.named or parse_selector(clause.value.jobs).is_self


def said_of_some(requirements: Iterable[Requirement]) -> list[Clause]:
    """Return the clauses about all tasks of a gang that only some of its parts have."""
    asked = [{clause for clause in each.clauses if _is_of_gang(clause)} for each in requirements]
    return sorted({clause for each in asked for clause in each if not all(clause in other for other in asked)}, key=str)


@lru_cache(maxsize=4096)
def _read(requirement: str, rank: str, keys: Wants) -> Constraints:
    return Constraints(parse_requirement(requirement, stored=True), parse_rank(rank, stored=True), keys)


@lru_cache(maxsize=4096)
def _read_for(requirement: str, rank: str, keys: Wants, facts: Facts) -> Constraints:
    return Constraints(
        *for_job(parse_requirement(requirement, stored=True), parse_rank(rank, stored=True), facts), keys
    )


def names_itself(job: Job) -> bool:
    """Return True if the constraints of the job may refer to its own attributes."""
    texts = (job.requirement, job.rank, *(text for part in job.parts for text in (part.requirement, part.rank)))
    return any(map(names_jobs, texts))


def _facts_of(job: Job, dimensions: Dimensions) -> Facts | None:
    """Return the attributes of the job to which its constraints refer; ``None`` if there are none."""
    if not names_itself(job):
        return None
    asked = keys_in(parse_requirement(job.requirement, stored=True), parse_rank(job.rank, stored=True))
    facts = facts_of(job, dimensions, job.group or DEFAULT_GROUP) if asked else {}
    return tuple((key, facts[key]) for key in sorted(asked) if key in facts) if asked else None


class PlacementKey(NamedTuple):
    """A key of jobs that restricts where their tasks run, or orders the nodes: ``name`` is its field of ``Job``.

    For keys other than texts: the ``field`` of ``Wants`` to which its value is added, and in which form; and how people
    read it in the requirement of the moment.
    """

    name: str
    field: str = ""
    values: Callable[[Any], tuple[Any, ...]] = tuple
    shown: Callable[[Wants], Iterable[str]] = lambda wants: ()  # noqa: ARG005


def _limit(name: str, by: str) -> PlacementKey:
    return PlacementKey(
        name,
        "limits",
        lambda most: (TaskLimit(name, by, most),),
        lambda wants: (f"{name} = {each.most}" for each in wants.limits if each.key == name),
    )


# All that constraints read of a job, besides its tasks, its attributes and its family.
PLACEMENT_KEYS = (
    PlacementKey("requirement"),
    PlacementKey("rank"),
    PlacementKey("parts"),
    PlacementKey("ports", "ports", lambda ports: tuple(number for _, number in ports)),
    _limit("max_per_node", "Name"),
    _limit("max_per_rack", "Rack"),
    PlacementKey(
        "licences",
        "licences",
        shown=lambda wants: [f"licences = {amounts_text(wants.licences)}"] * bool(wants.licences),
    ),
)
# The values of these keys of a job; those that are empty or 0 restrict nothing.
placement_of = attrgetter(*(key.name for key in PLACEMENT_KEYS))


def keys_of(job: Job) -> Wants:
    """Return the constraints from keys of the job."""
    asked: dict[str, Any] = {"apart": job.counted_as != job.id}
    for key, value in zip(PLACEMENT_KEYS, placement_of(job), strict=True):
        if key.field and value:
            asked[key.field] = asked.get(key.field, ()) + key.values(value)
    return Wants(**asked)


def asks_for_more(job: Job) -> bool:
    """Return True if the job has constraints besides amounts."""
    return any(placement_of(job)) or bool(job.family and job.counted_as != job.id)


def constraints_of_one_kind(job: Job, dimensions: Dimensions) -> Constraints | None:
    """Return the constraints of a job with tasks of one kind; ``None`` if it has none.

    Raises ``InputError`` for invalid texts.
    """
    if not asks_for_more(job):
        return None
    facts = _facts_of(job, dimensions)
    if facts is not None:
        return _read_for(job.requirement, job.rank, keys_of(job), facts)
    return _read(job.requirement, job.rank, keys_of(job))


def data_of(constraints: Constraints | None) -> tuple[str, ...]:
    """Return the data near which a job with these constraints wants to run."""
    return () if constraints is None else constraints.data


def check_constraints(requirement: str, rank: str) -> None:
    """Check texts of a job that was accepted before.

    Raises ``InputError`` with field ``requirement`` or ``rank`` for an invalid one.
    """
    for name, text, parse in (("requirement", requirement, parse_requirement), ("rank", rank, parse_rank)):
        try:
            parse(text, stored=True)
        except InputError as error:
            raise error.at(field=name) from error
