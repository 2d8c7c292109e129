"""Requests and answers: sessions, forms, templates, and errors as pages that say what would help."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Match

from cress.client import calls
from cress.client.config import NoCenter
from cress.client.errors import ClientError, NotFound, Refused, Unauthorized
from cress.model.errors import InputError, InputErrors
from cress.portal.sessions import BrowserSession, BrowserSessions
from cress.portal.texts import FILTERS, plain_order

HERE = Path(__file__).parent
STATIC = HERE / "static"
# Most bytes of a form: a job file of 1 MB, in which each character may take three.
MOST_FORM = 4 * 2**20
# The header in which scripts send the secret of the session.
CSRF_HEADER = "x-csrf"
# Sent by a page that reads itself again (portal.js).
REFRESH_HEADER = "x-refresh"

# Pages that belong to an entry of the navigation with another address.
WITHIN = {
    "/groups": ("/reservations", "/leases", "/licences", "/usage", "/efficiency"),
    "/nodes": ("/names",),
    "/submit": ("/what-if", "/reports"),
}

Handler = Callable[[Request], Awaitable[Response]]


class FormError(Exception):
    """A request that the portal itself refuses, with its status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the templates. Every value is escaped."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=plain_order,
    )
    made.filters.update(FILTERS)
    made.globals["asset"] = asset
    made.globals["query"] = query
    made.globals["WITHIN"] = WITHIN
    return made


@lru_cache
def asset(name: str) -> str:
    """Return the address of a file in ``static``; it changes with the content, so browsers may keep it."""
    digest = sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


def query(parameters: Mapping[str, object], **changes: object) -> str:
    """Return parameters of an address with changes; empty ones are left out."""
    whole = {**parameters, **changes}
    return urlencode({name: value for name, value in whole.items() if value not in (None, "", False)})


def cookie_of(request: HTTPConnection) -> str:
    """Return the name of the session's cookie; cookies do not know ports, so the port is a part of the name."""
    return f"cress_portal_{request.app.state.port}"


def sessions_of(request: HTTPConnection) -> BrowserSessions:
    """Return the sessions of the portal."""
    found: BrowserSessions = request.app.state.sessions
    return found


def session_of(request: HTTPConnection) -> BrowserSession | None:
    """Return the session of a request, if it has one."""
    return sessions_of(request).find(request.cookies.get(cookie_of(request), ""))


