"""Removal of uploads that no job uses: at intervals, those whose last use is long ago."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from cress.center.process.turns import in_turns
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.uploads import uploads_of

if TYPE_CHECKING:
    from cress.center.committing.committer import Committer

# Seconds between two looks: at most, and as a part of the time for which unused files are kept.
LOOK, PART = 600.0, 0.2

_log = logging.getLogger("cress.center")


class UnusedUploads:
    """Removes files that were not used for long and that no unfinished job names.

    A submit is a use, and so is each look that finds an unfinished job with the file.
    """

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    async def run(self) -> None:
        """Look at intervals, for ever."""
        uploads = self._committer.uploads
        while True:
            await asyncio.sleep(min(LOOK, max(1.0, uploads.limits.kept * PART)))
            if self._committer.loop.is_aside or uploads.is_empty:
                continue
            try:
                await self.look()
            except OSError as error:
                _log.warning("unused uploads could not be removed: %s", error)

    async def look(self) -> int:
        """Remove what is unused; return the number of files."""
        uploads = self._committer.uploads
        overdue = set(await asyncio.to_thread(uploads.overdue))
        used = await self._used_of(overdue) if overdue else set()
        await asyncio.to_thread(uploads.touch, used)
        return await asyncio.to_thread(uploads.remove_unused, overdue - used)

    async def _used_of(self, digests: set[str]) -> set[str]:
        """Return those of the digests that unfinished jobs name."""
        machine = self._committer.machine
        found: set[str] = set()
        seen: set[int] = set()
        # The jobs as they are now: a submit in between uses its files, so they are not removed.
        jobs: list[LiveJob | Family] = [*machine.jobs.values(), *machine.families.values()]
        async for job in in_turns(jobs):
            template = job.template or job.job.id
            if template in seen:
                continue
            seen.add(template)
            run = self._committer.loop.resolved(job)
            if run is not None:
                found |= digests.intersection(digest for _, digest in uploads_of(run))
        return found
