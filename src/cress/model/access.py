"""Access control: roles of users, the tokens with which programs act for them, and the tokens with which nodes join."""

from __future__ import annotations

import re
from enum import Enum, StrEnum

import msgspec

from cress.model.errors import InputError
from cress.model.units import one_of

# Maximum length of the name of a user or token, in characters.
MOST_NAME = 64
# Default limits for each user: unfinished jobs, and the tasks of these jobs.
USER_JOBS, USER_TASKS = 250_000, 50_000_000
# Sustained requests a second of one user and of one address; a burst may be 40 times as large.
USER_RATE, ADDRESS_RATE = 200, 500
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


class Role(Enum):
    """The role of a user; each role includes the rights of those before it. ``NONE`` has no rights."""

    NONE = "none"
    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        """The position of the role in the order of roles."""
        return _RANKS[self]


_RANKS = {role: rank for rank, role in enumerate(Role)}


class Visibility(StrEnum):
    """The jobs that users see: their own, those of the groups they may submit to, or all."""

    OWN = "own"
    GROUP = "group"
    ALL = "all"


class User(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A user's role, and the groups whose jobs the user may control like jobs of the user's own."""

    name: str
    role: Role = Role.USER
    administers: tuple[str, ...] = ()


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token: a program that shows its secret acts as ``user``, with at most ``role``.

    Only ``digest``, the SHA-256 of the secret, is stored. ``id`` is the public part of the token. ``created`` and
    ``expires`` are in µs since the epoch; ``expires`` 0: never.
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
    """A token with which at most ``uses`` new nodes get their certificates; created by ``user``.

    ``nodes`` is a pattern of node names, with ``*`` and ``?``. Only ``digest``, the SHA-256 of the secret, is stored.
    ``created`` and ``expires`` are in µs since the epoch. This is a type of its own, so that an older release never
    mistakes it for a ``Token``.
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
    """Return the role with this name. Raises InputError."""
    names = [role.value for role in Role]
    if word not in names:
        raise InputError(f"{word[:40]!r} is not a role", hint=one_of(word, names), field=field)
    return Role(word)


def checked_name(name: str, field: str) -> str:
    """Check the name of a user or token, and return it. Raises InputError."""
    if not _NAME.fullmatch(name):
        hint = f"letters, digits, and _ . @ - behind the first, at most {MOST_NAME} characters"
        raise InputError(f"{name[:40]!r} is not a name", hint=hint, field=field)
    return name
