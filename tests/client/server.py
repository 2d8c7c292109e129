"""A small real HTTP server that answers as it is told and remembers what it was asked."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cress.protocol.proof import HEADER, NONCE, nonce_of
from cress.protocol.signatures import PATH, SessionKey, center_proof, digest, parse


@dataclass
class Asked:
    """One request."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """Answers every request with ``status`` and ``body``; ``cut``: hangs up in the middle of it.

    The ``first`` answers are others: ``status``, ``body`` and ``cut`` of each.

    It proves that it knows ``token``, unless that is empty; ``sessions`` are those that it has begun.
    """

    url: str = ""
    status: int = 200
    body: Any = field(default_factory=dict)
    cut: bool = False
    first: list[tuple[int, Any, bool]] = field(default_factory=list)
    hold: threading.Event | None = None
    asked: list[Asked] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    token: str = "secret"
    sessions: dict[str, SessionKey] = field(default_factory=dict)

    def check(self, asked: Asked) -> None:
        """Raise ProofError when a request is not signed with the token."""
        signature = parse(asked.headers["Authorization"])
        assert signature.body == digest(asked.body)
        method, _, target = asked.line.partition(" ")
        session = self.sessions[signature.theirs.hex() + signature.ours.hex()]
        session.check(signature, method, target, asked.headers.get("Idempotency-Key", ""))

    def content(self) -> bytes:
        """The body as it goes over the wire."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@contextmanager
def serving() -> Iterator[Server]:
    """A server on a free port."""
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            if self.path.startswith(PATH) and server.token:
                theirs, ours = nonce_of(self.path.partition("nonce=")[2]), secrets.token_bytes(NONCE)
                server.sessions[theirs.hex() + ours.hex()] = SessionKey(server.token, theirs, ours)
                self.send_response(204)
                self.send_header(HEADER, center_proof(server.token, theirs, ours))
                self.end_headers()
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.asked.append(Asked(f"{self.command} {self.path}", dict(self.headers), body))
            if server.hold is not None:
                server.hold.wait(60)
            if server.first:
                server.status, server.body, server.cut = server.first.pop(0)
            content = server.content()
            self.send_response(server.status)
            self.send_header("Content-Length", str(len(content) + (1 if server.cut else 0)))
            for name, value in server.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):  # it did not wait for the answer
                self.wfile.write(content)
            self.close_connection = server.cut

        do_GET = do_POST = do_PUT = answer  # noqa: N815 – the names that the library asks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 – the name in the library
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as real:
        server.url = f"http://127.0.0.1:{real.server_address[1]}"
        thread = threading.Thread(target=real.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            real.shutdown()
            thread.join()
