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
    sign_in_page,
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
        return await sign_in_page(request, USED)
    answer = render(request, "entered.html")
    set_cookie(request, answer, session)
    return answer


async def login(request: Request) -> Response:
    """Show the page for signing in, or sign in with a token."""
    if request.method == "GET":
        return await sign_in_page(request, "", status=200)
    target = "/"
    try:
        form = await form_of(request)
        target = target_of(form.get("next", "/"))
        session = await sessions_of(request).sign_in(form.get("token", ""))
    except (InputError, ClientError, NoCenter, FormError) as error:
        return await sign_in_page(request, "; ".join(sentences(error)), target)
    answer = back_to(target)
    set_cookie(request, answer, session)
    return answer


def target_of(text: str) -> str:
    """Return the page of the portal to which a sign-in leads; addresses of others are not followed."""
    return text if text.startswith("/") and not text.startswith(("//", "/\\")) else "/"


async def begin_sign_in(request: Request) -> Response:
    """Begin a sign-in at the provider; the browser gets a cookie with which it waits for its end."""
    target = "/"
    try:
        target = target_of((await form_of(request)).get("next", "/"))
        address = request.client.host if request.client else ""
        pending = await sessions_of(request).sign_ins.begin(target, address)
    except (InputError, ClientError, NoCenter, FormError) as error:
        return await sign_in_page(request, "; ".join(sentences(error)), target)
    answer = back_to("/login/provider")
    answer.set_cookie(
        waiting_cookie_of(request), pending.id, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return answer


async def await_sign_in(request: Request) -> Response:
    """Show the code that the user enters at the provider; when that is done, go on with a session."""
    sessions = sessions_of(request)
    id = request.cookies.get(waiting_cookie_of(request), "")
    pending = sessions.sign_ins.find(id)
    if pending is None:
        return await sign_in_page(request, "this sign-in is over")
    if not pending.token and not pending.problem:
        return render(request, "waiting.html", code=pending.code)
    sessions.sign_ins.drop(id)
    answer: Response
    if pending.problem:
        answer = await sign_in_page(request, pending.problem, pending.next)
    else:
        answer = back_to(pending.next)
        try:
            session = await sessions.sign_in(pending.token, pending.name)
        except (InputError, ClientError, NoCenter) as error:
            return await sign_in_page(request, "; ".join(sentences(error)), pending.next)
        set_cookie(request, answer, session)
    answer.delete_cookie(waiting_cookie_of(request))
    return answer


def waiting_cookie_of(request: Request) -> str:
    """Return the name of the cookie of a browser that waits for the end of a sign-in."""
    return f"{cookie_of(request)}_waits"


@changing
async def logout(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """End the session."""
    await sessions_of(request).end(session)
    answer = await sign_in_page(request, "you are signed out", status=200)
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
    Route("/login/provider", begin_sign_in, methods=["POST"]),
    Route("/login/provider", await_sign_in, methods=["GET"]),
    Route("/logout", logout, methods=["POST"]),
    Route("/codes", codes, methods=["POST"]),
]
