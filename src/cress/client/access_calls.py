"""Calls about users, tokens and the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from cress.client.calls import Call
from cress.protocol.accessviews import AuditPage, CallerView, NewToken, TokensPage, TokenView, UsersPage, UserView


def whoami() -> Call[CallerView]:
    """Ask who the center takes the caller for."""
    return Call(CallerView, "GET", "/v1/whoami")


def users() -> Call[UsersPage]:
    """List the users with a role that was set."""
    return Call(UsersPage, "GET", "/v1/users")


def set_user(name: str, role: str, administers: Sequence[str] = ()) -> Call[UserView]:
    """Set the role of a user, and the groups that the user administers."""
    body = {"role": role, "administers": list(administers)}
    return Call(UserView, "PUT", f"/v1/users/{quote(name, safe='')}", body=body)


def tokens() -> Call[TokensPage]:
    """List tokens."""
    return Call(TokensPage, "GET", "/v1/tokens")


def create_token(
    name: str, *, user: str = "", role: str = "", expires: float | None = None, rotate: bool = False
) -> Call[NewToken]:
    """Create a token, or put a fresh one in the place of the one with that name."""
    body: dict[str, object] = {"name": name, "user": user, "role": role, "rotate": rotate}
    if expires is not None:
        body["expires"] = expires
    return Call(NewToken, "POST", "/v1/tokens", body=body, again=False)


def revoke_token(name: str, user: str = "") -> Call[TokenView]:
    """Revoke a token by name or id."""
    return Call(TokenView, "DELETE", f"/v1/tokens/{quote(name, safe='')}", {"user": user})


def audit(limit: int, user: str = "", *, refused: bool = False) -> Call[AuditPage]:
    """Read the latest entries of the audit log."""
    return Call(AuditPage, "GET", "/v1/audit", {"limit": limit, "user": user, "refused": "true" if refused else ""})
