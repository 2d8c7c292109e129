"""Commands in running tasks: a WebSocket for each (see ``protocol.execution``)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TypeVar

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from cress.center.api.context import caller_of, committer_of, own_job
from cress.center.api.errors import Forbidden, UnknownResource, answer_to
from cress.center.api.jobs import check_task
from cress.center.api.routes import Routes, parse_query
from cress.center.committing.committer import NotStored
from cress.center.committing.lookup import id_of
from cress.center.connections.commands import Overrun, RunningCommand
from cress.center.connections.connection_table import Away, Connection
from cress.center.views.members import place_of
from cress.model.errors import InputError, NotAccepted
from cress.model.whole_numbers import whole_number
from cress.protocol.calls import job_calls
from cress.protocol.execution import ERROR, MOST_COMMAND, MOST_SIZE, OUTPUT, ExecNews, ExecStart, ExecWord
from cress.protocol.messages import ExecOver
from cress.protocol.queries import Query
from cress.store.base import StoreError

# Seconds for the first message; WebSocket close codes.
PATIENCE = 10.0
POLICY, TOO_BIG = 1008, 1009

router = Routes()

_T = TypeVar("_T", ExecStart, ExecWord)
_encode = msgspec.json.Encoder().encode


@router.converses(job_calls.EXEC)
async def run_inside(socket: WebSocket, id: str, task: str) -> None:
    """Run a command in a running task."""
    try:
        parse_query(socket.query_params.multi_items(), Query)
        attempt, connection = await _place(socket, id, task)
    except (InputError, UnknownResource, Forbidden, Away, NotStored, StoreError) as error:
        await socket.send_denial_response(answer_to(error))
        return
    await socket.accept()
    with contextlib.suppress(WebSocketDisconnect):
        try:
            async with asyncio.timeout(PATIENCE):
                start = _checked(_decoded(await socket.receive_text(), ExecStart))
            command = await connection.run_inside(attempt, start, caller_of(socket).user)
        except (InputError, Away) as error:
            await _last(socket, str(error))
        except (TimeoutError, KeyError):
            await _last(socket, "the first message is a text with the command")
        else:
            await _converse(socket, command)


async def _place(socket: WebSocket, id: str, task: str) -> tuple[int, Connection]:
    """Return the attempt of a running task, and the connection to its node."""
    committer = committer_of(socket)
    found = await own_job(socket, id)
    number = -1 if (given := whole_number(task)) is None else given
    check_task(found, number, task)
    job, index = await place_of(committer, found, number)
    live = committer.machine.jobs.get(job)
    for attempt in live.attempts.values() if live is not None else ():
        if attempt.task == index and attempt.started:
            return attempt.id, committer.connections.to(attempt.node)
    raise NotAccepted(f"task {number} of job {id_of(found)} does not run", hint="commands run in running tasks only")


async def _converse(socket: WebSocket, command: RunningCommand) -> None:
    """Pass messages in both directions until the command ends or the client disconnects."""
    hearing = asyncio.create_task(_hear(socket, command))
    try:
        while True:
            news = await command.news()
            if isinstance(news, ExecOver):
                await _last(socket, news.why, news.code, lost=command.broken)
                return
            if news.data:
                await socket.send_bytes((ERROR if news.error else OUTPUT) + news.data)
            if news.taken:
                await socket.send_text(_encode(ExecNews(taken=news.taken)).decode())
    finally:
        command.close()
        hearing.cancel()
        await asyncio.wait((hearing,))


async def _hear(socket: WebSocket, command: RunningCommand) -> None:
    """Accept the client's messages as they come; the windows bound the unread data."""
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                command.lost(message.get("reason") or "its reader has gone")
                return
            if message.get("bytes") is not None:
                command.feed(message["bytes"])
                continue
            word = _decoded(message["text"], ExecWord)
            if word.taken:
                command.taken(word.taken)
            if word.size is not None:
                command.resize(*_size(word.size))
            if word.end:
                command.end()
    except (InputError, Overrun) as error:
        command.lost(str(error))


async def _last(socket: WebSocket, why: str, code: int | None = None, *, lost: bool = False) -> None:
    await socket.send_text(_encode(ExecNews(over=True, code=code, why=why, lost=lost)).decode())
    await socket.close()


def _checked(start: ExecStart) -> ExecStart:
    if not start.command or not start.command[0]:
        raise InputError("no command", hint="the program and its arguments", field="command")
    words = [*start.command, *start.environment, *start.environment.values()]
    if any("\0" in word for word in words):
        raise InputError("a zero byte", hint="text without zero bytes", field="command")
    if any(not name or "=" in name or name.startswith("CRESS_") for name in start.environment):
        raise InputError("is not the name of a variable", hint="not empty, without =, not CRESS_…", field="environment")
    try:
        size = sum(len(word.encode()) for word in words)
    except UnicodeEncodeError:
        raise InputError("contains invalid characters", hint="text in UTF-8", field="command") from None
    if size > MOST_COMMAND:
        raise InputError(f"a command of {size} bytes", hint=f"at most {MOST_COMMAND}", field="command")
    if start.terminal is not None:
        _size(start.terminal)
    return start


def _size(size: tuple[int, int]) -> tuple[int, int]:
    if not all(0 <= number <= MOST_SIZE for number in size):
        raise InputError(f"{size[0]} × {size[1]} is not a size of a terminal", hint=f"rows, columns: 0 to {MOST_SIZE}")
    return size


def _decoded(text: str, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"a message cannot be read: {error}") from None
