"""Access: the user's own tokens; for administrators also users, all tokens, and the audit log."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.client.errors import ClientError
from cress.model.access import Role, role_of
from cress.model.errors import InputError
from cress.model.units import parse_duration
from cress.portal.sessions import BrowserSession
from cress.portal.web import back_to, changing, page, sentences, signed_in, status_of
from cress.protocol.access_views import AuditEntry, UserView

# Entries of the audit log that are shown, and roles that can be chosen.
ENTRIES = 200
ROLES = tuple(role.value for role in Role)


@signed_in
async def access(request: Request, session: BrowserSession) -> Response:
    """Show tokens; for administrators users too."""
    return await _page(request, session)


async def _page(
    request: Request, session: BrowserSession, *, secret: str = "", mistakes: list[str] | None = None, status: int = 200
) -> Response:
    viewer = session.viewer
    caller = await viewer.caller()
    admin = role_of(caller.role) is Role.ADMIN
    tokens = (await viewer.ask(calls.tokens())).tokens
    users: tuple[UserView, ...] = (await viewer.ask(calls.users())).users if admin else ()
    return await page(
        request,
        session,
        "access.html",
        status,
        tokens=tokens,
        users=users,
        admin=admin,
        roles=ROLES,
        secret=secret,
        mistakes=mistakes or [],
    )


@changing
async def create_token(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Create a token; the answer is the only page that shows its text."""
    try:
        life = form.get("expires", "").strip()
        expires = parse_duration(life) / 1e6 if life else None
        made = await session.viewer.change(
            calls.create_token(
                form.get("name", "").strip(),
                user=form.get("user", "").strip(),
                role=form.get("role", ""),
                expires=expires,
            )
        )
    except (InputError, ClientError) as error:
        return await _page(request, session, mistakes=sentences(error), status=status_of(error))
    return await _page(request, session, secret=made.secret)


@changing
async def revoke_token(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Revoke a token."""
    id = request.path_params["id"]
    revoked = await session.viewer.change(calls.revoke_token(id, form.get("user", "")))
    return back_to("/access", session, f"token {revoked.name} of {revoked.user} is revoked")


@changing
async def set_user(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Set the role of a user, and the groups that the user administers."""
    name = form.get("name", "").strip()
    groups = form.get("administers", "").replace(",", " ").split()
    try:
        view = await session.viewer.change(calls.set_user(name, form.get("role", ""), groups))
    except (InputError, ClientError) as error:
        return await _page(request, session, mistakes=sentences(error), status=status_of(error))
    return back_to("/access", session, f"{view.name} has the role {view.role}")


@signed_in
async def audit(request: Request, session: BrowserSession) -> Response:
    """Show the latest entries of the audit log."""
    user = request.query_params.get("user", "").strip()
    refused = request.query_params.get("refused", "") == "on"
    entries: tuple[AuditEntry, ...] = (
        await session.viewer.ask(calls.audit(ENTRIES, user, refused=refused), fresh=2.0)
    ).entries
    return await page(
        request, session, "audit.html", entries=entries, chosen={"user": user, "refused": "on" if refused else ""}
    )


ROUTES = [
    Route("/access", access, methods=["GET"]),
    Route("/access/tokens", create_token, methods=["POST"]),
    Route("/access/tokens/{id}/revoke", revoke_token, methods=["POST"]),
    Route("/access/users", set_user, methods=["POST"]),
    Route("/audit", audit, methods=["GET"]),
]
