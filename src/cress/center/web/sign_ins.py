"""Failed sign-ins: their answers are delayed by address, so that tokens cannot be tried quickly."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass

from cress.center.web.asgi import App, Message, Receive, Scope, Send
from cress.protocol.signatures import STALE

# Failures of one address without a delay, and the delays of later ones in seconds: the first, which doubles each time,
# and the longest.
FREE, FIRST, LONGEST = 10, 0.1, 5.0
# Seconds after which the failures of an address are forgotten, and addresses that are remembered.
FORGOTTEN, MOST_ADDRESSES = 300.0, 10_000


@dataclass(slots=True)
class _Failures:
    count: int
    last: float


class SignInDelays:
    """A table of failures by address. An IPv6 /64 network counts as one address, since its owner has all of them."""

    def __init__(self) -> None:
        self._failures: dict[str, _Failures] = {}  # the latest last

    def failed(self, address: str, now: float) -> float:
        """Note a failure; return the seconds by which its answer is delayed."""
        name = network_of(address)
        known = self._failures.pop(name, None)
        if known is None or now - known.last >= FORGOTTEN:
            known = _Failures(0, now)
        known.count, known.last = known.count + 1, now
        self._failures[name] = known
        if len(self._failures) > MOST_ADDRESSES:
            del self._failures[next(iter(self._failures))]
        beyond = known.count - FREE
        return 0.0 if beyond <= 0 else min(LONGEST, FIRST * 2 ** min(beyond - 1, 16))

    def __len__(self) -> int:
        return len(self._failures)


class SlowSignIns:
    """Delays the answers with which ``app`` refuses credentials.

    Requests without credentials or over a Unix socket are not delayed.
    """

    def __init__(
        self, app: App, delays: SignInDelays | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._delays = SignInDelays() if delays is None else delays
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        address = (scope.get("client") or ("",))[0] if scope["type"] in ("http", "websocket") else ""
        tries = address and any(name == b"authorization" for name, _ in scope["headers"])

        async def answer(message: Message) -> None:
            if message.get("status") == 401 and message["type"].endswith("http.response.start") and not _stale(message):
                await asyncio.sleep(self._delays.failed(address, self._clock()))
            await send(message)

        await self._app(scope, receive, answer if tries else send)


def _stale(message: Message) -> bool:
    """Return whether the client only needs to begin another session, since the center was restarted."""
    return any(name == b"www-authenticate" and value == STALE.encode() for name, value in message.get("headers", ()))


def network_of(address: str) -> str:
    """Return the address, or the /64 network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
