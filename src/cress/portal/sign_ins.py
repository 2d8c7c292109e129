"""Sign-ins with OpenID Connect: the device flow, begun in a browser that waits here for its session.

The portal asks the provider for a code. The user enters it on a page of the provider, in any browser. Then the portal
hands the ID token to the center, and gets a token of the user that expires.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import httpx

from cress.client import calls
from cress.client.aio.http import AsyncHttp
from cress.client.config import NoCenter
from cress.client.device_flow import ANSWER_SECONDS, DeviceCode, DeviceFlow, SignInFailed, sent_by
from cress.client.errors import ClientError
from cress.model.errors import InputError
from cress.portal.shares import gives_way
from cress.protocol.access_views import LoginView

# Seconds for which the name of the provider is kept, and most sign-ins that wait at a time.
FRESH, MOST = 60.0, 50
# Seconds after which a sign-in is forgotten.
LONGEST = 3600.0

_T = TypeVar("_T")


@dataclass(slots=True)
class PendingSignIn:
    """A sign-in that waits for its user at the provider. ``token`` is there when it is done, ``problem`` if it failed.

    ``address`` is that of the browser; ``name`` is the token's name, by which it is revoked.
    """

    code: DeviceCode
    begun: float
    next: str
    address: str
    id: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    token: str = ""
    name: str = ""
    problem: str = ""
    dropped: threading.Event = field(default_factory=threading.Event)


class SignIns:
    """The sign-ins of one portal. ``open_client`` returns a client of the center, which the caller closes."""

    def __init__(self, open_client: Callable[[], AsyncHttp]) -> None:
        self._open_client = open_client
        self._provider: tuple[float, LoginView | None] = (float("-inf"), None)
        self._pending: dict[str, PendingSignIn] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def provider(self) -> LoginView | None:
        """Return the provider at which users of the center sign in; None without one, or if the center is away."""
        at, known = self._provider
        if time.monotonic() - at < FRESH:
            return known
        try:
            found: LoginView | None = await self._ask(lambda client: client.ask(calls.provider()))
        except (ClientError, NoCenter, InputError):
            # A center without a provider says so with an error. One that is away is asked again.
            return None
        self._provider = time.monotonic(), found
        return found

    async def begin(self, target: str, address: str) -> PendingSignIn:
        """Begin a sign-in of a browser at ``address`` that ends on the page ``target``.

        Raises ClientError and InputError.
        """
        provider = await self._ask(lambda client: client.ask(calls.provider()))
        for id in [id for id, one in self._pending.items() if time.monotonic() - one.begun > LONGEST]:
            self.drop(id)
        while len(self._pending) >= MOST:
            self.drop(gives_way({id: one.address for id, one in self._pending.items()}))
        dropped = threading.Event()
        http = httpx.Client(timeout=ANSWER_SECONDS)

        def pause(seconds: float) -> None:
            if dropped.wait(seconds):
                raise SignInFailed("another sign-in was begun in its place")

        flow = DeviceFlow(provider.issuer, provider.client_id, provider.scope, sent_by(http), pause)
        try:
            code = await asyncio.to_thread(flow.begin)
        except BaseException:
            await asyncio.to_thread(http.close)
            raise
        made = PendingSignIn(code, time.monotonic(), target, address, dropped=dropped)
        self._pending[made.id] = made
        task = asyncio.create_task(self._finish(made, flow, http))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return made

    def find(self, id: str) -> PendingSignIn | None:
        """Return a sign-in that waits, is done, or has failed."""
        return self._pending.get(id)

    def drop(self, id: str) -> None:
        """Forget a sign-in."""
        found = self._pending.pop(id, None)
        if found is not None:
            found.dropped.set()

    def close(self) -> None:
        """Forget all sign-ins."""
        for id in list(self._pending):
            self.drop(id)

    async def _finish(self, pending: PendingSignIn, flow: DeviceFlow, http: httpx.Client) -> None:
        """Wait for the user, then exchange the ID token for a token of the center."""
        waited: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def wait() -> None:
            try:
                token, problem = flow.wait(pending.code), ""
            except ClientError as error:
                token, problem = "", str(error)
            finally:
                http.close()
            with contextlib.suppress(RuntimeError):  # the portal has stopped
                loop.call_soon_threadsafe(_settle, waited, token, problem)

        loop = asyncio.get_running_loop()
        # A thread of its own: a user may take minutes, and the threads for short work are few.
        threading.Thread(target=wait, name="sign-in", daemon=True).start()
        try:
            id_token = await waited
            made = await self._ask(lambda client: client.ask(calls.login(id_token)))
            pending.token, pending.name = made.secret, made.token.id
        except (ClientError, NoCenter, InputError) as error:
            pending.problem = str(error)

    async def _ask(self, question: Callable[[AsyncHttp], Awaitable[_T]]) -> _T:
        client = self._open_client()
        try:
            return await question(client)
        finally:
            await client.close()


def _settle(waited: asyncio.Future[str], token: str, problem: str) -> None:
    if waited.done():
        return
    if problem:
        waited.set_exception(SignInFailed(problem))
    else:
        waited.set_result(token)
