"""Predicates about the running tasks of a node: ports, exclusive disks, other jobs.

All of them are dynamic: every start and end leads to an evaluation of its node.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable

import numpy as np

from cress.core.placing.constraints import NO_WANTS, Constraints, Wants
from cress.core.placing.context import ClauseContext
from cress.core.placing.device_requests import ask_of
from cress.core.placing.predicates import Predicate
from cress.core.placing.relations import Relations
from cress.core.tables import devices
from cress.core.tables.arrays import Bools, Ints
from cress.core.tables.dependencies import JobKey, Relation, key_of
from cress.core.tables.ports import DYNAMIC
from cress.language.clauses import Clause, Kind
from cress.model.job import Job
from cress.model.whole_numbers import whole_number


class PlacedPredicate(Predicate):
    """A predicate about running tasks."""

    dynamic = True

    def __init__(self, relations: Relations, text: str) -> None:
        self.text = text
        self.relations = relations


_PORT = "Port = "


class FixedPort(PlacedPredicate):
    """The predicate "the port is free"."""

    binds = True

    def __init__(self, relations: Relations, port: int) -> None:
        super().__init__(relations, f"{_PORT}{port}")
        self._port = port

    @staticmethod
    def port_in(text: str) -> int | None:
        """Return the port in the text of such a predicate; ``None`` for other texts."""
        number = text.removeprefix(_PORT)
        return whole_number(number) if number != text else None

    def excludes(self, places: Ints) -> Bools:
        return self.relations.ports.taken(places, self._port)

    def caps(self, *, empty: bool) -> Ints | None:
        return np.ones(self.relations.node_count, np.int64)


class TwicePort(PlacedPredicate):
    """The predicate for tasks that start together and need the same port; it excludes every node."""

    def __init__(self, relations: Relations, port: int) -> None:
        super().__init__(relations, f"Port = {port} for two tasks on one node")

    def excludes(self, places: Ints) -> Bools:
        return np.ones(len(places), np.bool_)

    def never(self, places: Ints) -> Bools:
        return np.ones(len(places), np.bool_)


class HasNumber(PlacedPredicate):
    """The predicate "the node has that ``number`` of something", of which each task takes as many."""

    number = 0

    @abstractmethod
    def has(self, places: Ints, *, empty: bool) -> Ints:
        """Return the number that each node has now, or (``empty``) has when it is empty."""

    def excludes(self, places: Ints) -> Bools:
        return np.asarray(self.has(places, empty=False) < self.number, np.bool_)

    def never(self, places: Ints) -> Bools:
        return np.asarray(self.has(places, empty=True) < self.number, np.bool_)

    def caps(self, *, empty: bool) -> Ints | None:
        return np.asarray(self.has(np.arange(self.relations.node_count), empty=empty) // self.number, np.int64)


class DynamicPorts(HasNumber):
    """The predicate "the node has that many free dynamic ports", besides the fixed ones of the task."""

    def __init__(self, relations: Relations, wanted: tuple[int, ...]) -> None:
        self.number = wanted.count(DYNAMIC)
        super().__init__(relations, "DynamicPort = True" if self.number == 1 else f"{self.number} dynamic ports")
        self._fixed = tuple(port for port in wanted if port != DYNAMIC)

    def has(self, places: Ints, *, empty: bool) -> Ints:
        ports = self.relations.ports
        return ports.dynamic_when_empty(places, self._fixed) if empty else ports.dynamic(places, self._fixed)


class WholeDisks(HasNumber):
    """The predicate "the node has that many unused disks"."""

    def __init__(self, context: ClauseContext, clause: Clause, wants: Wants) -> None:
        super().__init__(context.relations, str(clause))
        self._cluster = context.cluster
        # A repeated clause adds up.
        asked = [each for each in wants.hard if each.kind is Kind.DISK] if clause in wants.hard else [clause]
        self.number = sum(map(_number, asked))

    def has(self, places: Ints, *, empty: bool) -> Ints:
        return devices.disks_on(self._cluster, places, free=not empty)


class UnitDevices(PlacedPredicate):
    """The predicate "all members of a unit of several jobs find their devices on the node"."""

    def __init__(self, context: ClauseContext, wants: Wants) -> None:
        super().__init__(context.relations, "devices for all of them")
        self._cluster = context.cluster
        self._members = [
            (request, ask_of(request, part)) for request, part in zip(wants.members, wants.parts, strict=True)
        ]

    def excludes(self, places: Ints) -> Bools:
        return self._fail(places, empty=False)

    def never(self, places: Ints) -> Bools:
        return self._fail(places, empty=True)

    def _fail(self, places: Ints, *, empty: bool) -> Bools:
        fits = (devices.unit_fits(self._cluster, self._members, f, empty=empty) for f in places.tolist())
        return ~np.fromiter(fits, np.bool_, len(places))


class Depends(PlacedPredicate):
    """The predicate "tasks of the required jobs run on the node"."""

    def __init__(self, context: ClauseContext, clause: Clause, wants: Wants) -> None:
        super().__init__(context.relations, str(clause))
        self._specs = context.cluster.specs
        self._keys = tuple(dict.fromkeys(key_of(str(clause.value), each.group) for each in members_with(clause, wants)))

    def shown(self) -> str:
        """Return ``Nodes in (…)`` with the present nodes, by address, or by name if nodes share it.

        Without any nodes, return the clause itself.
        """
        nodes = sorted({f for key in self._keys for f in self.relations.nodes_of(key)})
        if not nodes:
            return self.text
        shared = Counter(spec.address for spec in self._specs)
        specs = [self._specs[f] for f in nodes]
        names = [spec.address if shared[spec.address] == 1 and spec.address else spec.name for spec in specs]
        return f"Nodes in ({', '.join(listed(names))})"

    def excludes(self, places: Ints) -> Bools:
        missing = np.zeros(len(places), np.bool_)
        for key in self._keys:
            missing |= ~np.isin(places, np.fromiter(self.relations.nodes_of(key), np.int64))
        return missing


def listed(names: list[str]) -> list[str]:
    """Return names and addresses, consecutive ones as a range: ``192.168.1.2-8``."""
    ranges: list[list[str]] = []
    for name in names:
        head, _, last = name.rpartition(".")
        number = whole_number(last)
        if ranges and head and number:
            before, _, end = ranges[-1][-1].rpartition(".")
            if before == head and whole_number(end) == number - 1:
                ranges[-1].append(name)
                continue
        ranges.append([name])
    return [each[0] if len(each) == 1 else f"{each[0]}-{each[-1].rpartition('.')[2]}" for each in ranges]


def parts_of(wants: Wants) -> tuple[Wants, ...]:
    """Return the wants of the members of a unit, one by one."""
    return wants.parts or (wants,)


def members_with(clause: Clause, wants: Wants) -> list[Wants]:
    """Return the members of a unit that have a clause, hard or soft."""
    parts = parts_of(wants)
    return [each for each in parts if clause in each.hard] or list(parts[:1])


def port_predicate(context: ClauseContext, clause: Clause, wants: Wants) -> Predicate:  # noqa: ARG001
    """Return the predicate of ``Port = …``."""
    return FixedPort(context.relations, _number(clause))


def _number(clause: Clause) -> int:
    assert isinstance(clause.value, int)
    return clause.value


def placement_predicates(context: ClauseContext, wants: Wants) -> Iterable[Predicate]:
    """Yield the predicates of the job's ports, and of the devices of a unit."""
    relations = context.relations
    asked = [port for part in parts_of(wants) for port in all_ports(part)]
    clauses = {clause.value for clause in wants.hard if clause.kind is Kind.PORT}
    for port in dict.fromkeys(asked):
        if port != DYNAMIC and asked.count(port) > 1:
            yield TwicePort(relations, port)
        elif port != DYNAMIC and port not in clauses:
            yield FixedPort(relations, port)
    if DYNAMIC in asked:
        yield DynamicPorts(relations, tuple(asked))
    if wants.parts and devices.any_devices(context.cluster):
        yield UnitDevices(context, wants)


def all_ports(wants: Wants) -> tuple[int, ...]:
    """Return the ports of a task: those of the job in order, then those of hard clauses."""
    if wants is NO_WANTS:
        return ()
    more = (_number(clause) for clause in wants.hard if clause.kind is Kind.PORT)
    return (*wants.ports, *(port for port in dict.fromkeys(more) if port not in wants.ports))


def relation_of(job: Job, constraints: Constraints | None, group: str) -> Relation:
    """Return the name of a job in this group and its dependencies, from hard and soft clauses."""
    if constraints is None:
        return Relation(JobKey(group, job.name), ())
    asked = list(constraints.requirement.clauses)
    asked += (term.what for term in constraints.rank.terms if isinstance(term.what, Clause))
    on = (key_of(str(clause.value), group) for clause in asked if clause.kind is Kind.DEPENDENCY)
    return Relation(JobKey(group, job.name), tuple(dict.fromkeys(on)))
