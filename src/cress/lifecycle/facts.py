"""Facts of a step: events and decisions of the scheduler, in order, and row changes of the tables.

They are stored compactly: a fact of the scheduler is a list of its name and its fields, without trailing fields with
default values. Consecutive starts of tasks of one job are one entry, by columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, get_args

import msgspec

from cress.lifecycle.slices import SLICE, Slices, whole
from cress.lifecycle.tables.changes import RowChanges
from cress.model.decisions import Decision, Start
from cress.model.events import Event, JobSubmitted, NodeAdded, NodeChanged
from cress.model.options import Options


class Configured(msgspec.Struct, frozen=True, tag=True):
    """The scheduler continues with other options."""

    options: Options


class Widened(msgspec.Struct, frozen=True, tag=True):
    """The scheduler continues with these custom dimensions: the earlier ones, followed by new ones."""

    dimensions: tuple[str, ...]


CoreFact: TypeAlias = Event | Decision | Configured | Widened


class Facts(msgspec.Struct):
    """All facts of a step: those of the scheduler, then row changes."""

    core: list[CoreFact] = []
    rows: RowChanges = {}


_KINDS: dict[str, type[msgspec.Struct]] = {
    arg.__name__: arg for arg in (*get_args(Event), *get_args(Decision), Configured, Widened)
}
_STARTS = "Starts"
# Number of fields of a start without a default: attempt, job, task, node.
_START_FIELDS = len(Start.__struct_fields__) - len(Start.__struct_defaults__)
_NODES = (NodeAdded, NodeChanged)


def told_of(facts: Iterable[CoreFact]) -> dict[str, dict[Any, Any]]:
    """Return the latest jobs and nodes that the scheduler was told, by table and key."""
    jobs: dict[Any, Any] = {}
    nodes: dict[Any, Any] = {}
    for fact in facts:
        if isinstance(fact, JobSubmitted):
            jobs[fact.job.id] = fact.job
        elif isinstance(fact, _NODES):
            nodes[fact.node.name] = fact.node
    return {"jobs": jobs, "nodes": nodes}


_astuple = msgspec.structs.astuple


class UnknownFactError(ValueError):
    """A fact that only a newer release knows."""


def packed(facts: Iterable[CoreFact]) -> list[Any]:
    """Return facts of the scheduler in their stored form."""
    return whole(packing(facts))


def packing(facts: Iterable[CoreFact]) -> Slices[list[Any]]:
    """Do ``packed`` in slices."""
    entries: list[Any] = []
    run: list[Start] = []
    for number, fact in enumerate(facts, 1):
        if not number % SLICE:
            yield
        if fact.__class__ is Start and _is_plain(fact):
            if run and (fact.job, fact.attempt) != (run[-1].job, run[-1].attempt + 1):
                entries.append(_packed_starts(run))
                run = []
            run.append(fact)
            continue
        if run:
            entries.append(_packed_starts(run))
            run = []
        entries.append(packed_struct(fact))
    if run:
        entries.append(_packed_starts(run))
    return entries


def unpacked(entries: Sequence[Any]) -> Iterator[CoreFact]:
    """Yield stored facts. Raises ``UnknownFactError``, and ``msgspec.ValidationError`` for invalid ones."""
    for name, *values in entries:
        if name == _STARTS:
            yield from _unpacked_starts(*values)
            continue
        yield unpacked_struct(_KINDS, (name, *values))


def unpacked_struct(kinds: Mapping[str, type[msgspec.Struct]], entry: Sequence[Any]) -> Any:
    """Return the struct of an entry that ``packed_struct`` made. Raises ``UnknownFactError``."""
    name, *values = entry
    kind = kinds.get(name)
    if kind is None:
        raise UnknownFactError(f"this release does not know the fact {name!r}: start the newer release that wrote it")
    return msgspec.convert(dict(zip(kind.__struct_fields__, values, strict=False)), kind)


def packed_struct(fact: msgspec.Struct) -> list[Any]:
    """Return the name of a struct and its fields, without trailing fields with default values."""
    kind = type(fact)
    values = [kind.__name__, *_astuple(fact)]
    defaults = kind.__struct_defaults__
    last = len(defaults)
    while last and values[-1] == defaults[last - 1]:
        values.pop()
        last -= 1
    return values


def _is_plain(start: Start) -> bool:
    return _astuple(start)[_START_FIELDS:] == Start.__struct_defaults__


def _packed_starts(run: list[Start]) -> list[Any]:
    if len(run) == 1:
        return packed_struct(run[0])
    first = run[0]
    tasks: int | list[int] = first.task
    if any(start.task != first.task + i for i, start in enumerate(run)):
        tasks = [start.task for start in run]
    names = {start.node: 0 for start in run}
    names = {name: i for i, name in enumerate(names)}
    places: int | bytes | list[int] = len(run)
    if len(names) > 1:
        indices = [names[start.node] for start in run]
        places = bytes(indices) if len(names) <= 256 else indices
    return [_STARTS, first.attempt, first.job, tasks, list(names), places]


def _unpacked_starts(
    attempt: int, job: int, tasks: int | list[int], names: list[str], places: int | bytes | list[int]
) -> Iterator[Start]:
    indices = [0] * places if isinstance(places, int) else places
    for i, index in enumerate(indices):
        yield Start(attempt + i, job, tasks + i if isinstance(tasks, int) else tasks[i], names[index])
