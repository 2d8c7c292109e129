"""What agent and doorman say to each other: one message a packet, descriptors with it. See ``doorman``."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

# A packet has to fit into the socket's buffer as a whole: the command and its variables together (bytes).
MOST_PACKET = 100_000
# By which variable processes are known that a doorman has let in: ``PID.VISIT``, its own pid first.
VISIT = b"CRESS_EXEC"


class _Packet(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class Enter(_Packet, frozen=True):
    """Run a command in the attempt whose first process is ``first``, as visit ``visit``.

    With it come descriptors: a socket, on which the child says what went wrong, or, with a ``terminal`` (rows, columns),
    sends its other end; it is closed when the command runs. Without one three more: its standard input, output, error.
    """

    visit: int
    first: int
    attempt: int
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    terminal: tuple[int, int] | None


class Kill(_Packet, frozen=True):
    """Kill the processes of a visit."""

    visit: int


class Left(_Packet, frozen=True):
    """A visit is over, with this exit code (128 + n after signal n)."""

    visit: int
    code: int


class Trouble(msgspec.Struct, frozen=True, array_like=True):
    """Why a command does not run, and the exit code that shells have for it."""

    why: str
    code: int


ToDoorman: TypeAlias = Enter | Kill

encode = msgspec.msgpack.Encoder().encode
decode_to_doorman = msgspec.msgpack.Decoder(ToDoorman).decode
decode_left = msgspec.msgpack.Decoder(Left).decode
decode_trouble = msgspec.msgpack.Decoder(Trouble).decode
