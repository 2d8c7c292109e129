"""Access: the roles of users, the tokens by which programs act for them, and those by which nodes join."""

from __future__ import annotations

import re
from enum import Enum, StrEnum

import msgspec

from cress.model.errors import InputError
from cress.model.units import one_of

# Characters of a name of a user or token.
MOST_NAME = 64
# Most jobs of one user that are not over, and most tasks of these, unless an operator says otherwise.
USER_JOBS, USER_TASKS = 250_000, 50_000_000
# Requests a second of one user and of one address, in the long run; 40 times as many at once.
USER_RATE, ADDRESS_RATE = 200, 500
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


class Role(Enum):
    """The role of a user; each may do all that those before it may. ``NONE`` is shut out."""

    NONE = "none"
    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        """The place of the role in their order."""
        return _RANKS[self]


_RANKS = {role: rank for rank, role in enumerate(Role)}


class Visibility(StrEnum):
    """The jobs that users see: their own, those of the groups they may submit to, or all."""

    OWN = "own"
    GROUP = "group"
    ALL = "all"


class User(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The role of a user, and the groups whose jobs the user steers as if they were the user's own."""

    name: str
    role: Role = Role.USER
    administers: tuple[str, ...] = ()


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token: whoever shows its secret acts as ``user``, with ``role`` at most.

    Only ``digest``, the SHA-256 of the secret, is kept. ``id`` is a part of the token that is no secret. ``created``
    and ``expires`` are in µs since the epoch; 0: it does not expire.
    """

    id: str
    name: str
    user: str
    role: Role
    digest: bytes
    created: int
    expires: int = 0

    def is_over(self, utc: int) -> bool:
        """Return whether the token has expired."""
        return 0 < self.expires <= utc


class JoinToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token by which new nodes get their certificates, ``uses`` of them at most; made by ``user``.

    ``nodes`` is a pattern of their names, with ``*`` and ``?``. Only ``digest``, the SHA-256 of its secret, is kept.
    ``created`` and ``expires`` are in µs since the epoch. It is not a ``Token``: a release that does not know it must
    not take it for one.
    """

    id: str
    name: str
    user: str
    digest: bytes
    created: int
    expires: int
    uses: int = 1
    nodes: str = "*"

    def is_over(self, utc: int) -> bool:
        """Return whether the token has expired."""
        return self.expires <= utc


def role_of(word: str, field: str = "role") -> Role:
    """Return the role of that name. Raises InputError."""
    names = [role.value for role in Role]
    if word not in names:
        raise InputError(f"{word[:40]!r} is not a role", hint=one_of(word, names), field=field)
    return Role(word)


def checked_name(name: str, field: str) -> str:
    """Return the name of a user or token. Raises InputError."""
    if not _NAME.fullmatch(name):
        hint = f"letters, digits, and _ . @ - behind the first, at most {MOST_NAME} characters"
        raise InputError(f"{name[:40]!r} is not a name", hint=hint, field=field)
    return name
