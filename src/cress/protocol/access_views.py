"""Users, tokens, secrets (without their values), joining nodes, and the audit log in the API."""

from __future__ import annotations

import msgspec

from cress.protocol.views import View


class CallerView(View, frozen=True):
    """The user who sent a request; ``how`` is the credential: owner, account, or token NAME."""

    user: str
    role: str
    administers: tuple[str, ...] = ()
    how: str = ""


class UserView(View, frozen=True):
    """A user whose role an admin has set."""

    name: str
    role: str
    administers: tuple[str, ...] = ()


class UsersPage(View, frozen=True):
    """All users whose role was set; all others have the role ``user``."""

    users: tuple[UserView, ...] = ()


class TokenView(View, frozen=True):
    """A token without its secret; times are seconds since the epoch, ``expires`` None means never."""

    id: str
    name: str
    user: str
    role: str
    created: float
    expires: float | None = None
    expired: bool = False


class NewToken(View, frozen=True):
    """A new token; ``secret`` is its text, which only this answer contains."""

    token: TokenView
    secret: str


class TokensPage(View, frozen=True):
    """Tokens by user and name."""

    tokens: tuple[TokenView, ...] = ()


class LoginView(View, frozen=True):
    """The provider of OpenID Connect for sign-in, and the parameters that its client needs."""

    issuer: str
    client_id: str
    scope: str


class AuthorityView(View, frozen=True):
    """The certificate of the center's authority, as PEM; it is public."""

    certificate: str


class JoinTokenView(View, frozen=True):
    """A join token without its secret.

    ``used`` of ``uses`` nodes have joined with it; the pattern ``nodes`` limits their names. Times are seconds since
    the epoch.
    """

    id: str
    name: str
    user: str
    nodes: str
    uses: int
    used: int
    created: float
    expires: float
    expired: bool = False


class NewJoinToken(View, frozen=True):
    """A new join token; ``secret`` is its text for nodes, which only this answer contains."""

    token: JoinTokenView
    secret: str


class JoinTokensPage(View, frozen=True):
    """Join tokens by name."""

    tokens: tuple[JoinTokenView, ...] = ()


class JoinedView(View, frozen=True):
    """The answer to a joining node: its certificate and the authority's as PEM, and the address for executors."""

    node: str
    certificate: str
    ca: str
    executor_url: str


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that was refused, or that administers the cluster.

    ``at`` is in seconds since the epoch; ``user`` is empty for an unknown caller; ``what`` is method and path;
    ``status`` is that of the answer; ``request`` is the id in its header ``X-Request-Id``; ``why`` is the reason of a
    refusal.
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


class SecretView(View, frozen=True):
    """A secret without its value, of the user ``user`` or the group ``group``; the other one is empty.

    ``size`` is in bytes; ``created`` and ``changed`` are seconds since the epoch; ``by`` is the user who set the value.
    ``key_file`` is the path of the key file if it was made for this secret.
    """

    name: str
    user: str = ""
    group: str = ""
    size: int = 0
    created: float = 0.0
    changed: float = 0.0
    by: str = ""
    key_file: str = ""


class SecretsPage(View, frozen=True):
    """Secrets by owner and name."""

    secrets: tuple[SecretView, ...] = ()


class KeyRotated(View, frozen=True):
    """A new key is in the file ``key_file``, and ``secrets`` values are encrypted with it."""

    secrets: int
    key_file: str
