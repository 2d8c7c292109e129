"""The witness: executors keep the newest position of the log that their center has signed, and show it again.

A data directory that was replaced by an older copy of itself looks intact, since everything in it is equally old. The
executors are elsewhere and know better (docs/design/0048-every-file.md). A position is signed with a key that only the
store has: no executor can make a later one.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence

import msgspec

from cress.protocol.proof import TAG, mac

# Notes of the store: the key of signatures, and the first record of each of the last epochs.
KEY, BEGUN = "witness", "begun"
MOST_BEGUN = 200
KEY_LENGTH = 32

_encode = msgspec.msgpack.Encoder().encode


class LogPosition(msgspec.Struct, frozen=True, array_like=True):
    """The point to which a cluster had come: its last record in this epoch, the next numbers of jobs and attempts."""

    cluster: str
    epoch: int
    record: int
    job: int
    attempt: int


_decode_position = msgspec.msgpack.Decoder(LogPosition).decode
_decode_begun = msgspec.msgpack.Decoder(list[tuple[int, int]]).decode


class Lineage:
    """The epochs that led to the present state of a store, and the key with which its centers sign positions.

    ``begun`` has pairs of an epoch and the number of the last record before it, oldest first.
    """

    def __init__(self, key: bytes, cluster: str, begun: Sequence[tuple[int, int]]) -> None:
        self.key = key
        self.cluster = cluster
        self.begun = list(begun)

    @classmethod
    def of(cls, note: Callable[[str], bytes | None], cluster: str) -> Lineage | None:
        """Return the lineage in the notes of a store; None if no center has signed anything for it."""
        key, begun = note(KEY), note(BEGUN)
        return None if not key else cls(key, cluster, _decode_begun(begun) if begun else ())

    def begin(self, epoch: int, number: int) -> Lineage:
        """Return this lineage with one more epoch, which begins after record ``number``."""
        return Lineage(self.key, self.cluster, [*self.begun, (epoch, number)][-MOST_BEGUN:])

    def notes(self) -> dict[str, bytes]:
        """Return the notes for the store."""
        return {KEY: self.key, BEGUN: _encode(self.begun)}

    def sign(self, position: LogPosition) -> bytes:
        """Return a position with its signature in front."""
        data = _encode(position)
        return self._tag(data) + data

    def read(self, signed: bytes) -> LogPosition | None:
        """Return a signed position; None if no center of this cluster has signed it."""
        data = signed[TAG:]
        if not hmac.compare_digest(self._tag(data), signed[:TAG]):
            return None
        position = _decode_position(data)
        return position if position.cluster == self.cluster else None

    def lacks(self, signed: bytes, number: int) -> LogPosition | None:
        """Return a signed position that the store, which ends with record ``number``, never came to; else None."""
        position = self.read(signed) if signed else None
        if position is None:
            return None
        # The records of an epoch end where the next one begins.
        last = next((before for epoch, before in self.begun if epoch > position.epoch), number)
        newest = self.begun[-1][0] if self.begun else 0
        return position if position.epoch > newest or position.record > last else None

    def _tag(self, data: bytes) -> bytes:
        return mac(self.key, "position of the log", data)[:TAG]
