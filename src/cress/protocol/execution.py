"""Messages between client and center while a command runs in a task: a WebSocket at ``…/tasks/{task}/exec``.

First the client sends an ``ExecStart``. Then binary messages are data: to the center input as it is; from the center
one byte, 1 for standard output, 2 for standard error, and what the command wrote. Texts are JSON: ``ExecWord`` to the
center, ``ExecNews`` from it. The last one has ``over``.

Neither side sends more than a window that the other has not said to have ``taken``: ``EXEC_OUTPUT`` and ``EXEC_INPUT``
bytes of ``messages``.
"""

from __future__ import annotations

import msgspec

OUTPUT, ERROR = b"\x01", b"\x02"
# The command with its variables, in bytes; rows and columns of a terminal.
MOST_COMMAND, MOST_SIZE = 65_536, 32_767


class ExecStart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The command and its arguments, variables beside those of the task, ``[rows, columns]`` if it gets a terminal."""

    command: tuple[str, ...]
    environment: dict[str, str] = {}
    terminal: tuple[int, int] | None = None


class ExecWord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """``taken`` bytes of output were read; the input is at its ``end``; the terminal has another ``size``."""

    taken: int = 0
    end: bool = False
    size: tuple[int, int] | None = None


class ExecNews(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``taken`` bytes of input were read. ``over``: with the exit ``code`` (128 + n after signal n), or none and a
    reason.

    ``why`` says also of a command that could not be started what its code means. ``lost``: it ended because a
    connection broke off, not by itself or with its task.
    """

    taken: int = 0
    over: bool = False
    code: int | None = None
    why: str = ""
    lost: bool = False
