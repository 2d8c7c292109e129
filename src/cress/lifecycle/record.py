"""Records: one step each, as stored in the log: the inputs, and the facts of the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from cress.lifecycle.facts import Facts, packed_struct, packing, unpacked, unpacked_struct
from cress.lifecycle.inputs import Input, Reported
from cress.lifecycle.slices import Slices, whole
from cress.lifecycle.tables.changes import TableChanges
from cress.model.reports import Report

# A newer minor version may add fields and tables, which an older release ignores.
MAJOR, MINOR = 6, 12


class Record(msgspec.Struct, frozen=True):
    """One step: the shell's clock and the wall clock (µs), the inputs as bytes (``inputs_of``), and the facts."""

    version: tuple[int, int]
    now: int
    utc: int
    inputs: msgspec.Raw
    facts: Facts


class _Reports(msgspec.Struct, frozen=True, tag="Reports"):
    """Reports of an executor about attempts, in compact form: each report is a list, as facts are."""

    node: str
    reports: list[Any]


class _Stored5(msgspec.Struct, frozen=True, array_like=True):
    now: int
    utc: int
    inputs: msgspec.Raw


class _StoredInputs(msgspec.Struct, frozen=True, array_like=True):
    """The first fields of a record; its facts are not decoded."""

    version: tuple[int, int]
    now: int
    utc: int
    inputs: msgspec.Raw


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """A record as written; fields of a newer minor version follow these."""

    version: tuple[int, int]
    now: int
    utc: int
    inputs: msgspec.Raw
    core: list[Any]
    rows: dict[str, TableChanges]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode
_decode_inputs_only = msgspec.msgpack.Decoder(_StoredInputs).decode
_decode_first = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_inputs = msgspec.msgpack.Decoder(tuple[Input | _Reports, ...]).decode
_REPORTS = {arg.__name__: arg for arg in get_args(Report)}
_decode_5 = msgspec.msgpack.Decoder(_Stored5).decode


def record_of(now: int, utc: int, inputs: Sequence[Input], facts: Facts) -> Record:
    """Return the record of a step."""
    stored = [
        _Reports(input_.node, [packed_struct(report) for report in input_.reports])
        if isinstance(input_, Reported)
        else input_
        for input_ in inputs
    ]
    return Record((MAJOR, MINOR), now, utc, msgspec.Raw(_encode(stored)), facts)


def encode_record(record: Record) -> bytes:
    """Return the stored form of a record."""
    return whole(encoding(record))


def encoding(record: Record) -> Slices[bytes]:
    """Do ``encode_record`` in slices."""
    core = yield from packing(record.facts.core)
    yield
    return _encode(_Stored(record.version, record.now, record.utc, record.inputs, core, record.facts.rows))


def decode_record(data: bytes) -> Record:
    """Decode a stored record. One of version 5 has no facts (``has_facts``).

    Raises ``msgspec.MsgspecError`` for invalid data, ``ValueError`` for a newer major version or for facts that only a
    newer release knows.
    """
    major = _major_of(data)
    if major == 5:
        old = _decode_5(data)
        return Record((5, 0), old.now, old.utc, old.inputs, Facts())
    if major != MAJOR:
        raise ValueError(
            f"a record of version {major} cannot be read, this release reads versions up to {MAJOR}: "
            "start the newer release that wrote it"
        )
    stored = _decode(data)
    return Record(
        stored.version, stored.now, stored.utc, stored.inputs, Facts(list(unpacked(stored.core)), stored.rows)
    )


def decode_without_facts(data: bytes) -> Record:
    """Do ``decode_record`` in a fraction of its time, with empty facts. Raises the same errors for its other fields."""
    if _major_of(data) != MAJOR:
        return decode_record(data)
    stored = _decode_inputs_only(data)
    return Record(stored.version, stored.now, stored.utc, stored.inputs, Facts())


def has_facts(record: Record) -> bool:
    """Return whether a record has facts to apply: logs of version 5 are stepped through once (``replay.stepped``)."""
    return record.version[0] > 5


def _major_of(data: bytes) -> int:
    # Records of version 5 have no version: they begin with a time.
    first = msgspec.msgpack.decode(_decode_first(data)[0])
    return 5 if isinstance(first, int) else int(first[0])


def inputs_of(record: Record) -> tuple[Input, ...]:
    """Return the inputs of a record."""
    return tuple(
        Reported(node=input_.node, reports=tuple(unpacked_struct(_REPORTS, report) for report in input_.reports))
        if isinstance(input_, _Reports)
        else input_
        for input_ in _decode_inputs(record.inputs)
    )
