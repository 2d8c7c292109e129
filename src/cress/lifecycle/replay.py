"""Replay: step a machine through a log again, and report the first difference from its facts.

This checks that steps are deterministic; recovery does not need it. Logs of version 5 have no facts: ``stepped`` takes
a machine through them, which decides like the one that wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from cress.lifecycle.effects import StepResult
from cress.lifecycle.facts import packed
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import Record, encode_record, has_facts, inputs_of


class Difference(msgspec.Struct, frozen=True):
    """The first difference: the number of its record, from 1, the time (µs), the place, and both values.

    ``place`` is its path: ``core`` with the number of the fact, or ``rows`` with the table and the kind of change.
    """

    record: int
    now: int
    place: tuple[Any, ...]
    stored: Any
    replayed: Any

    def __str__(self) -> str:
        place = " ".join(map(str, self.place))
        return f"record {self.record} has {_short(self.stored)} at {place}, the replay has {_short(self.replayed)}"


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()


def replay(machine: Machine, records: Iterable[Record]) -> Difference | None:
    """Step a machine, in its state before the first record, through the inputs; return the first difference."""
    for number, record in enumerate(records, 1):
        found = difference(number, record, stepped(machine, record))
        if found is not None:
            return found
    return None


def difference(number: int, record: Record, step: StepResult) -> Difference | None:
    """Return the first difference between the facts of a record and those of a step with its inputs."""
    if not has_facts(record):
        return None
    for place, one, other in (
        ("core", packed(record.facts.core), packed(step.facts.core)),
        ("rows", record.facts.rows, step.facts.rows),
    ):
        found = _first(_plain(one), _plain(other))
        if found is not None:
            path, stored, replayed = found
            return Difference(number, record.now, (place, *path), stored, replayed)
    return None


def is_as_stored(data: bytes, record: Record, step: StepResult) -> bool:
    """Return whether a step with the inputs of a record has the facts of the record's stored form, byte for byte."""
    again = Record(record.version, record.now, record.utc, record.inputs, step.facts)
    return encode_record(again) == data


def stepped(machine: Machine, record: Record) -> StepResult:
    """Step a machine through the inputs of a record, by the rules of the release that wrote it."""
    machine.as_version_5 = not has_facts(record)
    machine.keeps_revisions, machine.keeps_rules = record.version >= (6, 5), record.version >= (6, 11)
    step = machine.step(record.now, record.utc, inputs_of(record))
    machine.as_version_5, machine.keeps_revisions, machine.keeps_rules = False, True, True
    return step


def _plain(value: Any) -> Any:
    """Return facts as plain data, as they are read from a log."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), strict=False)


def _first(one: Any, other: Any) -> tuple[tuple[Any, ...], Any, Any] | None:
    """Return the path to the first difference of plain data, and both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys: Iterable[Any] = [*one, *(key for key in other if key not in one)]
        pairs = [(key, one.get(key, NOTHING), other.get(key, NOTHING)) for key in keys]
    elif isinstance(one, list) and isinstance(other, list):
        longer = max(len(one), len(other))
        pairs = [
            (i, one[i] if i < len(one) else NOTHING, other[i] if i < len(other) else NOTHING) for i in range(longer)
        ]
    else:
        return None if one == other else ((), one, other)
    for key, mine, its in pairs:
        found = _first(mine, its)
        if found is not None:
            path, *values = found
            return ((key, *path), *values)
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
