"""The paths of data on this node, for DataLocality: existing paths that match the configured patterns.

See docs/data.md.
"""

from __future__ import annotations

import asyncio
import glob
from collections.abc import Callable, Iterable
from itertools import islice

from cress.executor.background import in_background

# Most paths reported; if there are more, their folder should be configured instead.
MOST_PATHS = 1_000
# Seconds to wait for a scan, since a file system may hang.
PATIENCE = 1.0


def found(patterns: Iterable[str]) -> tuple[tuple[str, ...], bool]:
    """Return the matching paths, sorted, at most ``MOST_PATHS`` of them, and whether there are more."""
    there: set[str] = set()
    for pattern in dict.fromkeys(patterns):
        # Twice as many, since patterns may overlap; not all, since a pattern may match millions of paths.
        for path in islice(glob.iglob(pattern), 2 * MOST_PATHS):  # noqa: PTH207
            if path.isprintable():
                there.add(path.rstrip("/") or "/")
    return tuple(sorted(there)[:MOST_PATHS]), len(there) > MOST_PATHS


class Datasets:
    """The latest known paths of data. One scan runs at a time, in a daemon thread."""

    def __init__(self, patterns: tuple[str, ...], say: Callable[[str], None]) -> None:
        self.known: tuple[str, ...] = ()
        self._patterns = patterns
        self._say = say
        self._looking: asyncio.Future[tuple[tuple[str, ...], bool]] | None = None

    async def look(self) -> tuple[str, ...]:
        """Scan, and return the paths; those of the last scan if this one takes longer than ``PATIENCE``."""
        if not self._patterns:
            return ()
        if self._looking is None:
            self._looking = in_background(self._look)
        await asyncio.wait({self._looking}, timeout=PATIENCE)
        if self._looking.done():
            self.known, more = self._looking.result()
            self._looking = None
            if more:
                self._say(
                    f"more than {MOST_PATHS} paths of data, of which only the first {MOST_PATHS} are used: "
                    "configure their folder instead"
                )
        return self.known

    def _look(self) -> tuple[tuple[str, ...], bool]:
        try:
            return found(self._patterns)
        except OSError:
            return (), False
