"""Predicates about running tasks: ports, exclusive disks, racks, other jobs, and the spread of a job's tasks.

All of them are dynamic: every start and end leads to an evaluation of its node, or of all nodes if racks are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from cress.core.placing.constraints import NO_OWNER, Constraints, Wants
from cress.core.placing.context import ClauseContext
from cress.core.placing.device_requests import ask_of
from cress.core.placing.predicates import Predicate
from cress.core.placing.relations import Own, Relations, belongs_with
from cress.core.tables import devices
from cress.core.tables.arrays import Bools, Floats, Ints
from cress.core.tables.dependencies import JobKey, Relation, key_of
from cress.core.tables.ports import DYNAMIC
from cress.language.clauses import Clause, Kind
from cress.model.job import Job

# The value of a soft NetworkAdjacent on a node in a neighbouring rack; in the same rack it is 1.
NEIGHBOUR = 0.5


class PlacedPredicate(Predicate):
    """A predicate about running tasks."""

    dynamic = True

    def __init__(self, relations: Relations, text: str) -> None:
        self.text = text
        self.relations = relations

    @property
    def nodes(self) -> Ints:
        """Return all nodes, as the limits of copies need them."""
        return np.arange(self.relations.node_count)


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
        return int(number) if number != text and number.isdigit() else None

    def excludes(self, places: Ints) -> Bools:
        return self.relations.ports.taken(places, self._port)

    def caps(self) -> Ints | None:
        return np.ones(self.relations.node_count, np.int64)

    def caps_when_empty(self) -> Ints | None:
        return self.caps()


class TwicePort(PlacedPredicate):
    """The predicate for tasks that start together and need the same port; it excludes every node."""

    def __init__(self, relations: Relations, port: int) -> None:
        super().__init__(relations, f"Port = {port} for two tasks on one node")

    def excludes(self, places: Ints) -> Bools:
        return np.ones(len(places), np.bool_)

    def never(self, places: Ints) -> Bools:
        return np.ones(len(places), np.bool_)


class DynamicPorts(PlacedPredicate):
    """The predicate "the node has that many free dynamic ports", besides the fixed ones of the task."""

    def __init__(self, relations: Relations, wanted: tuple[int, ...]) -> None:
        self._number = wanted.count(DYNAMIC)
        super().__init__(relations, "DynamicPort = True" if self._number == 1 else f"{self._number} dynamic ports")
        self._fixed = tuple(port for port in wanted if port != DYNAMIC)

    def excludes(self, places: Ints) -> Bools:
        return np.asarray(self.relations.ports.dynamic(places, self._fixed) < self._number, np.bool_)

    def never(self, places: Ints) -> Bools:
        return np.asarray(self.relations.ports.dynamic_when_empty(places, self._fixed) < self._number, np.bool_)

    def caps(self) -> Ints | None:
        return np.asarray(self.relations.ports.dynamic(self.nodes, self._fixed) // self._number, np.int64)

    def caps_when_empty(self) -> Ints | None:
        return np.asarray(self.relations.ports.dynamic_when_empty(self.nodes, self._fixed) // self._number, np.int64)


class WholeDisks(PlacedPredicate):
    """The predicate "the node has that many unused disks"."""

    def __init__(self, context: ClauseContext, number: int, text: str) -> None:
        super().__init__(context.relations, text)
        self._cluster = context.cluster
        self._number = number

    def excludes(self, places: Ints) -> Bools:
        return np.asarray(devices.disks_on(self._cluster, places, free=True) < self._number, np.bool_)

    def never(self, places: Ints) -> Bools:
        return np.asarray(devices.disks_on(self._cluster, places, free=False) < self._number, np.bool_)

    def caps(self) -> Ints | None:
        return np.asarray(devices.disks_on(self._cluster, self.nodes, free=True) // self._number, np.int64)

    def caps_when_empty(self) -> Ints | None:
        return np.asarray(devices.disks_on(self._cluster, self.nodes, free=False) // self._number, np.int64)


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


class Adjacent(PlacedPredicate):
    """The predicate "the node's rack is near all racks with tasks of the job or its application".

    Nodes in those racks come first.
    """

    orders = True
    binds = True

    def __init__(self, relations: Relations, owners: Iterable[int], text: str) -> None:
        super().__init__(relations, text)
        self._owners = tuple(owners)
        jobs = (relations.job_of(each) for each in self._owners)
        self.watches = tuple(belongs_with(job) for job in jobs if job is not None)

    def excludes(self, places: Ints) -> Bools:
        racks = self.relations.racks
        near = np.zeros(max(1, len(racks)), np.bool_)
        near[sorted(racks.near_all(racks_in_use(self.relations, self._owners)))] = True
        return ~near[racks.of[places]]

    def suits(self, places: Ints) -> Floats:
        """Return 1 for a rack in use, 0.5 for a neighbouring one, else 0."""
        racks = self.relations.racks
        used = racks_in_use(self.relations, self._owners)
        score = np.zeros(max(1, len(racks)), np.float32)
        for r in used:
            score[sorted(racks.near_all([r]))] = np.float32(NEIGHBOUR)
        score[used] = np.float32(1)
        return score[racks.of[places]]


class Depends(PlacedPredicate):
    """The predicate "tasks of the required jobs run on the node"."""

    def __init__(self, context: ClauseContext, keys: Iterable[JobKey], text: str) -> None:
        super().__init__(context.relations, text)
        self._specs = context.cluster.specs
        self._keys = tuple(keys)

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


class SpreadOverNodes(PlacedPredicate):
    """The limit of the job's tasks on one node; ``tasks`` of them start together."""

    binds = True

    def __init__(self, relations: Relations, owner: int, most: int, tasks: int) -> None:
        super().__init__(relations, f"at most {most} of its tasks on one node")
        self._whose = Own(owner)
        self._most = most
        self._tasks = tasks

    def _left(self) -> Ints:
        left = np.full(self.relations.node_count, self._most, np.int64)
        for f, number in self.relations.nodes_of(self._whose).items():
            left[f] = max(0, self._most - number)
        return left

    def excludes(self, places: Ints) -> Bools:
        counts = self.relations.nodes_of(self._whose)
        return np.array([counts.get(f, 0) + self._tasks > self._most for f in places.tolist()], np.bool_)

    def never(self, places: Ints) -> Bools:
        return np.full(len(places), self._tasks > self._most)

    def caps(self) -> Ints | None:
        return self._left()

    def caps_when_empty(self) -> Ints | None:
        return np.full(self.relations.node_count, self._most, np.int64)


