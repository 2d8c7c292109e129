"""A terminal in a running task: its page, and the WebSocket behind it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from cress.client import calls
from cress.client.config import NoCenter
from cress.client.errors import ClientError
from cress.model.errors import InputError
from cress.portal.guard import policy
from cress.portal.pages.jobs import may_change, number_of
from cress.portal.sessions import BrowserSession, BrowserSessions
from cress.portal.terminals import MOST, MOST_OF_USER, TerminalBridge, TerminalWord
from cress.portal.web import page, sentences, session_of, signed_in

# The best shell of the task; one without bash has sh.
SHELL = ("sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash -i; exec sh -i")
VARIABLES = {"TERM": "xterm-256color"}
# Seconds for the first message of a browser.
GREETING = 15.0
MOST_COMMAND = 10_000


class TerminalStart(msgspec.Struct, frozen=True):
    """The first message of a browser: the secret of its session, size (rows, columns), and a command line or none."""

    csrf: str
    size: tuple[int, int]
    command: str = ""


@signed_in
async def terminal(request: Request, session: BrowserSession) -> Response:
    """Show the page of a terminal; the script fills it."""
    id = number_of(request.path_params["id"], "job")
    task = number_of(request.query_params.get("task", "0"), "task")
    caller = await session.viewer.caller()
    job = await session.viewer.ask(calls.job(id, 0.0))
    # The library writes its colours into style elements, which only this page may have.
    nonce = secrets.token_urlsafe(18)
    answer = await page(request, session, "terminal.html", job=job, task=task, own=may_change(caller, job), nonce=nonce)
    answer.headers["content-security-policy"] = policy(style_nonce=nonce)
    return answer


async def terminal_socket(socket: WebSocket) -> None:
    """Join a browser with a command in a task. The guard has checked the origin, the first message has the secret."""
    await socket.accept()
    # The users of the terminals that are open or begin.
    users: list[str] = socket.app.state.terminals
    try:
        session, start = await _greeting(socket)
        check_room(users, session.user)
    except InputError as error:
        await _refuse(socket, error)
        return
    except (TimeoutError, WebSocketDisconnect, KeyError):
        await _leave(socket, None)
        return
    users.append(session.user)
    try:
        await _join(socket, session, start)
    except (ClientError, NoCenter, InputError) as error:
        await _refuse(socket, error)
    finally:
        users.remove(session.user)


def check_room(users: list[str], user: str) -> None:
    """Check that a user may open one more terminal, beside those of these users. Raises InputError."""
    if users.count(user) >= MOST_OF_USER:
        raise InputError(f"{MOST_OF_USER} of your terminals are open in this portal", hint="close one")
    if len(users) >= MOST:
        raise InputError(f"{MOST} terminals are open in this portal", hint="close one")


async def _join(socket: WebSocket, session: BrowserSession, start: TerminalStart) -> None:
    """Start the command, and pass everything on until it ends or the browser is gone.

    Raises InputError and ClientError.
    """
    bridge = await _begin(socket, session, start)
    session.closers.add(bridge.close)
    running = asyncio.create_task(bridge.run())
    reading = asyncio.create_task(_read(socket, bridge, session.id))
    try:
        await asyncio.wait({running, reading}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        bridge.close()
        session.closers.discard(bridge.close)
        for task in (running, reading):
            task.cancel()
        await asyncio.gather(running, reading, return_exceptions=True)
        await _leave(socket, None)


async def _greeting(socket: WebSocket) -> tuple[BrowserSession, TerminalStart]:
    """Return the session and the first message. Raises InputError."""
    session = session_of(socket)
    text = await asyncio.wait_for(socket.receive_text(), GREETING)
    try:
        start = msgspec.json.decode(text, type=TerminalStart)
    except msgspec.MsgspecError:
        raise InputError("this is not the page of a terminal") from None
    if session is None or not secrets.compare_digest(start.csrf.encode(), session.csrf.encode()):
        raise InputError("this page is from an earlier session", hint="load it again")
    return session, start


async def _begin(socket: WebSocket, session: BrowserSession, start: TerminalStart) -> TerminalBridge:
    """Start the command, as the user of the session. Raises InputError and ClientError."""
    id = number_of(socket.path_params["id"], "job")
    task = number_of(socket.query_params.get("task", "0"), "task")
    try:
        command = shlex.split(start.command[:MOST_COMMAND]) or SHELL
    except ValueError as error:
        raise InputError(f"this is not a command: {error}", field="command") from None
    running = await session.viewer.client.exec(id, command, task, environment=VARIABLES, terminal=start.size)

    async def tell(what: dict[str, Any]) -> None:
        await socket.send_text(msgspec.json.encode(what).decode())

    return TerminalBridge(running, socket.send_bytes, tell)


async def _read(socket: WebSocket, bridge: TerminalBridge, session: str) -> None:
    """Pass on what the browser sends, until it is gone or its session has ended."""
    sessions: BrowserSessions = socket.app.state.sessions
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect" or sessions.find(session) is None:
            return
        if message.get("bytes") is not None:
            bridge.typed(message["bytes"])
        else:
            with contextlib.suppress(msgspec.MsgspecError):
                bridge.word(msgspec.json.decode(message.get("text") or "", type=TerminalWord))


async def _refuse(socket: WebSocket, error: Exception) -> None:
    await _leave(socket, {"over": True, "code": None, "why": "; ".join(sentences(error))})


async def _leave(socket: WebSocket, last: dict[str, Any] | None) -> None:
    """Close the connection, after a last message; one that is gone already stays so."""
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):
        if last is not None:
            await socket.send_text(msgspec.json.encode(last).decode())
        await socket.close()


ROUTES = [
    Route("/jobs/{id}/terminal", terminal, methods=["GET"]),
    WebSocketRoute("/jobs/{id}/terminal/socket", terminal_socket),
]
