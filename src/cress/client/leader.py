"""The way to the leader: a standby redirects the client to it."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from cress.client.config import USER_TOKEN, Address, address_again, check_sent, check_url
from cress.client.errors import Elsewhere, Unavailable
from cress.model.errors import InputError
from cress.protocol.centers import LEADER

if TYPE_CHECKING:
    from cress.client.route import Route

MOVED = 307
# Attempts of a call without a pause, each at the center to which the last one redirected it; seconds of the first pause
# after that, and of all attempts. Other centers redirect to a vanished leader until its session has ended.
PROMPT, PAUSE, PATIENCE = 3, 0.05, 12.0
ANSWER_SECONDS = 30.0
_NO_LEADER = "the centers send calls to each other, and none leads; try again"


class LeaderClient(ABC):
    """The part of a client that knows the center's address, and finds the leader.

    ``timeout`` is the limit for an answer in seconds. ``advice`` is added to the error if nothing listens there;
    ``find`` looks up the address of a center that may have moved. Over ``socket``, a Unix socket, the token is sent;
    over TCP it never is, and requests are signed. ``ca`` is the authority of the certificate of a center at
    ``https://``.
    """

    _route: Route

    def __init__(
        self,
        url: str,
        token: str,
        timeout: float = ANSWER_SECONDS,
        advice: str = "",
        find: Callable[[], Address] | None = None,
        socket: Path | None = None,
        ca: Path | None = None,
    ) -> None:
        self.timeout = timeout
        self._advice = f"; {advice}" if advice else ""
        self._find = find
        self._address = Address(url.rstrip("/"), token, socket=socket, ca=ca)
        self._closing = ExitStack()
        self._open()

    @property
    def url(self) -> str:
        """The address of the center."""
        return self._address.url

    @abstractmethod
    def _open(self) -> None:
        """Open the route to the present address; older connections are closed with the client."""

    def _open_route(self) -> Route:
        from cress.client.route import Route

        self._route = Route(self._address)
        self._closing.callback(self._route.close)
        return self._route

    def look(self) -> bool:
        """Look up the center again; return whether its address has changed."""
        found = address_again(self._find)
        if found is None or found._replace(data=None) == self._address:
            return False
        self._address = found._replace(data=None)
        self._open()
        return True

    def _follow(self, moved: Elsewhere) -> None:
        """Go to the leader. Raises ``Unavailable``."""
        self._address = address_there(self._address, moved.leader)
        self._open()


def pauses() -> Iterator[float]:
    """Yield the seconds to wait before each attempt of a call, until no center can be expected to lead any more."""
    end, pause = time.monotonic() + PATIENCE, PAUSE
    yield from (0.0,) * PROMPT
    while time.monotonic() < end:
        yield pause * (0.5 + random.random())  # noqa: S311 – only spreads them out
        pause = min(1.0, 1.5 * pause)


def no_leader() -> Unavailable:
    """Return the error for centers that redirect a call to each other."""
    return Unavailable(_NO_LEADER)


def elsewhere(status: int, headers: Mapping[str, str]) -> Elsewhere | None:
    """Return the redirection in an answer; None if there is none."""
    leader = headers.get(LEADER, "")
    return Elsewhere(leader) if status == MOVED and leader else None


def address_there(address: Address, leader: str) -> Address:
    """Return the address of the leader, with the credentials of ``address``. Raises ``Unavailable``."""
    if not address.token:
        raise Unavailable(
            f"the center of this machine stands by; the one at {leader} leads, which needs a token (docs/users.md)"
        )
    try:
        url = check_url(leader, LEADER)
        if address.token.startswith(USER_TOKEN):
            check_sent(url)
    except InputError as error:
        raise Unavailable(f"the center at {leader} leads: {error}") from None
    return Address(url, address.token, ca=address.ca)
