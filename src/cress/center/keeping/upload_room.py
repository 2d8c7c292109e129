"""The room that uploads take: counted from the folder now and then, and kept up to date in between.

A look at every file for each new one would make a folder of thousands of files slower with every file.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cress.model.errors import NotAccepted
from cress.model.resources import Measure
from cress.model.units import format_amount

# Bytes for which a smaller file counts, too: file systems have room for about one file in so many bytes. Without it,
# one user's many tiny files would leave no place for the store.
LEAST = 16_384
# Seconds after which the folder is counted again, since other centers may share it; and before a refusal.
COUNT_EVERY, COUNT_BEFORE_REFUSAL = 60.0, 1.0


class UploadLimits(NamedTuple):
    """The most bytes of one file, of the files of one user, and of all files; the seconds after the last use."""

    file: int
    user: int
    total: int
    kept: float


class CountedFile(NamedTuple):
    """A file: its user, its announced size in bytes, and whether it counts for all, as parts and contents do once."""

    user: str
    size: int
    in_total: bool


class UploadRoom:
    """The room for uploads within ``limits``; ``count`` yields the files that are there."""

    def __init__(self, limits: UploadLimits, count: Callable[[], Iterable[CountedFile]]) -> None:
        self._limits = limits
        self._count = count
        self._users: Counter[str] = Counter()
        self._total = 0
        self._counted = -COUNT_EVERY
        # One file at a time takes room.
        self._lock = threading.Lock()

    def take(self, user: str, size: int, make: Callable[[], None], *, in_total: bool) -> None:
        """Take the room of another file, which ``make`` makes. Raise NotAccepted if there is none.

        It is made while nobody counts: a count between both would not know of its size.
        """
        with self._lock:
            self._refresh(COUNT_EVERY)
            refusal = self._refusal(user, size, in_total=in_total)
            if refusal is not None and self._refresh(COUNT_BEFORE_REFUSAL):
                refusal = self._refusal(user, size, in_total=in_total)
            if refusal is not None:
                raise refusal
            make()
            self._users[user] += counted(size)
            self._total += counted(size) if in_total else 0

    def recount(self) -> None:
        """Count again before the next file, since some were removed."""
        self._counted = -COUNT_EVERY

    def _refresh(self, age: float) -> bool:
        """Count the files unless that was done less than ``age`` seconds ago."""
        if time.monotonic() - self._counted < age:
            return False
        self._users, self._total = Counter(), 0
        for user, size, in_total in self._count():
            if user:
                self._users[user] += counted(size)
            self._total += counted(size) if in_total else 0
        self._counted = time.monotonic()
        return True

    def _refusal(self, user: str, size: int, *, in_total: bool) -> NotAccepted | None:
        limits, own = self._limits, self._users[user]
        if own + counted(size) > limits.user:
            hint = f"at most {_bytes(limits.user)} (--upload-user-most); files go when no job uses them"
            what = f"{user} has uploads of {_bytes(own)}, and this one has {_bytes(counted(size))}"
            return NotAccepted(f"{what} (each file counts for {_bytes(LEAST)} at least)", hint=hint)
        if in_total and self._total + counted(size) > limits.total:
            hint = f"at most {_bytes(limits.total)} (--upload-most); files go when no job uses them"
            return NotAccepted(f"the uploads of this center have {_bytes(self._total)} already", hint=hint)
        return None


def counted(size: int) -> int:
    """Return the bytes for which a file of ``size`` bytes counts."""
    return max(size, LEAST)


def _bytes(size: int) -> str:
    return format_amount(size, Measure.BYTES)