class SpreadOverRacks(PlacedPredicate):
    """The limit of the job's tasks in one rack; ``tasks`` of them start together."""

    binds = True

    def __init__(self, relations: Relations, owner: int, most: int, tasks: int) -> None:
        super().__init__(relations, f"at most {most} of its tasks in one rack")
        self._whose = Own(owner)
        self.watches = (self._whose,)
        self._most = most
        self._tasks = tasks

    def excludes(self, places: Ints) -> Bools:
        full = np.full(max(1, len(self.relations.racks)), self._tasks > self._most)
        for r, number in self.relations.racks_of(self._whose).items():
            full[r] = number + self._tasks > self._most
        return np.asarray(full[self.relations.racks.of[places]], np.bool_)

    def never(self, places: Ints) -> Bools:
        return np.full(len(places), self._tasks > self._most)


def listed(names: list[str]) -> list[str]:
    """Return names and addresses, consecutive ones as a range: ``192.168.1.2-8``."""
    ranges: list[list[str]] = []
    for name in names:
        head, _, last = name.rpartition(".")
        if ranges and head and last.isdigit():
            before, _, end = ranges[-1][-1].rpartition(".")
            if before == head and end.isdigit() and int(end) + 1 == int(last):
                ranges[-1].append(name)
                continue
        ranges.append([name])
    return [each[0] if len(each) == 1 else f"{each[0]}-{each[-1].rpartition('.')[2]}" for each in ranges]


def racks_in_use(relations: Relations, owners: Iterable[int]) -> list[int]:
    """Return the racks with tasks of these jobs or their applications."""
    used: dict[int, None] = {}
    for number in owners:
        job = relations.job_of(number)
        if job is not None:
            used.update(dict.fromkeys(relations.racks_of(belongs_with(job))))
    return sorted(used)


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


def adjacency_predicate(context: ClauseContext, clause: Clause, wants: Wants) -> Predicate:
    """Return the predicate of ``NetworkAdjacent = True``."""
    return Adjacent(context.relations, (each.owner for each in members_with(clause, wants)), str(clause))


def dependency_predicate(context: ClauseContext, clause: Clause, wants: Wants) -> Predicate:
    """Return the predicate of ``JobDependency = …``."""
    keys = dict.fromkeys(key_of(str(clause.value), each.group) for each in members_with(clause, wants))
    return Depends(context, keys, str(clause))


def _number(clause: Clause) -> int:
    assert isinstance(clause.value, int)
    return clause.value


def disk_predicate(context: ClauseContext, clause: Clause, wants: Wants) -> Predicate:
    """Return the predicate of ``ExclusiveDisk = …``."""
    # A repeated clause adds up.
    number = sum(_number(each) for each in wants.hard if each.kind is Kind.DISK) if clause in wants.hard else 0
    return WholeDisks(context, number or _number(clause), str(clause))


def placement_predicates(context: ClauseContext, wants: Wants) -> Iterable[Predicate]:
    """Yield the predicates of the job's ports and of the spread of its tasks."""
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
    members = parts_of(wants)
    for part in dict.fromkeys(members):
        if part.per_node:
            yield SpreadOverNodes(relations, part.owner, part.per_node, members.count(part))
        if part.per_rack:
            yield SpreadOverRacks(relations, part.owner, part.per_rack, members.count(part))


def all_ports(wants: Wants) -> tuple[int, ...]:
    """Return the ports of a task: those of the job in order, then those of hard clauses."""
    more = (_number(clause) for clause in wants.hard if clause.kind is Kind.PORT)
    return (*wants.ports, *(port for port in dict.fromkeys(more) if port not in wants.ports))


def is_adjacent(wants: Wants) -> bool:
    """Return True if tasks must be near each other."""
    return any(clause.kind is Kind.ADJACENT for clause in wants.hard)


def would_be_adjacent(wants: Wants) -> bool:
    """Return True if tasks prefer to be near each other."""
    kinds = (term.what.kind for term in wants.terms if isinstance(term.what, Clause) and term.weight > 0)
    return Kind.ADJACENT in kinds


def near_whom(relations: Relations, wants: Wants) -> list[int]:
    """Return the racks near which an adjacent unit must be."""
    return racks_in_use(relations, (part.owner for part in parts_of(wants) if part.owner != NO_OWNER))


def relation_of(job: Job, constraints: Constraints | None, group: str) -> Relation:
    """Return the name of a job in this group and its dependencies, from hard and soft clauses."""
    if constraints is None:
        return Relation(JobKey(group, job.name), ())
    asked = list(constraints.requirement.clauses)
    asked += (term.what for term in constraints.rank.terms if isinstance(term.what, Clause))
    on = (key_of(str(clause.value), group) for clause in asked if clause.kind is Kind.DEPENDENCY)
    return Relation(JobKey(group, job.name), tuple(dict.fromkeys(on)))
