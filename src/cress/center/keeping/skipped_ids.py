"""The ids of jobs that were skipped when a cluster went on with an older copy of its store, as a note of the store.

Nobody can tell whether such an id was given to a job that is lost, or to none.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

NOTE = "skipped"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[int, int]]).decode


def note_with(known: bytes | None, first: int, last: int) -> bytes:
    """Return the note with the ids ``first`` to ``last`` (included) added."""
    return _encode([*_ranges(known), (first, last)])


def skipped_range(note: Callable[[str], bytes | None], number: int) -> tuple[int, int] | None:
    """Return the first and the last of the ids that were skipped together with this one; None if it was not skipped."""
    return next((found for found in _ranges(note(NOTE)) if found[0] <= number <= found[1]), None)


def _ranges(known: bytes | None) -> list[tuple[int, int]]:
    return [] if known is None else _decode(known)
