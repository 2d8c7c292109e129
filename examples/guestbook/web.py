"""The web tier: GET / counts the entries, POST / signs. It answers also while the database is away."""

from __future__ import annotations

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import guestbook
import psycopg

own = threading.local()


def ask(query: str, *values: str) -> list[tuple[Any, ...]]:
    """Rows; with a new connection if the one before is gone. An insert is not tried again: it may have been done."""
    connection = getattr(own, "connection", None)
    if connection is None or connection.closed or connection.broken:
        connection = own.connection = guestbook.database(os.environ.get("CLUSTER", ""))
    try:
        return connection.execute(query, values).fetchall()  # type: ignore[no-any-return]
    except psycopg.OperationalError:
        connection.close()
        raise


class Handler(BaseHTTPRequestHandler):
    """One request; a thread has one connection to the database."""

    def do_GET(self) -> None:
        try:
            ((count,),) = ask("SELECT count(*) FROM entries")
        except Exception as error:  # noqa: BLE001 - whatever it is: the page says so
            return self.answer(200, f"{os.environ['GREETING']}! Later: {error}")
        return self.answer(200, f"{os.environ['GREETING']}! {count} entries")

    def do_POST(self) -> None:
        name = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        try:
            ((number,),) = ask("INSERT INTO entries (name) VALUES (%s) RETURNING id", name)
        except Exception as error:  # noqa: BLE001 - as above
            return self.answer(503, f"not signed: {error}")
        return self.answer(201, str(number))

    def answer(self, status: int, text: str) -> None:
        """Send a short text."""
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Requests are not worth a line."""


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(os.environ["CRESS_PORT"])), Handler).serve_forever()
