"""A namenode as far as WebHDFS shows it: a real HTTP server with a tree of files that tests change at will."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

PREFIX = "/webhdfs/v1"
# Of a block: its bytes, and the hosts that have it; an address stands behind a host after a blank.
Block = tuple[int, tuple[str, ...]]


class Namenode:
    """Serves ``files`` as long as it is entered.

    ``how`` is what it does instead of answering well: ``garbage``, ``huge``, ``hang`` (until it is left), ``cut``,
    ``standby``, ``denied``, ``broken``, ``loop`` (redirects to itself). ``old`` ones know only the older question for
    blocks.
    """

    def __init__(self, files: dict[str, list[Block]] | None = None, *, old: bool = False, how: str = "") -> None:
        self.files = files or {}
        self.old = old
        self.how = how
        self.redirect = ""
        self.asked: list[tuple[str, str, str]] = []  # question, path, user
        self.port = 0
        self._gone = threading.Event()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def questions(self, question: str) -> int:
        """How often this was asked."""
        return sum(asked == question for asked, _, _ in self.asked)

    def __enter__(self) -> Self:
        namenode = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                namenode._serve(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the library
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that went away is none of the test's errors."""

        self._gone.clear()
        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._gone.set()
        self._server.shutdown()
        self._server.server_close()

    # --- answers -----------------------------------------------------------------------------------------------------

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        where = urlsplit(handler.path)
        query = {key: values[0] for key, values in parse_qs(where.query).items()}
        path = unquote(where.path).removeprefix(PREFIX)
        question = query.get("op", "")
        self.asked.append((question, path, query.get("user.name", "")))
        if self.how == "hang":
            self._gone.wait(60)
            handler.close_connection = True
        elif self.how == "huge":
            self._huge(handler)
        elif self.how == "cut":
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"FileStatus":')
            handler.close_connection = True
        elif self.how == "garbage":
            _send(handler, 200, b"<html>nothing of the kind</html>")
        elif self.how == "loop" or (self.redirect and where.path.startswith(PREFIX)):
            target = handler.path if self.how == "loop" else f"{self.redirect}{handler.path}"
            handler.send_response(307)
            handler.send_header("Location", target)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        elif self.how:
            kinds = {"standby": (403, "StandbyException"), "denied": (403, "AccessControlException")}
            _error(handler, *kinds.get(self.how, (500, "RuntimeException")))
        else:
            self._answer(handler, question, path)

    def _huge(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        part = b" " * 2**20
        while not self._gone.is_set():
            handler.wfile.write(part)
            time.sleep(0)

    def _answer(self, handler: BaseHTTPRequestHandler, question: str, path: str) -> None:
        inside = {name for name in self.files if name.startswith(path.rstrip("/") + "/")}
        if path not in self.files and not inside:
            _error(handler, 404, "FileNotFoundException")
        elif question == "GETFILESTATUS":
            _json(handler, {"FileStatus": self._status(path, "")})
        elif question == "LISTSTATUS":
            names = sorted({name[len(path) + 1 :].partition("/")[0] for name in inside})
            found = [self._status(f"{path}/{name}", name) for name in names]
            _json(handler, {"FileStatuses": {"FileStatus": found}})
        elif question == "GETFILEBLOCKLOCATIONS" and not self.old:
            blocks = [
                {
                    "length": length, "offset": 0, "corrupt": False, "cachedHosts": [], "topologyPaths": [],
                    "hosts": [host.split()[0] for host in hosts],
                    "names": [f"{host.split()[-1]}:9866" for host in hosts],
                }
                for length, hosts in self.files[path]
            ]  # fmt: skip
            _json(handler, {"BlockLocations": {"BlockLocation": blocks}})
        elif question == "GET_BLOCK_LOCATIONS" and self.old:
            located = [
                {
                    "block": {"blockId": 1, "numBytes": length}, "startOffset": 0,
                    "locations": [{"hostName": host.split()[0], "ipAddr": host.split()[-1]} for host in hosts],
                }
                for length, hosts in self.files[path]
            ]  # fmt: skip
            _json(handler, {"LocatedBlocks": {"fileLength": 1, "locatedBlocks": located}})
        else:
            _error(handler, 400, "IllegalArgumentException")

    def _status(self, path: str, name: str) -> dict[str, Any]:
        blocks = self.files.get(path)
        kind = "DIRECTORY" if blocks is None else "FILE"
        return {"type": kind, "pathSuffix": name, "length": sum(length for length, _ in blocks or ()), "owner": "hdfs"}


def _json(handler: BaseHTTPRequestHandler, value: object) -> None:
    _send(handler, 200, json.dumps(value).encode())


def _error(handler: BaseHTTPRequestHandler, code: int, kind: str) -> None:
    told = {"exception": kind, "javaClassName": f"org.apache.{kind}", "message": "secrets of the namenode"}
    _send(handler, code, json.dumps({"RemoteException": told}).encode())


def _send(handler: BaseHTTPRequestHandler, code: int, body: bytes) -> None:
    handler.send_response(code)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
