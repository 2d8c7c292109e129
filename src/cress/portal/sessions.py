"""Sessions of browsers: cookies, one-time codes, and the credentials behind them.

A cookie holds a random number. The credential itself stays in the portal's memory: it is never sent to a browser, and
a restart of the portal ends all sessions.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from cress.client import calls
from cress.client.aio.http import AsyncHttp
from cress.client.config import USER_TOKEN, NoCenter, check_sent, check_token
from cress.client.errors import ClientError
from cress.client.found import FoundCenter, found
from cress.model.errors import InputError
from cress.portal.settings import PortalSettings
from cress.portal.shares import gives_way
from cress.portal.sign_ins import SignIns
from cress.portal.viewers import Viewer

# Seconds after which a session that was not used ends, and for which a one-time code may be used.
SESSION_SECONDS, CODE_SECONDS = 12 * 3600.0, 24 * 3600.0
MOST_SESSIONS, MOST_CODES = 1000, 100
# Seconds between two looks for sessions that have expired, and for which a stop of the portal waits for their ends.
LOOK, LEAVE = 60.0, 2.0


@dataclass(slots=True)
class BrowserSession:
    """A browser that is signed in; forms carry ``csrf``, which other web pages cannot know."""

    id: str
    viewer: Viewer
    own: bool
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    used: float = 0.0
    # What the next page says, such as "job 12 is cancelled".
    told: str = ""
    # Functions that close what is open for it, such as terminals, when it ends.
    closers: set[Callable[[], None]] = field(default_factory=set)
    # The name of the user; empty for the one who runs the portal.
    user: str = ""
    # The token that was made for this session at its sign-in, which its end revokes.
    made_token: str = ""


class BrowserSessions:
    """All sessions of one portal. ``clock`` returns seconds that never go back."""

    def __init__(self, settings: PortalSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._sessions: dict[str, BrowserSession] = {}
        self._codes: dict[str, float] = {}
        self._own: Viewer | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self.sign_ins = SignIns(lambda: client_of(self._place()))

    def new_code(self) -> str:
        """Return a code with which one browser signs in once, as the user who runs the portal."""
        now = self._clock()
        self._codes = {code: end for code, end in self._codes.items() if end > now}
        while len(self._codes) >= MOST_CODES:
            self._codes.pop(next(iter(self._codes)))
        code = secrets.token_urlsafe(24)
        self._codes[code] = now + CODE_SECONDS
        return code

    def enter(self, code: str) -> BrowserSession | None:
        """Exchange a one-time code for a session; None if it was used or is unknown."""
        end = self._codes.pop(code, 0.0)
        if end <= self._clock():
            return None
        if self._own is None:
            self._own = Viewer(client_of(self._place()))
        return self._keep(BrowserSession(secrets.token_urlsafe(32), self._own, own=True))

    async def sign_in(self, token: str, made_token: str = "") -> BrowserSession:
        """Return a session for a user's token. Raises InputError and ClientError: such a token gives no session.

        ``made_token`` is the id of the token if it was made for this session alone.
        """
        token = check_token(token.strip(), "token")
        if not token.startswith(USER_TOKEN):
            raise InputError(
                "is not a user's token",
                hint="cress_…, as `cress token create NAME` prints it",
                field="token",
            )
        place = self._place()
        if place.socket is None:
            check_sent(place.url)
        viewer = Viewer(client_of(place._replace(token=token, find=None)))
        try:
            caller = await viewer.ask(calls.whoami())
        except BaseException:
            await viewer.close()
            raise
        id = secrets.token_urlsafe(32)
        return self._keep(BrowserSession(id, viewer, own=False, user=caller.user, made_token=made_token))

    def find(self, id: str) -> BrowserSession | None:
        """Return the session with this cookie; None if there is none, or if it has ended."""
        session = self._sessions.get(id)
        if session is None:
            return None
        if self._has_expired(session):
            self._end_soon(session)
            return None
        session.used = self._clock()
        return session

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """End expired sessions while the portal runs, then close all connections to the center."""
        # A browser that never comes back would else keep its token, its terminals and its connections.
        looking = asyncio.create_task(self._end_expired())
        try:
            yield
        finally:
            looking.cancel()
            await self.close()

    async def end(self, session: BrowserSession) -> None:
        """End a session."""
        self._forget(session)
        await self._leave(session)

    async def _end_expired(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            for session in list(self._sessions.values()):
                if self._has_expired(session):
                    self._end_soon(session)

    def _has_expired(self, session: BrowserSession) -> bool:
        return self._clock() - session.used > SESSION_SECONDS

    def _end_soon(self, session: BrowserSession) -> None:
        """End a session at once; its token is revoked in the background."""
        self._forget(session)
        if session.made_token or not session.own:
            task = asyncio.get_running_loop().create_task(self._leave(session))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    def _forget(self, session: BrowserSession) -> None:
        self._sessions.pop(session.id, None)
        for close in list(session.closers):
            close()

    async def _leave(self, session: BrowserSession) -> None:
        if session.made_token:
            # It expires by itself if the center is away.
            with suppress(ClientError, NoCenter):
                await session.viewer.client.ask(calls.revoke_token(session.made_token))
        if not session.own:
            await session.viewer.close()

    async def close(self) -> None:
        """Close all connections to the center."""
        self.sign_ins.close()
        if self._leaving:
            # Their tokens are being revoked; a center that does not answer must not keep the portal from stopping.
            await asyncio.wait(self._leaving, timeout=LEAVE)
        viewers = {id(session.viewer): session.viewer for session in self._sessions.values()}
        if self._own is not None:
            viewers[id(self._own)] = self._own
        for viewer in viewers.values():
            await viewer.close()

    def _keep(self, session: BrowserSession) -> BrowserSession:
        while len(self._sessions) >= MOST_SESSIONS:
            kept = sorted(self._sessions.values(), key=lambda one: one.used)
            self._end_soon(self._sessions[gives_way({one.id: one.user for one in kept})])
        session.used = self._clock()
        self._sessions[session.id] = session
        return session

    def _place(self) -> FoundCenter:
        return found(None, None, self._settings.data)


def client_of(place: FoundCenter) -> AsyncHttp:
    """Return a client of a center."""
    return AsyncHttp(place.url, place.token, advice=place.advice, find=place.find, socket=place.socket, ca=place.ca)
