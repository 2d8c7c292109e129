"""Connections to executors: queued messages, requests for logs, and commands."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Any

import msgspec

from cress.center.connections.bulk import PATIENCE as BULK_PATIENCE
from cress.center.connections.bulk import PAUSE, BulkWire, Pace
from cress.center.connections.commands import RunningCommand
from cress.model.errors import InputError
from cress.protocol import messages
from cress.protocol.execution import ExecStart
from cress.protocol.messages import (
    ExecData,
    ExecOver,
    FileList,
    ListFiles,
    LogData,
    OpenBulk,
    ReadFile,
    ReadLog,
)
from cress.shell.center.commit import CommitLoop
from cress.shell.center.effects import Close, Session

# Most commands of one user in the tasks of one node, which runs a hundred of all users at a time.
MOST_OF_USER = 50

# Bytes of queued messages above which an executor is disconnected.
MOST_WAITING = 64 * 2**20


class Away(Exception):
    """The node is not connected."""


class _BulkLost(Away):
    """The second connection was lost; the node may be there."""


class Connection:
    """The connection to one executor: messages to send, and open requests.

    ``ending`` says how the connection is to be closed once the messages are sent; None while it goes on.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ending: Close | None = None
        self._messages: list[bytes] = []
        self._waiting = 0
        self._ready = asyncio.Event()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._commands: dict[int, RunningCommand] = {}
        self._next = 1
        self.ticket = secrets.token_hex(16)
        self._bulk: BulkWire | None = None
        self._opening: asyncio.Future[None] | None = None
        self._no_bulk_until = 0.0

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.session.name

    def put(self, message: messages.FromCenter) -> None:
        """Queue a message after the earlier ones."""
        if self.ending is not None:
            return
        data = self.session.dialect.encode(message)
        if data is None:
            return  # executors of this version do not know the message
        self._messages.append(data)
        self._waiting += len(data)
        if self._waiting > MOST_WAITING:
            self.close(Close(self.session, "it reads too slowly"))
        self._ready.set()

    def close(self, ending: Close) -> None:
        """Send nothing more; the sending task closes the wire."""
        self.session.closed = True
        self.ending = self.ending or ending
        self._ready.set()
        if self._bulk is not None:
            self._bulk.abort()
        self._lose(f"node {self.name} is away")

    def _lose(self, why: str, kind: type[Away] = Away) -> None:
        """Tell all waiting requests and commands that no answer will come."""
        for future in self._answers.values():
            if not future.done():
                future.set_exception(kind(why))
        self._answers.clear()
        for command in self._commands.values():
            command.lost(f"{why}: the command was ended there")
        self._commands.clear()

    async def messages(self) -> list[bytes]:
        """Return the messages to send next; empty if the connection is to be closed."""
        while not self._messages and self.ending is None:
            self._ready.clear()
            await self._ready.wait()
        waiting, self._messages, self._waiting = self._messages, [], 0
        return waiting

    async def read_log(
        self, attempt: int, stream: str, offset: int, *, limit: int, wait: int, patience: float
    ) -> LogData:
        """Return a part of the output of an attempt. Raises Away, also after ``patience`` seconds without an answer."""
        order = ReadLog(id=0, attempt=attempt, stream=stream, offset=offset, limit=limit, wait=wait)
        found: LogData = await self._answer(order, patience + wait / 1000)
        return found

    async def list_files(self, order: ListFiles, *, patience: float) -> FileList:
        """Return files of an attempt. Raises Away, also if executors of its release cannot list them."""
        self._check_files()
        found: FileList = await self._answer(order, patience)
        return found

    async def read_file(self, order: ReadFile, *, patience: float) -> LogData:
        """Return a part of a file of an attempt. Raises Away as ``list_files`` does."""
        self._check_files()
        found: LogData = await self._answer(order, patience)
        return found

    def _check_files(self) -> None:
        if self.session.hello is None or not self.session.hello.files:
            raise Away(f"node {self.name} runs a release that shows no files of tasks; upgrade its executor")

    async def _answer(self, order: ReadLog | ListFiles | ReadFile, patience: float) -> Any:
        """Return the answer to an order; ask a second time if the second connection is lost. Raises Away."""
        try:
            return await self._asked(order, patience)
        except _BulkLost:
            return await self._asked(order, patience)

    async def _asked(self, order: ReadLog | ListFiles | ReadFile, patience: float) -> Any:
        """Send an order, which gets a number, and return its answer. Raises Away."""
        if self.ending is not None:
            raise Away(f"node {self.name} is away")
        number = self._next
        self._next += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = future
        try:
            wire = await self._wire()
            wire.put(msgspec.structs.replace(order, id=number))
            async with asyncio.timeout(patience):
                return await future
        except TimeoutError:
            raise Away(f"node {self.name} does not answer") from None
        finally:
            self._answers.pop(number, None)

    def answered(self, data: LogData | FileList) -> None:
        """Receive the answer to a request; ignore it if the caller is gone."""
        future = self._answers.pop(data.id, None)
        if future is not None and not future.done():
            future.set_result(data)

    async def run_inside(self, attempt: int, start: ExecStart, user: str) -> RunningCommand:
        """Run a command of a user in an attempt; the caller closes it. Raises Away and InputError."""
        wire = await self._wire()
        if self.ending is not None:
            raise Away(f"node {self.name} is away")
        if sum(command.user == user for command in self._commands.values()) >= MOST_OF_USER:
            raise InputError(f"{MOST_OF_USER} commands of {user} run on node {self.name}", hint="end one of them")
        number, self._next = self._next, self._next + 1
        command = self._commands[number] = RunningCommand(
            number, attempt, start, user=user, send=wire.put, forget=self._forget
        )
        return command

    # --- the second connection ----------------------------------------------------------------------------------------

    async def _wire(self) -> Connection | BulkWire:
        """Return the connection for bulk data: the second one, opened on demand, or this one if there is no second."""
        loop = asyncio.get_running_loop()
        hello = self.session.hello
        if self._bulk is None and hello is not None and hello.bulk and loop.time() >= self._no_bulk_until:
            if self._opening is None:
                self._opening = loop.create_future()
                self.put(OpenBulk(ticket=self.ticket))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BULK_PATIENCE):
                    await asyncio.shield(self._opening)
            if self._bulk is None:
                self._opening = None
                self._no_bulk_until = loop.time() + PAUSE
        return self._bulk or self

    def opened(self, bulk: BulkWire) -> None:
        """Use a second connection from now on."""
        self._bulk = bulk
        if self._opening is not None and not self._opening.done():
            self._opening.set_result(None)

    def closed(self, bulk: BulkWire, why: str) -> None:
        """Stop using the second connection; ``why`` is empty if it was no longer needed."""
        if self._bulk is bulk:
            self._bulk = self._opening = None
            if why:
                self._lose(why, _BulkLost)

    @property
    def is_quiet(self) -> bool:
        """Return whether no request and no command is open."""
        return not self._answers and not self._commands

    def heard(self, message: LogData | FileList | ExecData | ExecOver) -> None:
        """Receive an answer of the executor for its waiting caller."""
        if isinstance(message, LogData | FileList):
            self.answered(message)
        else:
            self.told(message)

    def _forget(self, command: int) -> None:
        self._commands.pop(command, None)

    def told(self, message: ExecData | ExecOver) -> None:
        """Receive a message of the executor about a command."""
        command = self._commands.get(message.id)
        if command is not None:
            command.told(message)


