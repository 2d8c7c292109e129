"""Views of users, tokens and the audit log."""

from __future__ import annotations

import msgspec

from cress.protocol.views import View


class CallerView(View, frozen=True):
    """The user that a request comes from; ``how`` is the credential: owner, account, or token NAME."""

    user: str
    role: str
    administers: tuple[str, ...] = ()
    how: str = ""


class UserView(View, frozen=True):
    """A user with a role that an admin has set."""

    name: str
    role: str
    administers: tuple[str, ...] = ()


class UsersPage(View, frozen=True):
    """All users with a role that was set; everybody else has the role ``user``."""

    users: tuple[UserView, ...] = ()


class TokenView(View, frozen=True):
    """A token without its secret; times in seconds since the epoch, ``expires`` None: never."""

    id: str
    name: str
    user: str
    role: str
    created: float
    expires: float | None = None
    expired: bool = False


class NewToken(View, frozen=True):
    """A new token; ``secret`` is what it is shown with, and is never told again."""

    token: TokenView
    secret: str


class TokensPage(View, frozen=True):
    """Tokens by user and name."""

    tokens: tuple[TokenView, ...] = ()


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that was refused, or that administers the cluster.

    ``at`` is in seconds since the epoch; ``user`` is empty if nobody knows who called; ``what`` is method and path,
    ``status`` that of the answer, ``request`` the id in its header ``X-Request-Id``; ``why`` is told of refusals.
    """

    at: float
    user: str = ""
    how: str = ""
    address: str = ""
    what: str = ""
    status: int = 0
    request: str = ""
    why: str = ""


class AuditPage(View, frozen=True):
    """Entries of the audit log, the newest first."""

    entries: tuple[AuditEntry, ...] = ()
