"""Sending of the files that jobs bring from where their submitter stands (``client/inputs.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cress.client import calls
from cress.client.aio.runtime import in_thread, sleep
from cress.client.calls import PreparedCall, T
from cress.client.errors import Refused, Unavailable
from cress.client.inputs import Input, Inputs, brings_files
from cress.protocol.file_views import UploadView

# Bytes of one part: over a slow line it arrives within the minute for which the center waits.
PART = 2**20
# Seconds before a part is sent again, if the center has too much to do; times that this is done in a row.
PAUSE, TRIES = 1.0, 30


class AsyncCenter(Protocol):
    """A connection that answers calls."""

    async def ask(self, call: PreparedCall[T], /) -> T:
        """Return the answer to a call."""
        ...


async def with_uploads(
    jobs: Sequence[Mapping[str, object]], center: AsyncCenter, bases: Sequence[Path] = (), *, send: bool = True
) -> list[Mapping[str, object]]:
    """Return the jobs with addresses of uploads in place of paths from where the submitter stands, and send the files.

    Relative paths are below ``bases``, one for each job; by default below the current directory. Without ``send``
    nothing is sent, as for a dry run. Raises InputError with the place in the jobs, and ClientError.
    """
    if not any(map(brings_files, jobs)):
        return list(jobs)
    with Inputs() as inputs:
        made: list[Mapping[str, object]] = []
        for place, job in enumerate(jobs):
            base = bases[place] if bases else Path()
            made.append(await in_thread(inputs.of_job, job, base, f"jobs[{place}]."))
        inputs.check()
        for found in inputs.found.values() if send else ():
            await _send(found, center)
    return made


async def _send(file: Input, center: AsyncCenter) -> None:
    """Send what the center does not have of a file."""
    state = UploadView(digest=file.digest, size=file.size, received=0)
    if file.size > PART:
        state = await _ask(file, center, 0, b"")
    while not state.complete:
        # Another submit may send the same file at this moment; both go on where it ends.
        data = await in_thread(file.part, state.received, PART)
        state = await _ask(file, center, state.received, data)


async def _ask(file: Input, center: AsyncCenter, offset: int, data: bytes) -> UploadView:
    for tried in range(TRIES):
        try:
            return await center.ask(calls.upload(file.digest, file.size, offset, data))
        except Refused as error:
            raise file.wrong(str(error)) from None
        except Unavailable as error:
            if not error.passing or tried == TRIES - 1:
                raise
        await sleep(PAUSE)
    raise AssertionError("the last try has returned or raised")
