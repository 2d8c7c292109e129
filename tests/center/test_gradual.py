"""Many small requests, or chunks of a body, that come in one go: other work has its turn between them."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest
import uvicorn

from cress.center.api.timeouts import TimedProtocol
from cress.center.web.asgi import Receive, Scope, Send
from tests.center.program import PATIENCE

REQUEST = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the path, and the size of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    body = json.dumps([scope["path"], size]).encode() + b"\n"
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def answers(said: bytes, count: int) -> list[list[object]]:
    """The answers to all that was said in one go."""

    async def story() -> list[list[object]]:
        config = uvicorn.Config(app, http=TimedProtocol, ws="none", lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[socket.create_server(("127.0.0.1", 0))]))
        while not server.started:  # noqa: ASYNC110 – uvicorn tells in no other way
            await asyncio.sleep(0.01)
        place = server.servers[0].sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*place)
        writer.write(said)
        found: list[list[object]] = []
        async with asyncio.timeout(PATIENCE):
            while len(found) < count:
                line = await reader.readline()
                if line.startswith(b"["):
                    found.append(json.loads(line))
        writer.close()
        server.should_exit = True
        await serving
        return found

    return asyncio.run(story())


def test_many_requests_at_once_are_answered_one_after_another() -> None:
    said = b"".join(REQUEST % number for number in range(2_000))
    assert answers(said, 2_000) == [[f"/{number}", 0] for number in range(2_000)]


def test_a_body_of_many_chunks_arrives_as_a_whole_before_the_next_request() -> None:
    said = CHUNKED + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n" + REQUEST % 7
    assert answers(said, 2) == [["/body", 20_000], ["/7", 0]]


def test_no_more_is_parsed_than_the_request_that_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by hostile requests: all that was read was parsed at once, with an object for each request."""
    most = 0
    begin = TimedProtocol.on_message_begin

    def counted(self: TimedProtocol) -> None:
        nonlocal most
        begin(self)
        most = max(most, len(self.pipeline))

    monkeypatch.setattr(TimedProtocol, "on_message_begin", counted)
    answers(b"".join(REQUEST % number for number in range(2_000)), 2_000)
    assert 0 < most < 100
