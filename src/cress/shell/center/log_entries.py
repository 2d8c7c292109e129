"""Entries of the store's log: a record, and the events for people from its step.

Events follow from a step, not from its facts: without stored events a center that applies facts would have a gap.
"""

from __future__ import annotations

import msgspec

# The first byte of an entry: msgpack never uses it, so no record of an older release begins with it.
MARK = b"\xc1"


class LogEntry(msgspec.Struct, frozen=True, array_like=True):
    """A record as bytes, and its events as ``Events.encode`` returns them (empty in logs of older releases)."""

    record: bytes
    events: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LogEntry).decode


def pack(record: bytes, events: bytes) -> bytes:
    """Return an entry in its stored form."""
    return MARK + _encode(LogEntry(record, events))


def unpack(data: bytes) -> LogEntry:
    """Return a stored entry. Raises ``msgspec.MsgspecError``."""
    return _decode(memoryview(data)[1:]) if data[:1] == MARK else LogEntry(data)
