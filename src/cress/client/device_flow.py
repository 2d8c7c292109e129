"""The device flow of OpenID Connect (RFC 8628).

A user signs in with any browser, while the client polls the provider for the ID token.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from cress.client.errors import ClientError, Unreachable
from cress.client.wire import cause_of

DISCOVERY = "/.well-known/openid-configuration"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
# Seconds between two polls by default, and the seconds added by "slow down" and by a timeout.
INTERVAL, SLOWER = 5.0, 5.0
# The longest pause, and the longest life of a code, in seconds.
LONGEST_PAUSE, LONGEST_LIFE = 60.0, 3600.0
ANSWER_SECONDS = 15.0
# Most bytes of an answer.
MOST_BYTES = 2**20

# Sends a form to an address, or a GET (None); returns status and content. Raises httpx.HTTPError.
_T = TypeVar("_T", bound=msgspec.Struct)

Send = Callable[[str, Mapping[str, str] | None], tuple[int, bytes]]


class SignInFailed(ClientError):
    """The user has not signed in; the message says why."""


class DeviceCode(msgspec.Struct, frozen=True):
    """The code that the user enters at ``verification_uri``; ``expires_in`` and ``interval`` are seconds."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float
    verification_uri_complete: str = ""
    interval: float = INTERVAL


class _Endpoints(msgspec.Struct, frozen=True):
    issuer: str
    token_endpoint: str
    device_authorization_endpoint: str = ""


class _Answer(msgspec.Struct, frozen=True):
    id_token: str = ""
    error: str = ""
    error_description: str = ""


class DeviceFlow:
    """One sign-in at the provider ``issuer``. Its methods raise SignInFailed and Unreachable."""

    def __init__(
        self,
        issuer: str,
        client_id: str,
        scope: str,
        send: Send,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer, self._client_id, self._scope = issuer, client_id, scope
        self._send, self._sleep, self._clock = send, sleep, clock
        self._token_endpoint = ""

    def begin(self) -> DeviceCode:
        """Return a new code of the provider."""
        place = self._issuer.rstrip("/") + DISCOVERY
        status, content = self._raw(place, None)
        if status != httpx.codes.OK:
            raise SignInFailed(f"the provider answers {place} with HTTP {status}")
        found = self._decoded(content, _Endpoints, place)
        if found.issuer != self._issuer:
            raise SignInFailed(f"the provider at {self._issuer} gives its name as {found.issuer[:200]!r}")
        if not found.device_authorization_endpoint:
            raise SignInFailed(f"the provider {self._issuer} has no device flow")
        self._token_endpoint = found.token_endpoint
        form = {"client_id": self._client_id, "scope": self._scope}
        status, content = self._raw(found.device_authorization_endpoint, form)
        if status != httpx.codes.OK:
            raise SignInFailed(f"the provider {self._issuer} gives no code ({_why(content, status)})")
        return self._decoded(content, DeviceCode, found.device_authorization_endpoint)

    def wait(self, code: DeviceCode) -> str:
        """Poll until the user has signed in; return the ID token."""
        pause = min(max(code.interval, 0.1), LONGEST_PAUSE)
        end = self._clock() + min(code.expires_in, LONGEST_LIFE)
        form = {"grant_type": GRANT, "device_code": code.device_code, "client_id": self._client_id}
        while True:
            self._sleep(pause)
            if self._clock() >= end:
                raise SignInFailed("the code has expired before anybody signed in (`cress login` begins again)")
            try:
                status, content = self._raw(self._token_endpoint, form)
            except Unreachable:
                status, content = httpx.codes.SERVICE_UNAVAILABLE, b""
            if status >= httpx.codes.INTERNAL_SERVER_ERROR:
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            answer = self._decoded(content, _Answer, self._token_endpoint)
            match answer.error:
                case "authorization_pending":
                    continue
                case "slow_down":
                    pause = min(pause + SLOWER, LONGEST_PAUSE)
                case "access_denied":
                    raise SignInFailed("the sign-in was denied at the provider")
                case "expired_token":
                    raise SignInFailed("the code has expired before anybody signed in (`cress login` begins again)")
                case "" if status == httpx.codes.OK and answer.id_token:
                    return answer.id_token
                case "" if status == httpx.codes.OK:
                    raise SignInFailed("the provider has given no ID token: the client there needs the scope openid")
                case _:
                    why = f"{answer.error} {answer.error_description}".strip() or f"HTTP {status}"
                    raise SignInFailed(f"the provider refuses the sign-in ({why[:300]})")

    def _raw(self, url: str, form: Mapping[str, str] | None) -> tuple[int, bytes]:
        if not is_secure(url):
            raise SignInFailed(f"{url[:200]!r} is not an address with TLS; nothing is sent there")
        try:
            return self._send(url, form)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unreachable(f"the provider of sign-ins cannot be reached at {url} ({cause_of(error)})") from None

    @staticmethod
    def _decoded(content: bytes, kind: type[_T], url: str) -> _T:
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise SignInFailed(f"the server at {url} is not a provider of OpenID Connect") from None


def sent_by(http: httpx.Client) -> Send:
    """Return a function that sends forms with an HTTP client."""

    def send(url: str, form: Mapping[str, str] | None) -> tuple[int, bytes]:
        method = "GET" if form is None else "POST"
        with http.stream(method, url, data=form) as answer:
            content = b""
            for part in answer.iter_bytes():
                content += part
                if len(content) > MOST_BYTES:
                    raise httpx.ReadError("the answer is too long")
            return answer.status_code, content

    return send


def is_secure(url: str) -> bool:
    """Return whether a URL uses TLS or is on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        loopback = parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or loopback)


def _why(content: bytes, status: int) -> str:
    try:
        answer = msgspec.json.decode(content, type=_Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return f"HTTP {status}"
    return f"{answer.error} {answer.error_description}".strip()[:300] or f"HTTP {status}"
