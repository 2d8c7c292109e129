"""Messages between client and center while a command runs in a task: a WebSocket at ``…/tasks/{task}/exec``.

First the client sends an ``ExecStart``. After that binary messages are data. Those to the center are plain input.
Those from the center begin with one byte, 1 for standard output or 2 for standard error, and continue with the output.
Text messages are JSON: ``ExecWord`` to the center, ``ExecNews`` from it. The last one has ``over``.

Neither side sends more than a window beyond the bytes that the other has ``taken``: ``EXEC_OUTPUT`` and ``EXEC_INPUT``
bytes of ``messages``.
"""

from __future__ import annotations

import msgspec

OUTPUT, ERROR = b"\x01", b"\x02"
# Bytes of the command with its variables; rows and columns of a terminal.
MOST_COMMAND, MOST_SIZE = 65_536, 32_767


class ExecStart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The command and its arguments, further variables for it, and ``[rows, columns]`` if it gets a terminal."""

    command: tuple[str, ...]
    environment: dict[str, str] = {}
    terminal: tuple[int, int] | None = None


class ExecWord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """``taken`` bytes of output were read; the input is at its ``end``; the terminal has a new ``size``."""

    taken: int = 0
    end: bool = False
    size: tuple[int, int] | None = None


class ExecNews(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``taken`` bytes of input were read. At the end it has ``over``, with the exit ``code`` (128 + n after signal n).

    Without a code ``why`` is the reason; it also explains the code of a command that could not be started. ``lost``
    says that a broken connection ended the command.
    """

    taken: int = 0
    over: bool = False
    code: int | None = None
    why: str = ""
    lost: bool = False
