"""Entries of the store's log: a record, and the events for people that its step led to.

Events follow from a step, not from its facts: without them a center that applies facts would have a gap to show.
"""

from __future__ import annotations

import msgspec

# The first byte of an entry: msgpack never uses it, so no record of an older release begins with it.
MARK = b"\xc1"


class LogEntry(msgspec.Struct, frozen=True, array_like=True):
    """A record as bytes, and its events as ``Events.encode`` gives them (empty in logs of older releases)."""

    record: bytes
    events: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LogEntry).decode


def pack(record: bytes, events: bytes) -> bytes:
    """Return an entry as it is stored."""
    return MARK + _encode(LogEntry(record, events))


def unpack(data: bytes) -> LogEntry:
    """Return a stored entry. Raises ``msgspec.MsgspecError``."""
    return _decode(memoryview(data)[1:]) if data[:1] == MARK else LogEntry(data)
