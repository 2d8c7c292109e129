"""Executors on the center's own machine: the center observes their processes, so they need no terms.

The center can observe an executor that joined in the same boot of the machine and the same namespace of process ids,
and whose supervisor's environment it may read. All other executors keep terms.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from cress.center.committing.committer import Committer
from cress.center.process.clock import boot_id
from cress.lifecycle.inputs import NodeDead
from cress.lifecycle.tables.rows import LiveNode
from cress.model.node import Local, Supervisor
from cress.model.times import SECOND
from cress.protocol.messages import Hello
from cress.shell.executor.mark_numbers import MarkNumbers

# Seconds between two checks, and microseconds without a process after which a node is declared dead: a new supervisor
# may just be starting, and a new process may not have its environment yet.
LOOK = 1.0
PATIENCE = 5 * SECOND

_log = logging.getLogger("cress.center")


def recognise(hello: Hello) -> Local | None:
    """Return the key to an executor's processes; None if it runs elsewhere, or its processes cannot be inspected."""
    there = hello.supervisor
    if there is None or hello.boot != boot_id() or not there.attempts or not _is_alive(there):
        return None
    if not _read(f"/proc/{there.pid}/environ"):
        return None
    return Local(there, _machine(), _space())


def is_dead(node: LiveNode, pids: set[int]) -> bool:
    """Return whether an executor and the sessions led by ``pids`` have no process left; False if that is unknown.

    Inspects every process of the machine.
    """
    local = node.local
    if local is None:
        return False
    if node.boot != boot_id():
        # This machine was restarted, or the center has moved to another one.
        return bool(local.machine) and local.machine == _machine()
    return local.space == _space() and not _is_alive(local.supervisor) and not any(_left(local.supervisor, pids))


class Locals:
    """Watches executors of this machine that are disconnected while the center counts their tasks as running."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._dead_since: dict[str, int] = {}

    async def run(self) -> None:
        """Check at intervals until cancelled."""
        while True:
            await asyncio.sleep(LOOK)
            try:
                await self.look()
            except Exception:  # noqa: BLE001 – a look that failed must not be the last one
                _log.exception("the executors of this machine could not be looked at")

    async def look(self) -> None:
        """Report to the machine every node that has had no process for long enough."""
        committer, machine = self._committer, self._committer.machine
        pids: dict[str, set[int]] = {}
        for attempt in machine.attempts.values():
            node = machine.nodes.get(attempt.node)
            if node is not None and node.local is not None and not node.connected:
                pids.setdefault(attempt.node, set()).add(attempt.pid)
        dead_since: dict[str, int] = {}
        for name, leaders in pids.items():
            if not await asyncio.to_thread(is_dead, machine.nodes[name], leaders - {0}):
                continue
            since = dead_since[name] = self._dead_since.get(name, committer.clock.now())
            if committer.clock.now() - since >= PATIENCE:
                committer.post(NodeDead(name=name))
        self._dead_since = dead_since


def _left(supervisor: Supervisor, leaders: set[int]) -> Iterator[int]:
    """Return the processes of an attempt, recognised by their mark, their environment or their session."""
    marks = MarkNumbers(os.fsencode(supervisor.attempts))
    mark = b"\0CRESS_DIRECTORY=" + os.fsencode(supervisor.attempts) + b"/"
    for name in os.listdir("/proc"):  # noqa: PTH208 – thousands of names, no need for paths
        if name.isdigit():
            fields = _stat(int(name))
            alive = fields is not None and fields[0] not in (b"Z", b"X")
            if not fields or not alive:
                continue
            # A program that leaves its session and clears its environment still has the mark of its attempt.
            if (
                int(fields[3]) in leaders
                or marks.number_of(_read(f"/proc/{name}/limits")) is not None
                or mark in b"\0" + _read(f"/proc/{name}/environ")
            ):
                yield int(name)


def _is_alive(supervisor: Supervisor) -> bool:
    fields = _stat(supervisor.pid)
    return fields is not None and fields[0] not in (b"Z", b"X") and int(fields[19]) == supervisor.ticks


def _stat(pid: int) -> list[bytes] | None:
    """Return the fields of /proc/PID/stat from the state on; the name before it may contain spaces and brackets."""
    data = _read(f"/proc/{pid}/stat")
    return data[data.rindex(b")") + 2 :].split() if data else None


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _machine() -> str:
    return _read("/etc/machine-id").decode(errors="replace").strip()


def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 – no file, a name
    except OSError:
        return ""
