"""Lines of output with the times at which they were seen: ``cress logs --timestamps`` and ``--since``."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from cress.model.errors import InputError
from cress.model.log_times import LogTimes
from cress.model.times import SECOND

if TYPE_CHECKING:
    from cress.cli.relay import TaskOutput
    from cress.client import AttemptView, Client

# Bytes of a time before a line, the space included: 2026-11-28T07:15:51+00:00
STAMP = 26


def stamp(utc: int) -> bytes:
    """Return a time (µs since the epoch) in the local zone, as it stands before a line."""
    return datetime.fromtimestamp(utc // SECOND).astimezone().isoformat().encode() + b" "


class TimedLines:
    """An output that passes on whole lines: those seen at ``since`` (µs) or later, with their times if ``stamped``.

    The times come from the node of each attempt. What arrives while a task is followed has the time of its arrival.
    """

    def __init__(
        self, client: Client, job: int, stream: str, output: TaskOutput, since: int | None, *, stamped: bool
    ) -> None:
        self._client = client
        self._job = job
        self._stream = stream
        self._output = output
        self._since = since
        self._stamped = stamped
        self._times: dict[tuple[int, int], LogTimes] = {}
        self._begun: dict[int, tuple[bytes, int]] = {}

    def times_of(self, task: int, attempt: AttemptView) -> LogTimes:
        """Return the times of the output of an attempt."""
        until = time.time_ns() // 1000 if attempt.ended is None else round(attempt.ended * SECOND)
        return self._read(task, attempt.id, until)

    def _read(self, task: int, attempt: int, until: int) -> LogTimes:
        found = self._times.get((task, attempt))
        if found is None:
            try:
                data = b"".join(self._client.logs(self._job, task, "times", attempt=attempt))
            except InputError:
                data = b""  # a short task, or a node of an older release
            found = self._times[task, attempt] = LogTimes(data, self._stream, until)
        return found

    def write(self, task: int, stream: str, data: bytes) -> None:
        """Take output of a task."""
        attempt, end = getattr(data, "attempt", 0), getattr(data, "end", 0)
        begun, at = self._begun.pop(task, (b"", self._time(task, attempt, end - len(data))))
        place = end - len(data) - len(begun)
        *lines, rest = (begun + data).split(b"\n")
        for line in lines:
            self._line(task, stream, line + b"\n", at)
            place += len(line) + 1
            at = self._time(task, attempt, place)
        if rest:
            self._begun[task] = rest, at

    def end(self, task: int, stream: str) -> None:
        """Pass on the rest of a task's output."""
        rest, at = self._begun.pop(task, (b"", 0))
        if rest:
            self._line(task, stream, rest, at)
        self._output.end(task, stream)

    def _time(self, task: int, attempt: int, offset: int) -> int:
        now = time.time_ns() // 1000
        return self._read(task, attempt, now).at(offset) if attempt else now

    def _line(self, task: int, stream: str, line: bytes, at: int) -> None:
        if self._since is None or at >= self._since:
            self._output.write(task, stream, stamp(at) + line if self._stamped else line)