def set_cookie(request: Request, response: Response, session: BrowserSession) -> None:
    """Give the browser the cookie of a session."""
    response.set_cookie(
        cookie_of(request), session.id, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises FormError."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MOST_FORM:
            raise FormError(f"the form has more than {MOST_FORM // 2**20} MB", 413)
    try:
        return dict(parse_qsl(content.decode(), keep_blank_values=True, max_num_fields=1000))
    except ValueError:
        raise FormError("the form cannot be read") from None


async def page(
    request: Request, session: BrowserSession, template: str, status: int = 200, **values: Any
) -> HTMLResponse:
    """Return a page for a user who is signed in."""
    caller = await session.viewer.caller()
    told = ""
    if REFRESH_HEADER not in request.headers:
        # A page that reads itself again shows no message, and must not take that of a page on its way.
        told, session.told = session.told, ""
    return render(request, template, status, caller=caller, csrf=session.csrf, told=told, **values)


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page."""
    given = {
        "caller": None,
        "csrf": "",
        "path": request.url.path,
        "told": "",
        "about": None,
        "pause": 1,
        "made": getattr(request.state, "made", ""),
        "draft": request.url.path + ("?" if request.url.query else "") + request.url.query,
        "given": request.method != "GET",
    }
    return HTMLResponse(environment().get_template(template).render({**given, **values}), status)


def signed_in(handler: Callable[[Request, BrowserSession], Awaitable[Response]]) -> Handler:
    """Return a route for users who are signed in; others get the page for signing in. Errors become pages."""

    async def route(request: Request) -> Response:
        session = session_of(request)
        if session is None:
            return await _sign_in(request, "")
        # What happens from now on is told to the page.
        request.state.made = session.viewer.moment()
        try:
            return await handler(request, session)
        except Unauthorized as error:
            if await _is_known(session):
                return _error_page(request, session, error)
            await sessions_of(request).end(session)
            return await _sign_in(request, str(error))
        except (ClientError, NoCenter, InputError, FormError) as error:
            return _error_page(request, session, error)

    return route


def changing(handler: Callable[[Request, BrowserSession, dict[str, str]], Awaitable[Response]]) -> Handler:
    """Return a route that changes something: its form must carry the secret of the session."""

    async def change(request: Request, session: BrowserSession) -> Response:
        form = await form_of(request)
        sent = form.pop("csrf", "") or request.headers.get(CSRF_HEADER, "")
        if not secrets.compare_digest(sent.encode(), session.csrf.encode()):
            raise FormError("this page is from an earlier session; load it again, then repeat the change", 403)
        return await handler(request, session, form)

    return signed_in(change)


def back_to(path: str, session: BrowserSession | None = None, told: str = "") -> RedirectResponse:
    """Return a redirect to a page of the portal, where ``told`` is shown once."""
    if session is not None:
        session.told = told
    return RedirectResponse(path, status_code=303)


async def _is_known(session: BrowserSession) -> bool:
    """Return whether the center still knows the user, who then only lacks a right."""
    try:
        await session.viewer.client.ask(calls.whoami())
    except ClientError:
        return False
    return True


async def _sign_in(request: Request, why: str) -> Response:
    if "text/html" not in request.headers.get("accept", "text/html"):
        return JSONResponse({"message": "sign in again"}, 401)
    return await sign_in_page(request, why, shown_page(request))


def shown_page(request: Request) -> str:
    """Return the page that the user sees, with its filters; for a change, that from which its form was sent."""
    address = urlsplit(str(request.url) if request.method == "GET" else request.headers.get("referer", ""))
    path, asked = address.path, address.query
    # The answer to a form may stand at an address that only takes forms: the page above it is shown.
    while path.strip("/") and not _is_page(request, path):
        path, asked = path.rpartition("/")[0], ""
    return f"{path or '/'}{'?' if asked else ''}{asked}"


def _is_page(request: Request, path: str) -> bool:
    asked = {"type": "http", "method": "GET", "path": unquote(path)}
    return any(route.matches(asked)[0] is Match.FULL for route in request.app.routes)


async def sign_in_page(request: Request, why: str, target: str = "/", status: int = 401) -> HTMLResponse:
    """Return the page for signing in, which leads to ``target``."""
    provider = await sessions_of(request).sign_ins.provider()
    return render(request, "login.html", status, why=why, next=target, provider=provider)


def sentences(error: Exception) -> list[str]:
    """Return what an error says: one sentence for each mistake."""
    if isinstance(error, Refused) and error.faults:
        return [
            str(InputError(fault.what, hint=fault.hint, file=fault.file, line=fault.line, field=fault.field))
            for fault in error.faults
        ]
    if isinstance(error, InputErrors):
        return [str(one) for one in error.errors]
    return [str(error)]


def status_of(error: Exception) -> int:
    """Return the status of the answer for an error."""
    if isinstance(error, FormError):
        return error.status
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, Unauthorized):
        return 403
    if isinstance(error, Refused):
        return 422 if error.bad_input else 409
    if isinstance(error, InputError):
        return 422
    return 503


def _error_page(request: Request, session: BrowserSession, error: Exception) -> Response:
    status = status_of(error)
    if "text/html" not in request.headers.get("accept", "text/html"):
        return JSONResponse({"message": "; ".join(sentences(error))}, status)
    # A page that was sent by a form must not load itself again: that would repeat the change.
    change = request.method != "GET"
    return render(
        request,
        "error.html",
        status,
        csrf=session.csrf,
        sentences=sentences(error),
        away=status == 503,
        change=change,
        shown=shown_page(request),
        missing=status == 404,
        about="" if status == 503 and not change else None,
    )


async def no_page(request: Request, error: Exception) -> Response:
    """Answer a request for an address that is no page, such as one that was typed by hand."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    if "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse("no such page\n", status)
    # An address that only takes forms, as it stands in the browser after one: the page above it has the form.
    if status == 405 and request.method in ("GET", "HEAD"):
        return back_to(shown_page(request))
    session = session_of(request)
    if session is None:
        return await _sign_in(request, "")
    return _error_page(request, session, NotFound(f"the portal has no page {request.url.path[:200]}"))


def event(name: str, data: Any) -> str:
    """Return one server-sent event; ``data`` is sent as JSON."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
