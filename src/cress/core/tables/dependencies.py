"""Dependencies between live jobs by name (JobDependency, source E §3.2): within the group, or as ``group/name``.

A name stands for all live jobs with it; no such job need exist yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from cress.model.errors import InputError


class JobKey(NamedTuple):
    """The group and the name of the jobs to which a dependency refers."""

    group: str
    name: str


class Relation(NamedTuple):
    """The relation of a job to others: its key, and the keys on which it depends.

    No job can depend on a job without a name.
    """

    key: JobKey
    on: tuple[JobKey, ...]


def key_of(text: str, group: str) -> JobKey:
    """Return the key of ``text`` in a job of ``group``: a name of its group, or ``group/name``."""
    first, slash, rest = text.partition("/")
    return JobKey(first, rest) if slash else JobKey(group, text)


class DependencyTable:
    """The relations of live jobs, by id.

    Names are indexed from the first lookup on: ``live`` returns the jobs at that time, and after it (``followed``)
    every job is added, with its name only if it depends on no job.
    """

    def __init__(self, live: Callable[[], Iterable[tuple[int, JobKey]]]) -> None:
        self.followed = False
        self._live = live
        # Only for jobs with dependencies.
        self._relations: dict[int, Relation] = {}
        # True if a live job depends on others; an attribute, because every start and end reads it.
        self.in_use = False
        self._named: dict[JobKey, dict[int, None]] = {}
        self._behind: dict[JobKey, dict[int, None]] = {}

    def add(self, number: int, relation: Relation) -> None:
        """Add a job."""
        if self.followed:
            self._named.setdefault(relation.key, {})[number] = None
        if relation.on:
            self._relations[number] = relation
            self.in_use = True
            for key in relation.on:
                self._behind.setdefault(key, {})[number] = None

    def remove(self, number: int, key: JobKey) -> None:
        """Remove the job with this key, because it has ended or is added again with another group."""
        _leave(self._named, key, number)
        if number in self._relations:
            for awaited in self._relations.pop(number).on:
                _leave(self._behind, awaited, number)
            self.in_use = bool(self._relations)

    def named(self, key: JobKey) -> list[int]:
        """Return the live jobs with that name, by id."""
        self._follow()
        return sorted(self._named.get(key, ())) if key.name else []

    def is_named(self, key: JobKey) -> bool:
        """Return True if a live job has that name."""
        self._follow()
        return bool(key.name) and key in self._named

    def _follow(self) -> None:
        if not self.followed:
            self.followed = True
            for number, key in self._live():
                self._named.setdefault(key, {})[number] = None

    @property
    def depended_on(self) -> list[JobKey]:
        """Return the keys on which live jobs depend, in order; such jobs need not exist."""
        return sorted(self._behind)

    def concern(self, number: int, key: JobKey) -> bool:
        """Return True if the job with this id and key depends on others, or others on it."""
        return number in self._relations or key in self._behind

    def behind(self, key: JobKey) -> list[int]:
        """Return the live jobs that depend directly on jobs with this key, by id."""
        return sorted(self._behind.get(key, ()))

    def check(self, new: Iterable[Relation]) -> None:
        """Raise ``InputError`` if jobs of one submit would depend on themselves, directly or through live jobs."""
        new = [relation for relation in new if relation.on]
        if not new:
            return
        edges: dict[JobKey, dict[JobKey, None]] = {}
        for relation in (*self._relations.values(), *new):
            for key in relation.on:
                edges.setdefault(relation.key, {})[key] = None
        for relation in new:
            circle = _circle(relation.key, edges) if relation.key.name else []
            if len(circle) == 1:
                raise InputError(
                    f"job {relation.key.name} depends on itself", hint="the name of another job", field="job_dependency"
                )
            if circle:
                names = " → ".join(_name(key, relation.key.group) for key in (*circle, relation.key))
                raise InputError(
                    f"these jobs depend on each other: {names}", hint="an order in which they can run",
                    field="job_dependency",
                )  # fmt: skip


def _leave(table: dict[JobKey, dict[int, None]], key: JobKey, number: int) -> None:
    there = table.get(key)
    if there is not None:
        there.pop(number, None)
        if not there:
            del table[key]


def _name(key: JobKey, group: str) -> str:
    return key.name if key.group == group else f"{key.group}/{key.name}"


def _circle(start: JobKey, edges: dict[JobKey, dict[JobKey, None]]) -> list[JobKey]:
    """Return a path from ``start`` back to it, without the last step; empty without one."""
    path: list[JobKey] = [start]
    ways: list[Iterator[JobKey]] = [iter(edges.get(start, ()))]
    seen: set[JobKey] = set()
    while ways:
        key = next(ways[-1], None)
        if key is None:
            ways.pop()
            path.pop()
        elif key == start:
            return path
        elif key not in seen:
            seen.add(key)
            path.append(key)
            ways.append(iter(edges.get(key, ())))
    return []
