"""The agent's wire to the center: a WebSocket over TLS, or over TCP or a Unix socket.

Without TLS a mutual proof opens the connection, and each message is sealed.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus, WebSocketException

from cress.executor.bundle import BundleError, BundleFolder
from cress.executor.folder import socket_path
from cress.protocol.bundle_files import tls_reason
from cress.protocol.proof import HEADER, NONCE, ExecutorProof, ProofError, Seals

# Seconds for the handshake.
OPEN_TIMEOUT = 10.0
# Bytes: orders for 100,000 attempts take 3 MB.
MOST_MESSAGE = 256 * 1024 * 1024
UNIX, TLS = "unix:", "wss:"
BUNDLE_REMEDY = (
    "Give this executor a bundle of the center's cluster (`cress tls issue`), or find out which program listens there"
)
# The address of the tasks if the center is reached without a network.
LOOPBACK = "127.0.0.1"


class NotReached(Exception):
    """Error: no connection to a center; the message says why. ``permanent``: another try does not help."""

    def __init__(self, what: str, *, permanent: bool = False) -> None:
        super().__init__(what)
        self.permanent = permanent


class Closed(Exception):
    """Error: the connection has ended; the message says why."""


class Impostor(Exception):
    """Error: a listener without a valid certificate of the center; the message says what is wrong with it."""


class CenterWire:
    """An open connection to an authenticated center. Without ``seals``, TLS protects the messages.

    ``heard`` is the number of received messages.
    """

    def __init__(self, connection: ClientConnection, seals: Seals | None) -> None:
        self._connection = connection
        self._seals = seals
        self.heard = 0
        self._turn = asyncio.Lock()
        name = connection.local_address
        self.address = str(name[0]) if isinstance(name, tuple) and name else LOOPBACK

    async def send(self, message: bytes) -> None:
        """Send a message; it is lost if the connection has ended."""
        # A sealed message must be sent in its turn, so the cancellation of a caller does not withdraw it.
        await asyncio.shield(self._send(message))

    async def _send(self, message: bytes) -> None:
        async with self._turn:
            with contextlib.suppress(ConnectionClosed):
                await self._connection.send(message if self._seals is None else self._seals.out.seal(message))

    async def receive(self) -> bytes:
        """Return the next message. Raise Closed; raise ProofError for a message without the seal of the center."""
        try:
            data = await self._connection.recv(decode=False)
        except ConnectionClosed as error:
            raise Closed(str(error) or type(error).__name__) from None
        self.heard += 1
        return data if self._seals is None else self._seals.into.open(data)

    async def close(self) -> None:
        """End the connection."""
        await self._connection.close()

    def abort(self) -> None:
        """End the connection at once."""
        self._connection.transport.abort()


async def open_wire(
    url: str, token: str, bundle: Path | None = None, *, ping_interval: float, ping_timeout: float
) -> CenterWire:
    """Connect to the center at ``ws://HOST:PORT`` or ``unix:PATH``, or with a ``bundle`` at ``wss://HOST:PORT``.

    Raise NotReached, ProofError or Impostor.
    """
    if not is_address(url):
        raise NotReached(f"{url!r} is not an address of a center (ws://host:port)", permanent=True)
    if bundle is not None:
        return await _open_tls(url, BundleFolder(bundle), ping_interval=ping_interval, ping_timeout=ping_timeout)
    proof = ExecutorProof(token, secrets.token_bytes(NONCE))
    with contextlib.ExitStack() as stack:
        opening = connect(
            "ws://localhost/" if url.startswith(UNIX) else url,
            additional_headers={HEADER: proof.header},
            **_options(ping_interval, ping_timeout),
            **_place(url, stack),
        )
        try:
            connection = await opening
        except InvalidStatus as error:
            code = error.response.status_code
            if code in (401, 403):
                raise ProofError(f"it answers with HTTP {code} and no proof that it knows the token") from None
            raise NotReached(f"the center at {url} answers with HTTP {code}") from None
        except InvalidMessage as error:
            raise NotReached(
                f"the center at {url} cannot be reached ({_why(error)}); one that speaks TLS is at wss://, with --tls"
            ) from None
        except (OSError, WebSocketException, EOFError, ValueError) as error:
            # ValueError and InvalidURI: the server sent a redirect to an invalid address.
            raise NotReached(f"the center at {url} cannot be reached ({_why(error)})") from None
    try:
        assert connection.response is not None
        own, seals = proof.check(connection.response.headers.get(HEADER))
        await connection.send(own)
    except ConnectionClosed as error:
        raise NotReached(f"the center at {url} cannot be reached ({_why(error)})") from None
    except BaseException:
        connection.transport.abort()
        raise
    return CenterWire(connection, seals)


async def _open_tls(url: str, bundle: BundleFolder, *, ping_interval: float, ping_timeout: float) -> CenterWire:
    """Connect over TLS; both sides show their certificates."""
    try:
        context = bundle.context()
    except BundleError as error:
        raise NotReached(f"the bundle of this executor cannot be used: {error}") from None
    try:
        connection = await connect(url, ssl=context, **_options(ping_interval, ping_timeout))
    except ssl.SSLCertVerificationError as error:
        raise Impostor(f"its certificate is not valid here ({tls_reason(error)})") from None
    except InvalidStatus as error:
        raise NotReached(f"the center at {url} answers with HTTP {error.response.status_code}") from None
    except InvalidMessage:
        # The center has shown its certificate and closed the connection before it answered.
        fault = bundle.fault() or "it does not know the center's authority, or no TLS is spoken there"
        raise NotReached(
            f"the center at {url} refuses the certificate in {bundle.folder} ({fault}); `cress tls issue` "
            "makes a new bundle"
        ) from None
    except (OSError, WebSocketException, EOFError, ValueError) as error:
        raise NotReached(f"the center at {url} cannot be reached ({_why(error)})") from None
    return CenterWire(connection, None)


def _options(ping_interval: float, ping_timeout: float) -> dict[str, Any]:
    return {
        "open_timeout": OPEN_TIMEOUT,
        "close_timeout": 1.0,
        "ping_interval": ping_interval,
        "ping_timeout": ping_timeout,
        "max_size": MOST_MESSAGE,
        "compression": None,
        "proxy": None,
    }


def is_address(url: str) -> bool:
    """Return whether ``url`` is an address of a center: ``ws://HOST:PORT``, ``wss://HOST:PORT`` or ``unix:PATH``."""
    if url.startswith(UNIX):
        return len(url) > len(UNIX)
    try:
        parts = urlsplit(url)
        return parts.scheme in ("ws", "wss") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _place(url: str, stack: contextlib.ExitStack) -> dict[str, Any]:
    """Return the options of ``connect`` for a Unix socket; none for TCP."""
    if not url.startswith(UNIX):
        return {}
    try:
        path = stack.enter_context(socket_path(Path(url.removeprefix(UNIX)).absolute()))
    except OSError as error:
        raise NotReached(f"the center at {url} cannot be reached ({_why(error)})") from None
    return {"unix": True, "path": path}


def _why(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        wrong = tls_reason(error)
        return "it does not speak TLS" if "wrong version" in wrong or "record layer" in wrong else wrong
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
