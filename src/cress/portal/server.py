"""The program of the portal: it listens, says where, and stops when it is told to."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from cress.client.config import INSECURE
from cress.model.errors import InputError
from cress.portal.guard import PortalGuard
from cress.portal.pages import (
    access,
    efficiency,
    entry,
    events,
    files,
    groups,
    jobs,
    leases,
    live,
    logs,
    names,
    nodes,
    overview,
    reports,
    reservations,
    submit,
    terminal,
    timeline,
    usage,
    what_if,
)
from cress.portal.sessions import BrowserSessions
from cress.portal.settings import PLACE, PortalPlace, PortalSettings
from cress.portal.web import STATIC, no_page
from cress.protocol.private_files import write_private
from cress.protocol.regular_files import check_regular, read_regular

PAGES = (
    entry,
    live,
    overview,
    logs,
    files,
    terminal,
    jobs,
    nodes,
    names,
    groups,
    reservations,
    leases,
    usage,
    efficiency,
    timeline,
    events,
    submit,
    what_if,
    reports,
    access,
)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# How much nicer than other programs the portal is.
LESS = 5
# Seconds for open pages to end when the portal stops.
GRACE = 1
# Most bytes of a message of a terminal's page.
MOST_MESSAGE = 2**20


class _Static(StaticFiles):
    """Files whose address changes with their content, so that browsers may keep them."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file."""
        answer = await super().get_response(path, scope)
        answer.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return answer


def app_of(settings: PortalSettings, sessions: BrowserSessions, port: int, secret: str) -> ASGIApp:
    """Return the application that listens at ``port``."""

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        async with sessions.running():
            yield

    pages = [route for part in PAGES for route in part.ROUTES]
    routes = [*pages, Mount("/static", _Static(directory=STATIC))]
    app = Starlette(routes=routes, lifespan=life, exception_handlers={404: no_page, 405: no_page})
    app.state.sessions, app.state.port, app.state.secret = sessions, port, secret
    app.state.settings = settings
    app.state.terminals = []
    return PortalGuard(app, {*LOOPBACK, settings.host, socket.gethostname(), *settings.names})


def run(settings: PortalSettings, announce: Callable[[str], None]) -> int:
    """Run a portal until it is stopped. Raises InputError.

    ``announce`` gets a link that opens the portal signed in, once it listens; a portal with a parent has none, since
    its parent asks for one.
    """
    _check(settings)
    listener = _listen(settings)
    with suppress(OSError):
        os.nice(LESS)  # on a center's machine the center goes first
    port = listener.getsockname()[1]
    sessions = BrowserSessions(settings)
    place = PortalPlace(f"{settings.scheme}://{_shown(settings)}:{port}", os.getpid(), secrets.token_urlsafe(24))
    config = uvicorn.Config(
        app_of(settings, sessions, port, place.secret),
        log_level="warning",
        access_log=False,
        server_header=False,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        timeout_graceful_shutdown=GRACE,
        lifespan="on",
        ws_max_size=MOST_MESSAGE,
    )
    path = settings.folder / PLACE
    _write(path, place)
    if not settings.parent_pipe:
        announce(f"{place.url}/enter/{sessions.new_code()}")
    try:
        asyncio.run(_serve(uvicorn.Server(config), listener, settings))
    except KeyboardInterrupt:
        pass  # uvicorn has stopped cleanly, and raises the signal again
    finally:
        with suppress(OSError, msgspec.MsgspecError):
            if msgspec.json.decode(read_regular(path), type=PortalPlace).pid == place.pid:
                path.unlink()
    return 0


async def _serve(server: uvicorn.Server, listener: socket.socket, settings: PortalSettings) -> None:
    if settings.parent_pipe:
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), _end_with, server, loop)
    await server.serve(sockets=[listener])


def _end_with(server: uvicorn.Server, loop: asyncio.AbstractEventLoop) -> None:
    """Stop when standard input ends: the parent is gone."""
    if not os.read(sys.stdin.fileno(), 1024):
        loop.remove_reader(sys.stdin.fileno())
        server.should_exit = True


def _check(settings: PortalSettings) -> None:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise InputError("a certificate and its key go together", hint="both files", field="--tls-cert, --tls-key")
    for option, path in (("--tls-cert", settings.tls_cert), ("--tls-key", settings.tls_key)):
        try:
            if path is not None:
                check_regular(path)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=str(path), field=option) from None
    if settings.host not in LOOPBACK and settings.tls_cert is None and not os.environ.get(INSECURE):
        raise InputError(
            f"cookies would travel to {settings.host} unencrypted",
            hint=f"--tls-cert and --tls-key, 127.0.0.1 behind a proxy with TLS, or {INSECURE}=1 in a closed network",
            field="--host",
        )


def _listen(settings: PortalSettings) -> socket.socket:
    """Return a listening socket: at the given port, else at that of the last time, else at a free one."""
    wanted = [settings.port] if settings.port else [_last_port(settings.folder), 0]
    problem: OSError | None = None
    for port in dict.fromkeys(wanted):
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, port))
            listener.listen(256)
        except OSError as error:
            listener.close()
            problem = error
            continue
        return listener
    assert problem is not None
    raise InputError(
        f"{settings.host} port {settings.port} cannot be used: {problem.strerror}",
        hint="another --port, or 0 for a free one",
        field="--port",
    )


def _last_port(folder: Path) -> int:
    with suppress(OSError, ValueError):
        port = int(read_regular(folder / "portal.port"))
        return port if 0 < port < 2**16 else 0
    return 0


def _write(path: Path, place: PortalPlace) -> None:
    """Write the place of the portal; only the owner may read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path.parent / "portal.port", place.url.rpartition(":")[2].encode())
    write_private(path, msgspec.json.encode(place))


def _shown(settings: PortalSettings) -> str:
    host = settings.names[0] if settings.names else settings.host
    if host in ("0.0.0.0", "::"):  # noqa: S104 – shown, not bound
        host = socket.gethostname()
    return f"[{host}]" if ":" in host else host
