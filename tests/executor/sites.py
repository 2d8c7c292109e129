"""A small real web server that gives and takes files, and can be in a bad way."""

from __future__ import annotations

import functools
import http.server
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import unquote


class Site:
    """Serves a folder, takes what is put, redirects ``/to/ADDRESS``.

    ``busy``, ``broken``: so many times a path is refused, or breaks off.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.taken: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.busy: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self.slow: set[str] = set()
        self.over = threading.Event()
        handler = functools.partial(_Handler, self, directory=str(folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def put(self, name: str, data: bytes) -> None:
        (self.folder / name).write_bytes(data)

    def fill(self, text: str) -> str:
        """Put the address in."""
        return text.replace("{site}", f"http://127.0.0.1:{self.port}").replace("{port}", str(self.port))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, site: Site, *arguments: object, directory: str) -> None:
        self.site = site
        super().__init__(*arguments, directory=directory)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.site.asked.append(self.path)
        if self._refused():
            return
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", unquote(self.path.removeprefix("/to/")))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.site.broken[self.path]:
            self.site.broken[self.path] -= 1
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(b"x" * 50_000)
            self.close_connection = True
            return
        while self.path in self.site.slow and not self.site.over.wait(0.02):
            pass
        super().do_GET()

    def do_PUT(self) -> None:
        if self._refused():
            return
        self.site.taken[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.end_headers()

    def _refused(self) -> bool:
        if self.site.busy[self.path]:
            self.site.busy[self.path] -= 1
            self.send_error(503)
            return True
        if self.path.startswith("/status/"):
            self.send_error(int(self.path.partition("?")[0].rpartition("/")[2]))
            return True
        return False

    def log_message(self, *_: object) -> None:
        """Say nothing."""
