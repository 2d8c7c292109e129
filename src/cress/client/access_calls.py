"""Calls about users, tokens and the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from cress.client.calls import Call
from cress.protocol.accessviews import (
    AuditPage,
    AuthorityView,
    CallerView,
    JoinedView,
    JoinTokensPage,
    JoinTokenView,
    LoginView,
    NewJoinToken,
    NewToken,
    TokensPage,
    TokenView,
    UsersPage,
    UserView,
)


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


def join_tokens() -> Call[JoinTokensPage]:
    """List the tokens by which nodes join."""
    return Call(JoinTokensPage, "GET", "/v1/join-tokens")


def create_join_token(name: str, *, uses: int, expires: float, nodes: str) -> Call[NewJoinToken]:
    """Create a token by which nodes join; ``nodes`` is a pattern of their names, ``expires`` in seconds."""
    body = {"name": name, "uses": uses, "expires": expires, "nodes": nodes}
    return Call(NewJoinToken, "POST", "/v1/join-tokens", body=body, again=False)


def revoke_join_token(name: str) -> Call[JoinTokenView]:
    """Revoke a join token by name or id."""
    return Call(JoinTokenView, "DELETE", f"/v1/join-tokens/{quote(name, safe='')}")


def provider() -> Call[LoginView]:
    """Ask for the provider of OpenID Connect at which users sign in."""
    return Call(LoginView, "GET", "/v1/login")


def login(id_token: str) -> Call[NewToken]:
    """Sign in with the ID token of the provider."""
    return Call(NewToken, "POST", "/v1/login", body={"id_token": id_token}, again=False)


def authority() -> Call[AuthorityView]:
    """Ask for the certificate of the center's authority."""
    return Call(AuthorityView, "GET", "/v1/ca")


def join(node: str, request: str) -> Call[JoinedView]:
    """Ask for the certificate of a new node; ``request`` is its certificate signing request as PEM."""
    return Call(JoinedView, "POST", "/v1/join", body={"node": node, "request": request})


def audit(limit: int, user: str = "", *, refused: bool = False) -> Call[AuditPage]:
    """Read the latest entries of the audit log."""
    return Call(AuditPage, "GET", "/v1/audit", {"limit": limit, "user": user, "refused": "true" if refused else ""})
