"""Every number on the wire and in the journal has bounds in its type, and extreme ones are refused where they are
read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect as types

from cress.model.reports import Cause, Checked, Ended, Report, Started
from cress.protocol import messages as m
from cress.protocol.large_messages import LARGE, reading
from cress.shell.executor.records import Record
from tests.protocol.recorded import MESSAGES

# As msgpack can carry them: whole numbers have at most 64 bits.
EXTREMES = (2**31, 2**63, 2**64 - 1, -1, -(2**63), 1e308, math.nan, math.inf)
DECODERS: dict[str, Callable[[bytes], Any]] = {
    "from agent": m.decode_from_agent,
    "from center": m.decode_from_center,
    "to supervisor": m.decode_to_supervisor,
    "from supervisor": m.decode_from_supervisor,
}


def unbounded(kind: types.Type, place: str, seen: set[type]) -> Iterator[str]:
    """The numbers without bounds in a type, by their fields."""
    if isinstance(kind, (types.IntType, types.FloatType)):
        if kind.ge is None or kind.le is None:
            yield place
    elif isinstance(kind, types.StructType):
        if kind.cls not in seen:
            seen.add(kind.cls)
            for field in kind.fields:
                yield from unbounded(field.type, f"{kind.cls.__name__}.{field.name}", seen)
    elif isinstance(kind, types.DictType):
        yield from unbounded(kind.key_type, place, seen)
        yield from unbounded(kind.value_type, place, seen)
    else:
        for each in (*getattr(kind, "types", ()), *getattr(kind, "item_types", ())):
            yield from unbounded(each, place, seen)
        if hasattr(kind, "item_type"):
            yield from unbounded(kind.item_type, place, seen)


@pytest.mark.parametrize("union", [m.FromAgent, m.FromCenter, m.ToSupervisor, m.FromSupervisor, Record])
def test_every_number_has_bounds_in_its_type(union: Any) -> None:
    assert list(unbounded(types.type_info(union), "", set())) == []


def test_a_number_without_bounds_would_be_found() -> None:
    class Loose(msgspec.Struct):
        many: dict[str, tuple[int, ...]]

    assert list(unbounded(types.type_info(Loose), "", set())) == ["Loose.many"]


def unsized(kind: types.Type, place: str, seen: set[type]) -> Iterator[str]:
    """The texts, bytes, lists and mappings without a maximum of their length in a type, by their fields."""
    if isinstance(kind, types.StructType):
        if kind.cls not in seen:
            seen.add(kind.cls)
            for field in kind.fields:
                yield from unsized(field.type, f"{kind.cls.__name__}.{field.name}", seen)
        return
    sized = (types.StrType, types.BytesType, types.VarTupleType, types.ListType, types.DictType)
    if isinstance(kind, sized) and kind.max_length is None:
        yield place
    inner = (getattr(kind, name) for name in ("item_type", "key_type", "value_type") if hasattr(kind, name))
    for each in (*getattr(kind, "types", ()), *getattr(kind, "item_types", ()), *inner):
        yield from unsized(each, place, seen)


def test_every_text_and_list_of_an_executor_has_a_bound_in_its_type() -> None:
    assert list(unsized(types.type_info(m.FromAgent), "", set())) == []


def test_a_text_without_a_bound_would_be_found() -> None:
    class Loose(msgspec.Struct):
        many: dict[str, tuple[int, ...]]

    assert list(unsized(types.type_info(Loose), "", set())) == ["Loose.many"] * 3


REPORTS: tuple[Report, ...] = (
    Started(attempt=1, at=2, pid=3),
    Ended(attempt=4, cause=Cause.EXITED, code=0, started=1, at=2),
    Checked(attempt=5, at=6, ready=True),
)


@pytest.mark.parametrize(
    "message", [m.Reports(reports=REPORTS * 1_500, leaving=True), m.Data(data=("/d" * 9_000,) * 9)]
)
def test_a_large_message_read_in_parts_is_that_read_at_once(message: Any) -> None:
    data = m.encode(message)
    assert len(data) > LARGE
    work, pauses = reading(data), 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            assert done.value == message == m.decode_from_agent(data)
            break
        pauses += 1
    assert pauses == (9 if isinstance(message, m.Reports) else 0)


def test_a_mistake_in_a_large_message_is_told_with_its_report() -> None:
    reports = msgspec.to_builtins(m.Reports(reports=REPORTS * 1_500))
    reports["reports"][4_000]["attempt"] = -1
    with pytest.raises(msgspec.ValidationError, match=r"`int` >= 0 - at `\$.attempt` \(report 4000\)"):
        list(reading(msgspec.msgpack.encode(reports)))
    many = {"type": "Reports", "reports": [{}] * (m.MOST_REPORTS + 1)}
    with pytest.raises(msgspec.ValidationError, match=r"`array` of length <= 50000 - at `\$.reports`"):
        list(reading(msgspec.msgpack.encode(many)))


def variants(value: Any) -> Iterator[Any]:
    """A message as plain values with one number replaced, for each number and each extreme."""
    if isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        yield from EXTREMES
    elif isinstance(value, dict):
        for key, inner in value.items():
            for each in variants(inner):
                yield {**value, key: each}
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            for each in variants(inner):
                yield [*value[:index], each, *value[index + 1 :]]


def numbers(value: Any) -> Iterator[float]:
    """The numbers in plain values."""
    if isinstance(value, (int, float)):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(key)
            yield from numbers(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from numbers(inner)


@pytest.mark.parametrize(
    ("way", "message"),
    [(way, message) for way, messages in MESSAGES.items() for message in messages],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_an_extreme_number_is_refused_or_fits(way: str, message: Any) -> None:
    for variant in variants(msgspec.to_builtins(message, builtin_types=(bytes,))):
        try:
            read = DECODERS[way](msgspec.msgpack.encode(variant))
        except msgspec.ValidationError:
            continue
        for number in numbers(msgspec.to_builtins(read, builtin_types=(bytes,))):
            assert math.isfinite(number)
            assert abs(number) < 2**63
