"""The interface of a log that several centers share: numbered entries behind a fence, and a checkpoint that shortens
it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from cress.store.base import Changed, Checkpoint, Damaged, StoreError
from cress.store.commit_journal import StoredCommit
from cress.store.lead import Lead

# Entries above so many bytes are compressed.
LARGE = 4096
_RAW, _COMPRESSED = b"r", b"z"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredCommit).decode


class Head(msgspec.Struct, frozen=True):
    """The end of a shared log.

    ``id`` tells logs apart. ``epoch`` is the newest (0: none has begun), ``last`` the number of the last entry, and
    ``checkpoint`` that of the last entry that the newest checkpoint covers (0: there is none).
    """

    id: str
    epoch: int
    last: int
    checkpoint: int


class Trimmed(StoreError):
    """The log does not go back to the wanted entry; a checkpoint covers it."""


class LogUnreachable(StoreError):
    """The servers of the log do not answer, or not in time. A change that was under way may be stored or not."""


class SharedLog(Protocol):
    """Numbered entries in a service that several centers reach. An entry that was appended is there for all of them.

    One thread at a time calls it. Raises ``LogUnreachable``, and ``StoreError`` when the service refuses something.
    """

    name: str
    """The place of the log, for sentences: without a password."""

    def head(self) -> Head:
        """Return the end of the log, not older than the newest entry that any center was told is stored."""

    def append(self, number: int, entry: bytes, epoch: int, checkpoint: Checkpoint | None = None) -> None:
        """Append an entry. Raises ``Fenced`` for an epoch older than the newest; a newer one begins.

        With a ``checkpoint`` that was put before, that is the newest one from here on, and what nobody needs any more
        is removed. A ``number`` behind a gap makes it the beginning of all that follows. Entries are kept from the last
        checkpoint but one on: centers that follow closely need no checkpoint.

        Raises ``Changed`` if there is another entry with that number. An answer that got lost is found out: when
        this returns the entry is stored, and after ``Fenced`` or ``Changed`` it is not.
        """

    def entries(self, after: int) -> Iterator[bytes]:
        """Return the entries after number ``after``, in order. Raises ``Trimmed``."""

    def wait(self, after: int, seconds: float) -> bool:
        """Wait until there is an entry after number ``after``, at most so long; return whether there may be one.

        Another thread than that of the others may call it.
        """

    def put_checkpoint(self, number: int, pieces: Iterable[bytes]) -> Checkpoint:
        """Store the pieces of a checkpoint that covers the log up to entry ``number``, for ``append``.

        Another thread than that of the others may call it, while entries are appended.
        """

    def checkpoint(self) -> tuple[Checkpoint, Iterator[bytes]]:
        """Return the newest checkpoint and its pieces."""

    def lead(self, address: str) -> Lead:
        """Return the lead of this log, for the center at ``address``."""

    def close(self) -> None:
        """Close the connections."""


# --- entries ----------------------------------------------------------------------------------------------------------


def encode_entry(commit: StoredCommit, chain: int) -> tuple[bytes, int]:
    """Return a commit as an entry, and the chain after it: a CRC-32 over all entries up to this one."""
    body = _encode(commit)
    body = _COMPRESSED + zlib.compress(body, 1) if len(body) > LARGE else _RAW + body
    after = zlib.crc32(body, chain)
    return after.to_bytes(4, "little") + body, after


def decode_entry(entry: bytes, chain: int, what: str) -> tuple[StoredCommit, int]:
    """Return the commit of an entry, and the chain after it. ``what`` names the entry.

    Raises ``Damaged`` if the entry is not the one that followed ``chain``.
    """
    body = entry[4:]
    after = zlib.crc32(body, chain)
    if after != int.from_bytes(entry[:4], "little"):
        raise Damaged(f"{what} is not as it was stored, or does not follow the one before it")
    try:
        return _decode(zlib.decompress(body[1:]) if body[:1] == _COMPRESSED else body[1:]), after
    except (msgspec.MsgspecError, zlib.error) as error:
        raise Damaged(f"{what} cannot be read: {error}") from None


def without_password(address: str) -> str:
    """Return the address of a store as it may be shown: without password and query; empty if it is none."""
    scheme, mark, rest = address.partition("://")
    login, at, place = rest.rpartition("@")
    return f"{scheme}://{login.partition(':')[0]}{at}{place.partition('?')[0]}" if mark else ""


def another(name: str, number: int) -> Changed:
    """Return the error for an entry whose number is taken."""
    return Changed(f"the store {name} has changed since it was read: there is another entry {number}")
