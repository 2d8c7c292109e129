"""Signing in and out: a one-time code of the terminal, or a user's token."""

from __future__ import annotations

import secrets

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cress.client.config import NoCenter
from cress.client.errors import ClientError
from cress.model.errors import InputError
from cress.portal.sessions import BrowserSession
from cress.portal.web import (
    FormError,
    back_to,
    changing,
    cookie_of,
    form_of,
    render,
    sentences,
    session_of,
    sessions_of,
    set_cookie,
)

USED = "this link was used already, or is too old. `cress portal` prints a new one"


async def enter(request: Request) -> Response:
    """Exchange a one-time code for a cookie.

    The answer is a page that goes on by itself: after a redirect, a browser would hold back a strict cookie if the link
    was clicked on a page of another site.
    """
    session = sessions_of(request).enter(request.path_params["code"])
    if session is None:
        if session_of(request) is not None:
            return back_to("/")
        return render(request, "login.html", 401, why=USED, next="/")
    answer = render(request, "entered.html")
    set_cookie(request, answer, session)
    return answer


async def login(request: Request) -> Response:
    """Show the page for signing in, or sign in with a token."""
    if request.method == "GET":
        return render(request, "login.html", why="", next="/")
    target = "/"
    try:
        form = await form_of(request)
        target = form.get("next", "/")
        if not target.startswith("/") or target.startswith(("//", "/\\")):
            target = "/"
        session = await sessions_of(request).sign_in(form.get("token", ""))
    except (InputError, ClientError, NoCenter, FormError) as error:
        return render(request, "login.html", 401, why="; ".join(sentences(error)), next=target)
    answer = back_to(target)
    set_cookie(request, answer, session)
    return answer


@changing
async def logout(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """End the session."""
    await sessions_of(request).end(session)
    answer = render(request, "login.html", why="you are signed out", next="/")
    answer.delete_cookie(cookie_of(request))
    return answer


async def codes(request: Request) -> Response:
    """Make a one-time code, for a program that has read the secret in ``portal.json``."""
    sent = request.headers.get("x-portal-secret", "")
    if not secrets.compare_digest(sent.encode(), request.app.state.secret.encode()):
        return JSONResponse({"message": "wrong secret"}, 403)
    return JSONResponse({"code": sessions_of(request).new_code()})


ROUTES = [
    Route("/enter/{code}", enter, methods=["GET"]),
    Route("/login", login, methods=["GET", "POST"]),
    Route("/logout", logout, methods=["POST"]),
    Route("/codes", codes, methods=["POST"]),
]
