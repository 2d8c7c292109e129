"""Kinds: the parts of a gang with the same request (design note 0035), and the wants of a gang of several kinds.

To the scheduler a part is like a gang by itself: a job with the request, requirement and rank of the part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import msgspec

from cress.core.placing.constraints import (
    FOR_ALL,
    NO_WANTS,
    Constraints,
    KindWants,
    Wants,
    check_constraints,
    constraints_of_one_kind,
    said_of_some,
)
from cress.core.tables.licences import Amounts, times
from cress.language.clauses import Rank, Requirement
from cress.language.parser import parse_requirement
from cress.model.errors import InputError
from cress.model.job import Job, least_request
from cress.model.resources import Dimensions, ResourceVector


class TaskKind(NamedTuple):
    """Tasks of a gang with the same request: ``job`` is the gang reduced to them, ``spans`` are their numbers."""

    job: Job
    constraints: Constraints | None
    spans: list[range]

    @property
    def tasks(self) -> int:
        """Return the number of its tasks."""
        return self.job.tasks

    def has(self, task: int) -> bool:
        """Return True if a task is of this kind."""
        return any(task in span for span in self.spans)


@lru_cache(maxsize=4096)
def kinds_of(job: Job, dimensions: Dimensions) -> tuple[TaskKind, ...]:
    """Return the kinds of tasks of a job, in the order of its parts; empty without parts."""
    spans: dict[tuple[ResourceVector, str, str], list[range]] = {}
    first = 0
    for part in job.parts:
        span = range(first, first + part.tasks)
        spans.setdefault((part.request, part.requirement, part.rank), []).append(span)
        first = span.stop
    found: list[TaskKind] = []
    for (request, requirement, rank), numbers in spans.items():
        # Licences belong to all tasks together.
        alone = msgspec.structs.replace(
            job,
            request=request,
            requirement=requirement,
            rank=rank,
            tasks=sum(map(len, numbers)),
            parts=(),
            licences=(),
        )
        found.append(TaskKind(alone, constraints_of_one_kind(alone, dimensions), numbers))
    return tuple(found)


class KindsConstraints(Constraints):
    """The constraints of a gang of several kinds: the clauses of all kinds, one kind after the other."""

    __slots__ = ("kinds",)

    def __init__(self, kinds: tuple[TaskKind, ...]) -> None:
        asked = [kind.constraints for kind in kinds if kind.constraints is not None]
        super().__init__(
            Requirement(tuple(clause for constraints in asked for clause in constraints.requirement.clauses)),
            Rank(tuple(term for constraints in asked for term in constraints.rank.terms)),
        )
        self.kinds = kinds
        self.data = tuple(dict.fromkeys(data for constraints in asked for data in constraints.data))
        self.grouped = any(constraints.grouped for constraints in asked)
        self.owned = any(constraints.owned for constraints in asked)

    def of_tasks(self, tasks: Iterable[int] | None, soft: int, owner: int, group: str) -> tuple[KindWants, ...]:
        """Return the wants of these tasks by kind, with these clauses ``soft``; ``None`` means all tasks."""
        numbers = None if tasks is None else list(tasks)
        together = sum(kind.tasks for kind in self.kinds) if numbers is None else len(numbers)
        found: list[KindWants] = []
        for number, kind in enumerate(self.kinds):
            size = kind.tasks if numbers is None else sum(map(kind.has, numbers))
            wants = NO_WANTS
            if kind.constraints is not None:
                clauses = len(kind.constraints.requirement.clauses)
                wants = kind.constraints.wants(soft & (1 << clauses) - 1, owner, group, size, together)
                soft >>= clauses
            if size:
                found.append(KindWants(number, kind.job.request, size, wants))
        return tuple(found)

    def by_kind(self, tasks: Iterable[int]) -> list[int]:
        """Sort tasks by kind."""
        numbers = list(tasks)
        return [task for kind in self.kinds for task in numbers if kind.has(task)]

    @property
    def lasting_kinds(self) -> tuple[KindWants, ...]:
        """Return the wants of all its tasks under the clauses that never relax."""
        return tuple(
            KindWants(
                number,
                kind.job.request,
                kind.tasks,
                NO_WANTS if kind.constraints is None else kind.constraints.lasting,
            )
            for number, kind in enumerate(self.kinds)
        )

    def wants_of(self, task: int, soft: int, owner: int, group: str) -> Wants:
        """Return the wants of one task."""
        return self.of_tasks((task,), soft, owner, group)[0].wants


def request_and_wants(kinds: Sequence[KindWants], licences: Amounts) -> tuple[ResourceVector, Wants]:
    """Return the request and the wants of a unit of these kinds.

    For several kinds, that is the least request and the wants of all of them.
    """
    size = sum(kind.size for kind in kinds)
    if len(kinds) == 1:
        wants = kinds[0].wants
        return kinds[0].request, replace(wants, licences=times(licences, size)) if licences else wants
    least = tuple(map(min, zip(*(kind.request for kind in kinds), strict=True)))
    return least, Wants(kinds=tuple(kinds), licences=times(licences, size))


def unit_asked(
    job: Job, constraints: Constraints | None, soft: int, group: str, size: int, tasks: Iterable[int] | None
) -> tuple[ResourceVector, Wants]:
    """Return the request and the wants of ``size`` tasks that start together, with these clauses ``soft``.

    ``tasks``: their numbers, for a gang with parts; ``None`` means all.
    """
    if constraints is None:
        return job.request, NO_WANTS
    if isinstance(constraints, KindsConstraints):
        return request_and_wants(constraints.of_tasks(tasks, soft, job.counted_as, group), job.licences)
    return job.request, constraints.wants(soft, job.counted_as, group, size)


def constraints_of(job: Job, dimensions: Dimensions) -> Constraints | None:
    """Return the constraints of the job; ``None`` if it has none. Raises ``InputError`` for invalid texts."""
    if not job.parts:
        return constraints_of_one_kind(job, dimensions)
    kinds = kinds_of(job, dimensions)
    if len(kinds) > 1:
        return KindsConstraints(kinds)
    part = job.parts[0]
    return constraints_of_one_kind(
        msgspec.structs.replace(job, requirement=part.requirement, rank=part.rank, parts=()), dimensions
    )


def lasting_wants(job: Job, dimensions: Dimensions) -> Wants:
    """Return the wants of the job that always hold: its clauses that never relax."""
    constraints = constraints_of(job, dimensions)
    if isinstance(constraints, KindsConstraints):
        return request_and_wants(constraints.lasting_kinds, job.licences)[1]
    if constraints is None:
        return NO_WANTS
    if job.gang and job.licences:
        return replace(constraints.lasting, licences=times(job.licences, job.tasks))
    return constraints.lasting


def check_parts(job: Job) -> None:
    """Raise ``InputError`` unless the parts of a job are valid and contain exactly its tasks.

    The amounts of the parts are already checked.
    """
    for part in job.parts:
        if part.tasks < 1:
            raise InputError(f"{part.tasks} tasks in part {part.name}", hint="at least 1", field="parts")
        check_constraints(part.requirement, part.rank)
    for clause in said_of_some(parse_requirement(part.requirement, stored=True) for part in job.parts):
        raise InputError(
            f"{clause} is about all tasks of a gang, and only some parts have it", hint=FOR_ALL, field="parts"
        )
    names = [part.name for part in job.parts]
    tasks = sum(part.tasks for part in job.parts)
    if len(set(names)) < len(names):
        raise InputError("a part is given twice", hint="each name once", field="parts")
    if tasks != job.tasks or job.request != least_request(job.parts):
        what = f"{tasks} tasks in parts, {job.tasks} in the job"
        raise InputError(what, hint="those of the parts together, and the least of each amount", field="parts")
    if not job.gang or job.is_lease:
        raise InputError("only a gang that is no lease has parts", hint="gang: true", field="parts")