class Connections:
    """The connections of all sessions; ``pace`` limits the logs that are read over them."""

    def __init__(self, loop: CommitLoop) -> None:
        self.pace = Pace()
        self._loop = loop
        self._by_session: dict[Session, Connection] = {}

    def add(self, connection: Connection) -> None:
        """Keep a connection until ``remove``."""
        self._by_session[connection.session] = connection

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._by_session.pop(connection.session, None)

    def of(self, session: Session) -> Connection | None:
        """Return the connection of a session; None if it has ended."""
        return self._by_session.get(session)

    def with_ticket(self, node: str, ticket: str) -> Connection | None:
        """Return the connection to a node that may open a second one with this ticket."""
        session = self._loop.present.get(node)
        found = None if session is None else self._by_session.get(session)
        return found if found is not None and secrets.compare_digest(found.ticket, ticket) else None

    def __contains__(self, node: str) -> bool:
        """Return whether the node is connected."""
        return self._loop.reachable(node) is not None

    def to(self, node: str) -> Connection:
        """Return the connection to a node. Raises Away."""
        session = self._loop.reachable(node)
        found = None if session is None else self._by_session.get(session)
        if found is None:
            raise Away(f"node {node} is away")
        return found

    def signal(self, node: str, attempt: int, number: int) -> bool:
        """Send a signal to an attempt; return whether its node is connected."""
        try:
            self.to(node).put(messages.Signal(epoch=self._loop.epoch, attempt=attempt, number=number))
        except Away:
            return False
        return True
