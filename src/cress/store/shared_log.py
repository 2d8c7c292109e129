"""The interface of a log that several centers share: numbered entries behind a fence, shortened by checkpoints."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from cress.store.base import Changed, Checkpoint, Damaged, StoreError
from cress.store.commit_journal import StoredCommit
from cress.store.lead import Lead

# Entries above this size in bytes are compressed.
LARGE = 4096
_RAW, _COMPRESSED = b"r", b"z"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredCommit).decode


class Head(msgspec.Struct, frozen=True):
    """The end of a shared log.

    ``id`` identifies the log. ``epoch`` is the newest (0: none has begun), ``last`` the number of the last entry, and
    ``checkpoint`` that of the last entry that the newest checkpoint covers (0: none).
    """

    id: str
    epoch: int
    last: int
    checkpoint: int


class Trimmed(StoreError):
    """The log does not go back to the wanted entry; a checkpoint covers it."""


class LogUnreachable(StoreError):
    """The servers of the log do not answer in time. A pending change may be stored or not."""


class SharedLog(Protocol):
    """Numbered entries in a service that several centers reach. All of them see an appended entry.

    One thread at a time calls it. Raises ``LogUnreachable``, and ``StoreError`` if the service refuses an operation.
    """

    name: str
    """The place of the log for messages, without a password."""

    def head(self) -> Head:
        """Return the end of the log, at least as new as the newest entry that was acknowledged to any center."""

    def append(self, number: int, entry: bytes, epoch: int, checkpoint: Checkpoint | None = None) -> None:
        """Append an entry. Raises ``Fenced`` for an epoch older than the newest; a newer one begins.

        A ``checkpoint`` that was put before becomes the newest one, and obsolete data is removed. A ``number`` after a
        gap makes it the beginning of all that follows. Entries are kept from the previous checkpoint on: centers that
        follow closely need no checkpoint.

        Raises ``Changed`` if there is another entry with that number. Lost answers are resolved: when this returns the
        entry is stored, and after ``Fenced`` or ``Changed`` it is not.
        """

    def entries(self, after: int) -> Iterator[bytes]:
        """Yield the entries after number ``after``, in order. Raises ``Trimmed``."""

    def wait(self, after: int, seconds: float) -> bool:
        """Wait at most ``seconds`` for an entry after number ``after``; return whether there may be one.

        It may be called by another thread than the other methods.
        """

    def put_checkpoint(self, number: int, pieces: Iterable[bytes]) -> Checkpoint:
        """Store the pieces of a checkpoint that covers the log up to entry ``number``, for ``append``.

        It may be called by another thread than the other methods, while entries are appended.
        """

    def checkpoint(self) -> tuple[Checkpoint, Iterator[bytes]]:
        """Return the newest checkpoint and its pieces."""

    def lead(self, address: str) -> Lead:
        """Return the lead of this log, for the center at ``address``."""

    def close(self) -> None:
        """Close the connections."""


# --- entries ----------------------------------------------------------------------------------------------------------


def encode_entry(commit: StoredCommit, chain: int) -> tuple[bytes, int]:
    """Return a commit as an entry, and the chain after it: a CRC-32 over all entries so far."""
    body = _encode(commit)
    body = _COMPRESSED + zlib.compress(body, 1) if len(body) > LARGE else _RAW + body
    after = zlib.crc32(body, chain)
    return after.to_bytes(4, "little") + body, after


def decode_entry(entry: bytes, chain: int, what: str) -> tuple[StoredCommit, int]:
    """Return the commit of an entry, and the chain after it. ``what`` names the entry in errors.

    Raises ``Damaged`` if the entry did not follow ``chain``.
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
    """Return the address of a store for display, without password and query; empty if it is invalid."""
    scheme, mark, rest = address.partition("://")
    login, at, place = rest.rpartition("@")
    return f"{scheme}://{login.partition(':')[0]}{at}{place.partition('?')[0]}" if mark else ""


def another(name: str, number: int) -> Changed:
    """Return the error of an entry whose number is taken."""
    return Changed(f"the store {name} has changed since it was read: there is another entry {number}")
