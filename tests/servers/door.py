"""A door before a server, which loses its answers or all that is sent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class Door:
    """Stands before a server, and can lose its answers or all that is sent."""

    def __init__(self, host: str, port: int) -> None:
        self._behind = host, port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.lose_answers = False
        self.closed = False
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._serve)

    def _start(self, function: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=function, args=arguments, daemon=True))
        self._threads[-1].start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.closed:
                client.close()
                continue
            server = socket.create_connection(self._behind)
            self._open += [client, server]
            self._start(self._copy, client, server, False)
            self._start(self._copy, server, client, True)

    def _copy(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if answers and self.lose_answers:
                    self.lose_answers = False
                    break
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        self.closed = True
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End its threads, then close what they used."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self.cut()
        while self._threads:
            self._threads.pop().join()
        for each in (self._listening, *self._open):
            each.close()
