"""Relations between jobs and nodes, as constraints need them: ports, domains, and the nodes of jobs.

Nodes of jobs are counted by the *owner* of the tasks: one job, all jobs of an application, or all jobs with a name.
Counts are computed when first needed, and then kept up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from cress.core.placing.constraints import Constraints, data_of
from cress.core.placing.selections import SelectableJob, Selections
from cress.core.tables.arrays import Ints
from cress.core.tables.choices import NodeChoices
from cress.core.tables.data_locations import DataOf, Locations
from cress.core.tables.dependencies import DependencyTable, JobKey, Relation
from cress.core.tables.domains import NEIGHBOURS, Distances, Domains
from cress.core.tables.licences import Licence, Licences
from cress.core.tables.ports import PortTable
from cress.core.tables.selected import Repelling, Selected
from cress.language.names import key_of as key_of_name
from cress.model.distances import Distance
from cress.model.job import Job
from cress.model.node import Node, Value
from cress.model.resources import Dimensions

_T = TypeVar("_T")

# Pairs of neighbouring racks.
Pairs: TypeAlias = tuple[tuple[str, str], ...]
# The attributes whose domains are racks, and single nodes.
RACK, NODE = "rack", "name"


class WithName(Protocol):
    """Something with a name."""

    @property
    def name(self) -> str:
        """Return its name."""


class RunningAttempt(Protocol):
    """A running attempt."""

    @property
    def node(self) -> int:
        """The index of its node."""


class RelatedJob(Protocol):
    """The fields of a job that relations read."""

    @property
    def job(self) -> Job:
        """The job as submitted."""

    @property
    def group(self) -> WithName:
        """Its group."""

    @property
    def constraints(self) -> Constraints | None:
        """Its constraints besides amounts."""

    @property
    def attempts(self) -> Mapping[int, RunningAttempt]:
        """Return its running attempts."""


class Own(NamedTuple):
    """The tasks of one job, or of one service or database."""

    job: int


class Application(NamedTuple):
    """The tasks of all jobs of an application in a group."""

    group: str
    application: str
    # Tuples with equal contents are equal, and a job may have the name of an application (``JobKey``).
    kind: str = "application"


Whose: TypeAlias = Own | Application | JobKey | Licence | DataOf | Selected | Repelling


def belongs_with(job: RelatedJob) -> Whose:
    """Return the owners of the tasks near which an adjacent job must run: the job and its application."""
    if job.job.application:
        return Application(job.group.name, job.job.application)
    return Own(job.job.counted_as)


class Relations:
    """The relations of one cluster; ``jobs`` are the live jobs of the ledger.

    ``values`` returns the value of an attribute, by its key, on each node. ``facts`` counts possible changes of the
    set of eligible nodes: their descriptions, presence and cordons, and the locations of data.
    """

    def __init__(self, dimensions: Dimensions, values: Callable[[str], Iterable[Value | None]]) -> None:
        self.jobs: Mapping[int, RelatedJob] = {}
        self.ports = PortTable()
        self.choices = NodeChoices()
        self.licences = Licences()
        self.locations = Locations()
        self.dependencies = DependencyTable(
            lambda: ((number, JobKey(job.group.name, job.job.name)) for number, job in self.jobs.items())
        )
        self.node_count = 0
        self.facts = 0
        # A counter of possible changes in the number of tasks per owner and domain.
        self.moves = 0
        self.counts: dict[Whose, dict[int, int]] = {}
        self.selections = Selections(
            dimensions,
            lambda: (SelectableJob(job.job, job.group.name, job.constraints) for job in self.jobs.values()),
        )
        self._values = values
        # Domains by the key of the attribute; below, the number of tasks in them by owner.
        self._domains: dict[str, Domains] = {}
        self._tallies: dict[Whose, dict[str, Ints]] = {}
        self.neighbours: Pairs = ()
        self.distances: tuple[Distance, ...] = ()
        self._applications: dict[Application, dict[int, None]] = {}
        self._families: dict[int, dict[int, None]] = {}
        # The owners of the tasks of jobs with a start or end, after the state of the selections.
        self._owners: dict[int, tuple[int, tuple[Whose, ...]]] = {}

    # --- nodes ---------------------------------------------------------------------------------------------

    def set_node(self, f: int, node: Node) -> None:
        """Add node ``f``, or take over its new description."""
        self.ports.set_range(f, node.ports)
        self.choices.set_node(f, node)
        self.locations.set_node(f, node)
        self.node_count = max(self.node_count, f + 1)

    # --- domains -------------------------------------------------------------------------------------------

    def domains(self, key: str) -> Domains:
        """Return the domains of an attribute."""
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = Domains(self._values(key), self._distances_of(key))
        return found

    def set_topology(self, neighbours: Pairs, distances: tuple[Distance, ...]) -> None:
        """Set the whole lists of pairs of neighbouring racks, and of distances between values of attributes."""
        if (neighbours, distances) != (self.neighbours, self.distances):
            self.neighbours, self.distances = neighbours, distances
            for key in self.compared:
                self.forget_domains(key)

    def _distances_of(self, key: str) -> Distances:
        pairs = [(pair, number) for by, *pair, number in self.distances if key_of_name(by) == key]
        if key == RACK:
            pairs += ((list(pair), NEIGHBOURS) for pair in self.neighbours)
        found: dict[tuple[str, str], int] = {}
        for pair, number in pairs:
            one, other = sorted(map(str.casefold, pair))
            found[one, other] = min(number, found.get((one, other), number))
        return found

    @property
    def compared(self) -> tuple[str, ...]:
        """The attributes whose domains are in use."""
        return tuple(self._domains)

    def forget_domains(self, key: str) -> None:
        """Drop the domains of an attribute, because a value or the distances changed."""
        if self._domains.pop(key, None) is not None:
            for tallies in self._tallies.values():
                tallies.pop(key, None)

    def grow_domains(self, key: str, value: Value | None) -> None:
        """Add a node to the domains of an attribute."""
        grown = self._domains[key].with_node(value)
        self.forget_domains(key)
        self._domains[key] = grown

    def tally(self, whose: Whose, key: str) -> Ints:
        """Return the number of these tasks per domain of an attribute; the last element is for nodes without the
        attribute.
        """
        domains = self.domains(key)
        kept = self._tallies.get(whose, {}).get(key)
        if kept is not None:
            return kept
        nodes = self.nodes_of(whose)
        places = np.fromiter(nodes, np.int64, len(nodes))
        found: Ints = np.bincount(
            domains.of[places], np.fromiter(nodes.values(), np.int64, len(nodes)), len(domains) + 1
        ).astype(np.int64)
        if whose in self.counts:
            self._tallies.setdefault(whose, {})[key] = found
        return found

    # --- jobs ----------------------------------------------------------------------------------------------

    def add_job(self, job: RelatedJob, relation: Relation) -> None:
        """Add a job to its group."""
        self.moves += 1
        number = job.job.id
        self.dependencies.add(number, relation)
        self.selections.add(job.job, job.group.name, job.constraints)
        self.locations.name(data_of(job.constraints), 1)
        if job.job.application:
            self._applications.setdefault(Application(job.group.name, job.job.application), {})[number] = None
        if job.job.counted_as != number:
            self._families.setdefault(job.job.family, {})[number] = None

    def remove_job(self, job: RelatedJob) -> None:
        """Remove a job that has ended or leaves its group, and the counts for it alone."""
        self.moves += 1
        number, name = job.job.id, JobKey(job.group.name, job.job.name)
        self.dependencies.remove(number, name)
        self.locations.name(data_of(job.constraints), -1)
        self._owners.pop(number, None)
        over = self.selections.remove(number)
        if not (self.counts or self._applications or self._families):
            return
        if job.job.counted_as != number:
            self._leave(self._families, job.job.family, number)
        if job.job.application:
            self._leave(self._applications, Application(job.group.name, job.job.application), number)
        for whose in (Own(job.job.counted_as), name, belongs_with(job), *over):
            if whose in self.counts and not self._anybody(whose):
                del self.counts[whose]
                self._tallies.pop(whose, None)

    @staticmethod
    def _leave(table: dict[_T, dict[int, None]], key: _T, number: int) -> None:
        del table[key][number]
        if not table[key]:
            del table[key]

    def forget_counts(self) -> None:
        """Drop all counts, because jobs moved to other groups."""
        self.counts.clear()
        self._owners.clear()
        self.moves += 1
        self._tallies.clear()

    def nodes_of(self, whose: Whose) -> Mapping[int, int]:
        """Return the nodes on which these tasks run, with their numbers."""
        found = self.counts.get(whose)
        if found is None:
            found = self.counted(whose)
            if self._anybody(whose):
                self.counts[whose] = found
        return found

    def counted(self, whose: Whose) -> dict[int, int]:
        """Count these nodes from scratch."""
        found: dict[int, int] = {}
        for job in self._jobs_of(whose):
            for attempt in job.attempts.values():
                found[attempt.node] = found.get(attempt.node, 0) + 1
        return found

    def _jobs_of(self, whose: Whose) -> list[RelatedJob]:
        match whose:
            case Own(number):
                if number in self.jobs:
                    return [self.jobs[number]]
                return [self.jobs[each] for each in self._families.get(number, ())]
            case Application():
                return [self.jobs[number] for number in self._applications.get(whose, ())]
            case JobKey():
                return [self.jobs[number] for number in self.dependencies.named(whose)]
            case Selected() | Repelling():
                return [self.jobs[number] for number in self.selections.jobs_of(whose)]
            case Licence() | DataOf():
                return []

    def _anybody(self, whose: Whose) -> bool:
        """Return True if there are such jobs, without a list of them: a service may have a great many."""
        match whose:
            case Own(number):
                return number in self.jobs or number in self._families
            case Application():
                return whose in self._applications
            case JobKey():
                return self.dependencies.is_named(whose)
            case Selected() | Repelling():
                return self.selections.any_of(whose)
            case Licence() | DataOf():
                return False

    def job_of(self, owner: int) -> RelatedJob | None:
        """Return the job with that id, or one of the service or database with it."""
        number = owner if owner in self.jobs else next(iter(self._families.get(owner, ())), None)
        return None if number is None else self.jobs[number]

    # --- attempts ------------------------------------------------------------------------------------------

    def moved(self, job: RelatedJob, f: int, change: int) -> tuple[Whose, ...]:
        """Count a task of the job that starts (``change`` 1) or ends (-1) on node ``f``; return the owners of the
        task.
        """
        self.moves += 1
        known = self._owners.get(job.job.id)
        if known is None or known[0] != self.selections.changes:
            known = self._owners[job.job.id] = (self.selections.changes, self._owners_of(job))
        for each in known[1]:
            counts = self.counts.get(each)
            if counts is not None:
                number = counts.get(f, 0) + change
                if number:
                    counts[f] = number
                else:
                    del counts[f]
                tallies = self._tallies.get(each)
                if tallies is not None:
                    for key, tally in tallies.items():
                        tally[self._domains[key].of[f]] += change
        return known[1]

    def _owners_of(self, job: RelatedJob) -> tuple[Whose, ...]:
        own, near = Own(job.job.counted_as), belongs_with(job)
        whose: tuple[Whose, ...] = (own, JobKey(job.group.name, job.job.name), *(() if near == own else (near,)))
        return whose + self.selections.owners(job.job.id) if self.selections else whose
