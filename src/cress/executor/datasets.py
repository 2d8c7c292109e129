"""The paths of this node that DataLocality may name: those that match patterns and are there (docs/data.md)."""

from __future__ import annotations

import asyncio
import glob
from collections.abc import Callable, Iterable
from itertools import islice

from cress.executor.background import in_background

# So many paths are told at most; whoever has more of them names the folder that they are in.
MOST_PATHS = 1_000
# Seconds that a look may take until its result is waited for no longer: a file system may be away.
PATIENCE = 1.0


def found(patterns: Iterable[str]) -> tuple[tuple[str, ...], bool]:
    """The paths that match, sorted, at most ``MOST_PATHS``; whether there are more."""
    there: set[str] = set()
    for pattern in dict.fromkeys(patterns):
        # Two more than may be told, since some may be known already: a pattern may match millions.
        for path in islice(glob.iglob(pattern), 2 * MOST_PATHS):  # noqa: PTH207
            if path.isprintable():
                there.add(path.rstrip("/") or "/")
    return tuple(sorted(there)[:MOST_PATHS]), len(there) > MOST_PATHS


class Datasets:
    """What is there, as far as it is known; one look at a time, in a thread that nobody has to wait for."""

    def __init__(self, patterns: tuple[str, ...], say: Callable[[str], None]) -> None:
        self.known: tuple[str, ...] = ()
        self._patterns = patterns
        self._say = say
        self._looking: asyncio.Future[tuple[tuple[str, ...], bool]] | None = None

    async def look(self) -> tuple[str, ...]:
        """What is there now; what is known of before if that takes long."""
        if not self._patterns:
            return ()
        if self._looking is None:
            self._looking = in_background(self._look)
        await asyncio.wait({self._looking}, timeout=PATIENCE)
        if self._looking.done():
            self.known, more = self._looking.result()
            self._looking = None
            if more:
                self._say(f"more than {MOST_PATHS} paths of data; the first count: name the folder that they are in")
        return self.known

    def _look(self) -> tuple[tuple[str, ...], bool]:
        try:
            return found(self._patterns)
        except OSError:
            return (), False
