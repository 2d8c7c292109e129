"""The route to a center: a Unix socket in its data directory with the token, or TCP or TLS with signed requests.

The secret of a data directory is never sent over TCP: whatever server has the port gets only signatures, which are
worthless elsewhere or a second time (docs/design/0009-mutual-proof.md). A user's token is sent, but only over TLS
(``config``).
"""

from __future__ import annotations

import itertools
import os
import secrets
import ssl
import threading
from collections.abc import Generator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import httpx

import cress
from cress.client.config import USER_TOKEN, Address
from cress.client.errors import Unproven
from cress.client.tls import trusting
from cress.protocol.proof import HEADER, NONCE, ProofError, Seals
from cress.protocol.signatures import PATH, STALE, SessionKey, begin

# Seconds for the center's proof.
PROOF_SECONDS = 15.0
# Most bytes of a Unix socket's path; longer ones are reached through their directory.
MOST_PATH = 100


class Route:
    """The route to one address, for several threads. ``close`` it after the last request."""

    def __init__(self, address: Address) -> None:
        # A Unix socket needs no TLS.
        self.url = (
            address.url if address.socket is None else "http" + address.url.removeprefix("https").removeprefix("http")
        )
        self.tls = trusting(address.ca) if self.url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._token = address.token
        self._kept = ExitStack()
        self.socket = "" if address.socket is None else self._short(str(address.socket))
        self.headers = {"User-Agent": f"cress/{cress.__version__}"}
        self.auth: SignedCalls | None = None
        if not address.token:
            # On the center's own machine the kernel names the account.
            assert self.socket, "an address without a token is a socket"
        elif self.socket or address.token.startswith(USER_TOKEN):
            self.headers["Authorization"] = f"Bearer {address.token}"
        else:
            self.auth = SignedCalls(address.token)

    def close(self) -> None:
        """Release the directory of the socket."""
        self._kept.close()

    def _short(self, path: str) -> str:
        if len(os.fsencode(path)) <= MOST_PATH:
            return path
        folder, name = os.path.split(path)
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return path  # the error appears when connecting
        self._kept.callback(os.close, fd)
        return f"/proc/self/fd/{fd}/{name}"

    def opening(self, path: str) -> tuple[dict[str, str], Seals | None]:
        """Return the headers of a WebSocket at ``path``, and the seals of its messages; blocks. Raises ClientError."""
        if self.auth is None:
            return {name: value for name, value in self.headers.items() if name == "Authorization"}, None
        with httpx.Client(base_url=self.url, timeout=PROOF_SECONDS, trust_env=False, verify=self.tls) as http:
            return self.auth.opening(http, urlsplit(self.url).path + path)


class SignedCalls(httpx.Auth):
    """Signs every request, in a session that begins with the center's proof."""

    requires_request_body = True

    def __init__(self, token: str) -> None:
        self._token = token
        self._numbers = itertools.count(1)
        self._session: SessionKey | None = None
        self._lock = threading.Lock()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Sign a request; begin a session before it, and another one if the center has forgotten it."""
        for last in (False, True):
            session = self._session
            if session is None:
                nonce = secrets.token_bytes(NONCE)
                session = self._begun(nonce, (yield _question(request.url, nonce)))
            target = request.url.raw_path.decode("ascii")
            key = request.headers.get("Idempotency-Key", "")
            request.headers["Authorization"] = self._sign(session, request.method, target, key, request.content)[0]
            response = yield request
            if last or response.status_code != 401 or response.headers.get("WWW-Authenticate") != STALE:
                return
            self._forget(session)

    def opening(self, http: httpx.Client, target: str) -> tuple[dict[str, str], Seals]:
        """Return the headers of a request for a WebSocket, and the seals of its messages."""
        nonce = secrets.token_bytes(NONCE)
        # A session of its own, since a WebSocket cannot be requested again if the center has forgotten an older one.
        session = _proven(self._token, nonce, http.send(_question(http.base_url, nonce)))
        header, number = self._sign(session, "GET", target, "", b"")
        return {"Authorization": header}, session.seals(number, client=True)

    def _sign(self, session: SessionKey, method: str, target: str, key: str, body: bytes) -> tuple[str, int]:
        with self._lock:
            number = next(self._numbers)
        return session.sign(number, method, target, key, body), number

    def _begun(self, nonce: bytes, response: httpx.Response) -> SessionKey:
        session = self._session = _proven(self._token, nonce, response)
        return session

    def _forget(self, session: SessionKey) -> None:
        if self._session is session:
            self._session = None


def _question(url: httpx.URL, nonce: bytes) -> httpx.Request:
    """Return the request for the center's proof."""
    place = url.copy_with(path=PATH, query=b"nonce=" + nonce.hex().encode())
    extensions: dict[str, Any] = {"timeout": httpx.Timeout(PROOF_SECONDS).as_dict()}
    return httpx.Request("GET", place, extensions=extensions)


def _proven(token: str, nonce: bytes, response: httpx.Response) -> SessionKey:
    place = str(response.request.url.copy_with(raw_path=b"/"))
    if response.status_code == 503:
        raise Unproven(f"the center at {place} cannot answer now (HTTP 503)")
    try:
        return begin(token, nonce, response.headers.get(HEADER))
    except ProofError as error:
        if response.headers.get(HEADER) is None:
            raise Unproven(
                f"the server at {place} did not prove that it is a center that knows this token, so the token was not "
                "sent. Check the address; a center of release 0.1.0 cannot prove it"
            ) from None
        raise Unproven(
            f"the center at {place} does not know this token: {error}. The token was not sent. Take one from `cress "
            "token create` (the owner's is the file token in the center's data directory), or check the address"
        ) from None
