"""The work of a leader: executors connect, the operator's files apply, finished work moves on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any

from cress.center.committing.committer import Committer
from cress.center.data_locations.hdfs import Hdfs
from cress.center.data_locations.locator import Locator
from cress.center.data_locations.namenodes import Namenodes
from cress.center.executors.listener import Listener
from cress.center.files.group_file import GroupFile
from cress.center.files.licence_file import set_licences
from cress.center.files.topology import Topology
from cress.center.keeping.data_directory import DataDirectory
from cress.center.keeping.file_names import EXECUTOR_SOCKET
from cress.center.leader.foretelling import Foreteller
from cress.center.leader.mover import Mover
from cress.center.leader.past_runs import learn_past_runs
from cress.center.leader.rebalancing import Planner, Rebalancing
from cress.center.leader.unused_uploads import UnusedUploads
from cress.center.notifications.delivery import SenderSettings
from cress.center.notifications.notifier import Notifier
from cress.center.settings import CenterSettings
from cress.center.waiting.waiter import Waiter
from cress.model.errors import InputError
from cress.model.jobfile.licences import Licences

BACKLOG = 2048
# Seconds that executors have to come back to a new leader before it begins work for which nobody waits.
HEAD_START = 0.5

Background = Mapping[str, Callable[[], Coroutine[Any, Any, None]]]


class LeaderWork:
    """The work of a leader: accepts executors, applies the operator's files, and runs the background tasks."""

    def __init__(
        self,
        settings: CenterSettings,
        committer: Committer,
        listener: Listener,
        groups: GroupFile,
        topology: Topology,
        licences: Licences | None,
        namenodes: Namenodes,
        sockets: Iterator[list[socket.socket]],
        senders: tuple[SenderSettings, SenderSettings | None],
    ) -> None:
        """``sockets`` yields the sockets for executors, each time that this center begins to lead.

        ``senders`` are the settings of the processes that send notifications.
        """
        self.settings = settings
        self.committer = committer
        self._listener = listener
        self._groups = groups
        self._topology = topology
        self._licences = licences
        self._namenodes = namenodes
        self._senders = senders
        self._tasks: list[asyncio.Task[Any]] = []
        self._new_sockets = sockets
        self._sockets: list[socket.socket] = []

    async def begin(self, head_start: float = 0.0) -> None:
        """Begin the work. Raises InputError if a socket cannot be bound.

        The background tasks begin ``head_start`` (s) later: executors come back and get their first orders before.
        """
        committer = self.committer
        committer.when_writable(partial(self._listener.arrange, self._topology))
        committer.when_writable(partial(set_licences, committer, self._licences))
        committer.when_writable(self._groups.apply)
        self._sockets = next(self._new_sockets)
        await self._listener.start(*self._sockets)
        # In a thread, so that neither the first expression of a user nor anything else waits for it.
        parser = asyncio.to_thread(committer.machine.core.prepare_match)
        self._tasks = [asyncio.create_task(parser, name="parser")]
        # What cannot be made is an error of ``begin``; later nobody would learn of it.
        background = self._background()
        if head_start:
            self._tasks.append(asyncio.create_task(self._run_later(background, head_start), name="head start"))
        else:
            self._run(background)

    def _background(self) -> Background:
        """Return the background tasks by name, none of which runs yet."""
        committer = self.committer
        return {
            "past runs": partial(learn_past_runs, committer),
            "foretelling": Foreteller(committer).run,
            "notifications": Notifier(committer, *self._senders).run,
            "uploads": UnusedUploads(committer).run,
            "waiter": Waiter(committer).run,
            "mover": Mover(committer).run,
            "rebalancing": Rebalancing(committer, Planner(committer)).run,
            "locator": Locator(committer, Hdfs(self._namenodes), self.settings.data_age).run,
        }

    def _run(self, background: Background) -> None:
        self._tasks += [asyncio.create_task(work(), name=name) for name, work in background.items()]

    async def _run_later(self, background: Background, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._run(background)

    async def end(self) -> None:
        """End the work, and the connections of executors."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []
        await self._listener.stop()
        for listening in self._sockets:
            listening.close()


def executor_sockets(host: str, first: socket.socket, directory: DataDirectory) -> Iterator[list[socket.socket]]:
    """Yield listening sockets for executors, one at a port and one in the data directory.

    The first one at the port is already bound.
    """
    bound, port = first, first.getsockname()[1]
    while True:
        bound.listen(BACKLOG)
        yield [bound, directory.listen(EXECUTOR_SOCKET, BACKLOG)]
        bound = bound_socket(host, port, "--executor-port")


def bound_socket(host: str, port: int, option: str) -> socket.socket:
    """Return a listening socket. Raises InputError."""
    where = f"{host}:{port}"
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InputError(f"{host!r} is not an address: {error.strerror}", hint="127.0.0.1", field="--host") from None
    bound = socket.socket(family, kind, proto)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        hint = f"another {option}, or 0 for any free one"
        raise InputError(f"cannot listen at {where}: {error.strerror}", hint=hint) from None
    return bound
