"""Output of tasks, read from the node of each attempt, one attempt after another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from cress.center.committing.committer import Committer
from cress.center.committing.lookup import FoundTask, find_job, find_tasks
from cress.center.connections.bulk import ChunkSize
from cress.center.connections.connection_table import Away
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import NotAccepted
from cress.protocol.logs import LogFrame, Shown, encode_frame
from cress.protocol.messages import LogData

# Milliseconds that an executor waits for more output; seconds that it may take to answer after that.
WAIT = 5_000
PATIENCE = 10.0
# Seconds after which a follower reads again without a notice.
LOOK_AGAIN = 2.0
# Seconds for which a follower waits for a node to come back.
MOST_AWAY = 600.0
# Seconds of silence after which a follower gets a sign of life.
SIGN = 5.0


class NoAttempt(Exception):
    """The task has no attempt with this number."""


class Unfinished(Exception):
    """The center cannot read the rest now; another center, or the same one later, may be able to."""


class LogReader:
    """Reads one stream of one task from byte ``offset`` of its last attempt on, or of ``attempt`` alone.

    With ``since`` reading begins at the offset of this attempt, even if there are newer ones. If this attempt is no
    longer known, reading begins with the last one, at its beginning.
    """

    def __init__(
        self,
        committer: Committer,
        job: int,
        task: int,
        stream: str,
        offset: int,
        attempt: int | None = None,
        since: int | None = None,
    ) -> None:
        self._committer = committer
        self._job = job
        self._task = task
        self._stream = stream
        self._offset = offset
        self._attempt_now = 0
        self._away_since = 0.0
        self._only = attempt
        self._since = since
        self._chunk = ChunkSize()

    async def read(self, *, follow: bool) -> AsyncIterator[LogFrame]:
        """Yield the frames; with ``follow`` until the task ends, attempt by attempt.

        Raises Away if the node is not connected, NotAccepted if there is nothing to read, and Unfinished if this center
        stops or loses the lead before the task ends.
        """
        attempt = 0
        while True:
            change = self._committer.watch(self._job)
            try:
                task = await self._now()
                latest = self._wanted(task, attempt)
                if latest is None or latest[0] == attempt:
                    if not follow or self._only or await self._over(task):
                        if latest is None and attempt == 0:
                            raise NotAccepted(f"task {self._task} of job {self._job} has not been started yet")
                        return
                    self._check_leader()
                    await _settled(change)
                    continue
            finally:
                self._committer.unwatch(self._job, change)
            if attempt or (self._since is not None and latest[0] != self._since):
                self._offset = 0
            attempt, node = latest
            self._attempt_now = attempt
            try:
                async for frame in self._attempt(attempt, node, follow=follow):
                    yield frame
            except (Away, NotAccepted):
                # An attempt with newer ones is complete, so reading continues with the next.
                if not follow or self._wanted(await self._now(), attempt) == latest:
                    raise
            if not follow:
                return

    async def check(self) -> None:
        """Raise Away if the task has ended on a node that is not connected, so that its output cannot be read.

        Raises NoAttempt if the task has no attempt with the requested number.
        """
        task = await self._now()
        latest = self._wanted(task)
        if latest is None and self._only is not None:
            raise NoAttempt(f"task {self._task} of job {self._job} has no attempt {self._only}")
        if latest is not None and (task.live is None or task.live.id != latest[0]) and await self._over(task):
            self._committer.connections.to(latest[1])

    def sign(self) -> LogFrame:
        """Return an empty frame at the reader's position."""
        return LogFrame(self._attempt_now, self._offset)

    async def _attempt(self, attempt: int, node: str, *, follow: bool) -> AsyncIterator[LogFrame]:
        while True:
            # Waits return at once when the center stops, so the loop would never end without this check.
            self._check_leader()
            live = self._committer.machine.attempts.get(attempt)
            if live is not None and not live.started:
                # Its executor may not have received the attempt.
                if not follow:
                    return
                await self._until_changed(attempt, started=True)
                continue
            data = await self._ask(attempt, node, follow=follow)
            if data is None:
                continue
            if data.error:
                raise NotAccepted(f"node {node} has no output of attempt {attempt}: {data.error}")
            frame = LogFrame(attempt, self._offset, data.data, data.gone, data.kept)
            self._offset = frame.end
            if data.data or data.gone:
                yield frame
            if data.over:
                if follow:
                    await self._until_changed(attempt, started=False)
                return
            if not (data.data or data.gone or follow):
                return

    async def _ask(self, attempt: int, node: str, *, follow: bool) -> LogData | None:
        """Return the next frame; None to try again, since the node of a running attempt may come back."""
        wait = WAIT if follow else 0
        begun = asyncio.get_running_loop().time()
        try:
            connection = self._committer.connections.to(node)
            data = await connection.read_log(
                attempt, self._stream, self._offset, limit=self._chunk.now, wait=wait, patience=PATIENCE
            )
        except Away:
            self._chunk.answered(0, 0.0)
            now = asyncio.get_running_loop().time()
            since = self._away_since = self._away_since or now
            if not follow or attempt not in self._committer.machine.attempts or now - since >= MOST_AWAY:
                raise
        else:
            self._away_since = 0.0
            if data.data:
                self._chunk.answered(len(data.data), asyncio.get_running_loop().time() - begun)
                await self._committer.connections.pace.passed(len(data.data))
            return data
        change = self._committer.watch(self._job)
        try:
            await _settled(change)
        finally:
            self._committer.unwatch(self._job, change)
        return None

    async def _until_changed(self, attempt: int, *, started: bool) -> None:
        """Wait until the attempt has started or ended, as far as the center knows."""
        while True:
            self._check_leader()
            change = self._committer.watch(self._job)
            try:
                live = self._committer.machine.attempts.get(attempt)
                if live is None or (started and live.started):
                    return
                await _settled(change)
            finally:
                self._committer.unwatch(self._job, change)

    def _check_leader(self) -> None:
        if self._committer.stopping or self._committer.loop.is_aside:
            raise Unfinished

    async def _now(self) -> FoundTask:
        (task,) = await find_tasks(self._committer, self._job, self._task, self._task)
        return task

    async def _over(self, task: FoundTask) -> bool:
        if task.live is not None:
            return False
        return task.state != "waiting" or not isinstance(await find_job(self._committer, self._job), LiveJob)

    def _wanted(self, task: FoundTask, read: int = 0) -> tuple[int, str] | None:
        """Return the next attempt to read, and its node; ``read`` is the previous attempt, 0 if there is none."""
        known = [(attempt.attempt, attempt.node) for attempt in task.finished]
        if task.live is not None:
            known.append((task.live.id, task.live.node))
        if self._only is not None:
            known = [attempt for attempt in known if attempt[0] == self._only]
        if not read and self._since is not None:
            known = [attempt for attempt in known if attempt[0] == self._since] or known
        return known[-1] if known else None


