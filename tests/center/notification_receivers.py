"""Receivers of notifications: a web server and a mail server, each in a thread."""

from __future__ import annotations

import email
import email.message
import email.policy
import http.server
import json
import threading
from typing import Any, Self

from aiosmtpd.controller import Controller

from tests.center.program import PATIENCE
from tests.ports import free_port


class WebReceiver:
    """A web server that keeps what it is sent; ``answers`` are the status codes of the next answers, then 200."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.answers.pop(0) if receiver.answers else 200
                receiver.bodies.append(body)
                receiver.headers.append(dict(self.headers))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", receiver.url)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class MailReceiver:
    """A mail server that keeps what it is sent, and refuses mailboxes that begin with ``nobody``."""

    def __init__(self) -> None:
        self.mails: list[email.message.EmailMessage] = []
        # Its own name, since that of the machine may be asked of a server that does not answer.
        self._controller = Controller(
            self, hostname="127.0.0.1", port=free_port(), server_hostname="localhost", ready_timeout=PATIENCE
        )

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self._controller.port}"

    async def handle_RCPT(  # noqa: N802 – the name of the library
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        if address.startswith("nobody"):
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        return "250 OK"

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()
