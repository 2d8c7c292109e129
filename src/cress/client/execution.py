"""A command in a running task, on the client's side."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from cress.client.errors import Broken, Unavailable, Unreachable
from cress.client.leader import elsewhere
from cress.client.wire import cause_of, refusal
from cress.protocol.execution import ERROR, ExecNews, ExecStart, ExecWord
from cress.protocol.messages import EXEC_INPUT
from cress.protocol.proof import ProofError, Seals
from cress.protocol.signatures import unwrap, wrap

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from cress.client.route import Route

# Seconds for the center's answer, and for a closing message.
OPEN_SECONDS, CLOSE_SECONDS = 15.0, 1.0
# Bytes of one part of the input: few, so that typing is not delayed.
PART = 16_384

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ExecNews).decode


class Command:
    """A command that runs in a task. Iterate over it for its output, ``(error, data)``, until it ends.

    Then ``code`` is its exit code (128 + n after signal n), and ``why`` says what kept it from running, if anything.
    Another thread may send input: ``send`` waits while the command does not read. Leaving it (``with``, ``close``) ends
    it.
    """

    def __init__(self, wire: _Wire, opened: ExitStack, url: str, start: ExecStart) -> None:
        self._wire = wire
        self._opened = opened
        self._url = url
        self._room = EXEC_INPUT
        self._changed = threading.Condition()
        self._over = False
        self.code: int | None = None
        self.why = ""
        self._say(start)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[tuple[bool, bytes]]:
        """Yield its output in pieces, each with a flag for standard error.

        Raises Broken if a connection is lost, and Unavailable if the command was ended, for example with its task.
        """
        from websockets.exceptions import ConnectionClosed

        try:
            while True:
                message = self._wire.recv()
                if isinstance(message, bytes):
                    yield message[:1] == ERROR, message[1:]
                    # Confirmed only now, so that a slow reader gets no more than the window allows.
                    self._say(ExecWord(taken=len(message) - 1))
                    continue
                news = _decode(message)
                if news.taken:
                    with self._changed:
                        self._room += news.taken
                        self._changed.notify_all()
                if news.over:
                    self.code, self.why = news.code, news.why
                    if news.code is None:
                        raise Broken(news.why) if news.lost else Unavailable(news.why)
                    return
        except (ConnectionClosed, OSError, EOFError):
            raise Broken(
                f"the connection to the center at {self._url} broke off, and the command in the task was ended"
            ) from None
        except msgspec.DecodeError:
            raise Unreachable(f"the server at {self._url} is not a center of this version") from None
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def send(self, data: bytes) -> bool:
        """Send input, and return when all of it is on its way; return False if the command has ended."""
        view = memoryview(data)
        while view:
            with self._changed:
                self._changed.wait_for(lambda: self._room > 0 or self._over)
                if self._over:
                    return False
                part = bytes(view[: min(self._room, PART)])
                self._room -= len(part)
            if not self._say(part):
                return False
            view = view[len(part) :]
        return True

    def end(self) -> None:
        """Send the end of the input."""
        self._say(ExecWord(end=True))

    def resize(self, rows: int, columns: int) -> None:
        """Report the new size of its terminal."""
        self._say(ExecWord(size=(rows, columns)))

    def communicate(self, data: bytes = b"") -> tuple[int, bytes, bytes]:
        """Send this input and wait for the end; return the exit code, standard output, and standard error."""

        def feed() -> None:
            self.send(data)
            self.end()

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        written: tuple[list[bytes], list[bytes]] = [], []
        for error, part in self:
            written[error].append(part)
        feeder.join()
        assert self.code is not None
        return self.code, b"".join(written[False]), b"".join(written[True])

    def close(self) -> None:
        """End the command if it still runs."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._opened.close()

    def _say(self, what: ExecStart | ExecWord | bytes) -> bool:
        from websockets.exceptions import ConnectionClosed

        try:
            self._wire.send(what if isinstance(what, bytes) else _encode(what).decode())
        except (ConnectionClosed, OSError):
            return False  # the reader gets the error
        return True


class _Wire:
    """A WebSocket to the center; its messages are sealed if the token is not sent."""

    def __init__(self, wire: ClientConnection, seals: Seals | None) -> None:
        self._wire = wire
        self._seals = seals
        self._turn = threading.Lock()

    def send(self, message: str | bytes) -> None:
        """Send a message."""
        if self._seals is None:
            self._wire.send(message)
            return
        with self._turn:
            self._wire.send(self._seals.out.seal(wrap(message)))

    def recv(self) -> str | bytes:
        """Return the next message. Raises OSError for one without the center's seal."""
        data = self._wire.recv()
        if self._seals is None:
            return data
        try:
            return unwrap(self._seals.into.open(data if isinstance(data, bytes) else b""))
        except ProofError as error:
            raise OSError(str(error)) from None


def run_inside(
    route: Route,
    path: str,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    terminal: tuple[int, int] | None,
    advice: str,
) -> Command:
    """Begin a command. Raises ``ClientError``."""
    from websockets.exceptions import InvalidHandshake, InvalidStatus
    from websockets.sync.client import connect

    start = ExecStart(command=tuple(command), environment=dict(environment), terminal=terminal)
    url, (headers, seals) = route.url, route.opening(path)
    given: dict[str, Any] = {"unix": True, "path": route.socket} if route.socket else {}
    if url.startswith("https:"):
        given["ssl"] = route.tls
    opened = ExitStack()
    try:
        # Used as a context, which ``close`` leaves, since newer versions of the library require it.
        opening: AbstractContextManager[ClientConnection] = connect(
            "ws" + url.removeprefix("http") + path,
            additional_headers=headers,
            user_agent_header=None,
            open_timeout=OPEN_SECONDS,
            close_timeout=CLOSE_SECONDS,
            compression=None,
            proxy=None,
            # The window bounds the queue; a paused reader must not keep the library from answering pings.
            max_queue=None,
            **given,
        )
        wire = opened.enter_context(opening)
    except InvalidStatus as error:
        moved = elsewhere(error.response.status_code, error.response.headers)
        if moved is not None:
            raise moved from None
        raise refusal(error.response.status_code, bytes(error.response.body or b""), url) from None
    except (OSError, InvalidHandshake, EOFError) as error:
        why = cause_of(error)
        raise Unreachable(f"no center answers at {url} ({why}){advice}") from None
    return Command(_Wire(wire, seals), opened, url, start)