async def _settled(change: asyncio.Future[None]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_AGAIN):
            await asyncio.shield(change)


async def answered(
    reader: LogReader, *, follow: bool, framed: bool = False, abort: Callable[[], None] | None = None
) -> AsyncIterator[bytes]:
    """Return the bytes of an answer, ``framed`` or plain. Errors known at once are raised before the answer begins.

    A follower gets the beginning of the answer at once, even without output, and signs of life if it is framed.
    ``abort`` cuts the connection if the rest cannot be read here, since a part must not look complete.
    """
    frames = reader.read(follow=follow)
    shown = Shown()

    def put(frame: LogFrame) -> list[bytes]:
        return [encode_frame(frame)] if framed else list(shown.show(frame))

    first = [b""]
    await reader.check()
    if not follow:
        with contextlib.suppress(StopAsyncIteration):
            first = put(await anext(frames))

    async def all_of() -> AsyncIterator[bytes]:
        for data in first:
            yield data
        try:
            async for frame in _with_signs(frames, reader) if follow and framed else frames:
                for data in put(frame):
                    yield data
        except NotAccepted:
            # An answer that has begun cannot carry an error, so it ends.
            return
        except (Away, Unfinished):
            if follow and abort is not None:
                abort()

    return all_of()


async def _with_signs(frames: AsyncIterator[LogFrame], reader: LogReader) -> AsyncIterator[LogFrame]:
    """Yield the frames, and an empty one after each ``SIGN`` seconds without any."""
    while True:
        coming = asyncio.ensure_future(anext(frames))
        try:
            while not (await asyncio.wait((coming,), timeout=SIGN))[0]:
                yield reader.sign()
            frame = await coming
        except StopAsyncIteration:
            return
        finally:
            coming.cancel()
        yield frame
