"""Logs and commands in tasks, requested by the center over one connection, and the second connection for them alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from cress.executor import logs, task_files
from cress.executor.center_wire import CenterWire, Closed
from cress.executor.exec.commands import Execs, Send
from cress.executor.exec.helper_process import HelperProcess
from cress.protocol.messages import (
    Bulk,
    BulkOrder,
    FileList,
    FromAgent,
    ListFiles,
    LogData,
    ReadFile,
    ReadLog,
    decode_from_center,
    encode,
)
from cress.protocol.proof import ProofError
from cress.shell.executor.agent import Agent

# Most log requests queued at a time.
MOST_READS = 1_000


class BulkService:
    """Answers the center's requests of one connection; ``send`` sends messages there."""

    def __init__(
        self, folder: Path, agent: Agent, helper: HelperProcess, send: Send, contained: Callable[[str], bool]
    ) -> None:
        """``contained``: a job with this runtime runs in a container here."""
        self._folder = folder
        self._contained = contained
        self._agent = agent
        self._send = send
        self._execs = Execs(helper, lambda attempt: agent.first.get(attempt, 0), send)
        self._reads: set[asyncio.Task[None]] = set()

    def obey(self, order: BulkOrder) -> None:
        """Carry out an order of the center."""
        if not isinstance(order, ReadLog | ListFiles | ReadFile):
            self._execs.obey(order)
            return
        if isinstance(order, ReadLog) and len(self._reads) >= MOST_READS:
            order = msgspec.structs.replace(order, wait=0)
        task = asyncio.create_task(self._read(order))
        self._reads.add(task)
        task.add_done_callback(self._reads.discard)

    async def ended(self, attempt: int) -> None:
        """End the commands of an attempt that has ended."""
        await self._execs.ended(attempt)

    async def close(self) -> None:
        """End all commands, since the connection is lost."""
        for task in self._reads:
            task.cancel()
        await self._execs.close()

    async def _read(self, order: ReadLog | ListFiles | ReadFile) -> None:
        try:
            await self._answer(order)
        except (ValueError, RecursionError) as error:
            # What a task leaves must not be a question without an answer: the center would wait for it.
            why = f"the files cannot be read: {error}"
            files = isinstance(order, ListFiles)
            await self._send(FileList(id=order.id, error=why) if files else LogData(id=order.id, over=True, error=why))

    async def _answer(self, order: ReadLog | ListFiles | ReadFile) -> None:
        match order:
            case ReadLog():
                await self._send(await logs.read(self._folder, order, self._agent.live.__contains__))
            case ListFiles():
                await self._send(await asyncio.to_thread(task_files.list_files, self._folder, order, self._contained))
            case ReadFile():
                await self._send(await asyncio.to_thread(task_files.read_file, self._folder, order, self._contained))


async def serve_bulk(
    name: str,
    ticket: str,
    opening: Awaitable[CenterWire],
    service_of: Callable[[Send], contextlib.AbstractAsyncContextManager[BulkService]],
) -> None:
    """Open the second connection and serve it until it ends; the center requests another one when it needs one."""
    wire = await opening
    try:
        await wire.send(encode(Bulk(name=name, ticket=ticket)))

        async def send(message: FromAgent) -> None:
            await wire.send(encode(message))

        async with service_of(send) as service:
            while True:
                order = decode_from_center(await wire.receive())
                if isinstance(order, BulkOrder):
                    service.obey(order)
    except (Closed, ProofError, msgspec.MsgspecError):
        return
    finally:
        await wire.close()
