"""Context of the start of a program, and failures of starts."""

from __future__ import annotations

import msgspec

from cress.model.reports import Cause
from cress.model.run import Host
from cress.shell.executor.node_devices import AttemptDevices

# Maximum message of a stage, in characters of up to four bytes; a pipe takes 4096 bytes atomically.
LONGEST = 900


class StartError(Exception):
    """The program could not be started; the sentence is the reason for the owner of the job.

    ``node``: the node lacks something, and any other program would fail in the same way. ``port``: another program has
    this port of the task. ``files``: a stage ran, and failed before the program.
    """

    def __init__(self, what: str, *, node: bool = False, port: int = 0, files: bool = False) -> None:
        super().__init__(what)
        self.node = node
        self.port = port
        self.files = files


class StageFailure(msgspec.Struct, frozen=True):
    """Failure of a stage, which its program does not report. ``cause``: FILES, OUTPUTS or NODE."""

    cause: Cause
    error: str

    def encode(self) -> bytes:
        """Return it as JSON, short enough for a pipe to take it at once."""
        return msgspec.json.encode(
            self if len(self.error) <= LONGEST else StageFailure(self.cause, self.error[:LONGEST] + "…")
        )


class LaunchContext(msgspec.Struct, frozen=True):
    """The environment of an attempt: its node, ports, devices and peers.

    ``ports`` are its numbers, in the order of the job's ports; ``address`` and ``rack`` are those of the node;
    ``hosts`` are the places of the tasks of its gang, in order; ``devices`` are its share of the node's;
    ``restarts`` is the number of times that its task ran before.
    """

    ports: tuple[int, ...] = ()
    address: str = ""
    rack: str = ""
    hosts: tuple[Host, ...] = ()
    # The name in messages to a stage; see Spawn.
    devices: AttemptDevices = msgspec.field(default=AttemptDevices(), name="outfit")
    restarts: int = 0
