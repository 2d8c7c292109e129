"""Messages between agent and exec helper: one per packet, with descriptors. See ``helper``.

Their names and the order of their fields are those of release 0.1, whose agents may start the helper of this release.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

# Bytes: a packet, with the command and its variables together, must fit into the socket's buffer.
MOST_PACKET = 100_000
# The variable that marks the processes of an exec session: the pid of the helper, a dot, the number of the session.
MARK = b"CRESS_EXEC"


class _Packet(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class Enter(_Packet, frozen=True):
    """Run a command in the attempt whose first process is ``first``, as session ``session``.

    It comes with descriptors. The first is a socket. On it the child reports errors, or, with a ``terminal`` (rows,
    columns), sends the terminal's other end. It is closed when the command runs. Without a terminal there are three
    more: standard input, output, error.
    """

    session: int
    first: int
    attempt: int
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    terminal: tuple[int, int] | None


class Kill(_Packet, frozen=True):
    """Kill the processes of a session."""

    session: int


class Left(_Packet, frozen=True):
    """A session has ended, with this exit code (128 + n after signal n)."""

    session: int
    code: int


class Trouble(msgspec.Struct, frozen=True, array_like=True):
    """Report that a command does not run: the reason, and the exit code that shells use for it."""

    why: str
    code: int


ToHelper: TypeAlias = Enter | Kill

encode = msgspec.msgpack.Encoder().encode
decode_to_helper = msgspec.msgpack.Decoder(ToHelper).decode
decode_left = msgspec.msgpack.Decoder(Left).decode
decode_trouble = msgspec.msgpack.Decoder(Trouble).decode
