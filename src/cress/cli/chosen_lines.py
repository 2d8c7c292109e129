"""Chosen lines of the output of tasks: those that match a pattern, and only the last ones."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.cli.relay import TaskOutput

# Bytes after which a line is passed on in parts.
LONGEST = 2**20


def pattern_of(text: str) -> re.Pattern[bytes] | None:
    """Return the regular expression of ``--grep``; None if it is empty. Raises InputError."""
    try:
        return re.compile(text.encode()) if text else None
    except re.error as error:
        raise InputError(
            f"{text!r} is not a regular expression: {error}", hint=r"such as error|warn", field="--grep"
        ) from None


class ChosenLines:
    """An output that passes on whole lines: those that match, and of each task and stream the last ``most``.

    ``most`` None: all of them, as soon as they are whole. ``head``: the bytes before each line that are not matched.
    """

    def __init__(self, output: TaskOutput, pattern: re.Pattern[bytes] | None, most: int | None, head: int = 0) -> None:
        self._output = output
        self._pattern = pattern
        self._most = most
        self._head = head
        self._begun: dict[tuple[int, str], bytes] = {}
        self._last: dict[tuple[int, str], deque[bytes]] = {}

    def write(self, task: int, stream: str, data: bytes) -> None:
        """Take output of a task."""
        data = self._begun.pop((task, stream), b"") + data
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line(task, stream, line + b"\n")
        if len(rest) >= LONGEST:
            self._line(task, stream, rest)
        elif rest:
            self._begun[task, stream] = rest

    def end(self, task: int, stream: str) -> None:
        """Pass on the rest of a task's output."""
        rest = self._begun.pop((task, stream), b"")
        if rest:
            self._line(task, stream, rest)
        for line in self._last.pop((task, stream), ()):
            self._output.write(task, stream, line)
        self._output.end(task, stream)

    def _line(self, task: int, stream: str, line: bytes) -> None:
        if self._pattern is not None and not self._pattern.search(line[self._head :].rstrip(b"\r\n")):
            return
        if self._most is None:
            self._output.write(task, stream, line)
        else:
            self._last.setdefault((task, stream), deque(maxlen=self._most)).append(line)
