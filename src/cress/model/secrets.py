"""Secrets: encrypted values that users and groups store in the cluster for their jobs."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from cress.model.errors import InputError

# Maximum size of a value in bytes, number of secrets of a user or group, and length of a name in characters.
MOST_VALUE = 64 * 2**10
MOST_SECRETS = 200
MOST_NAME = 128
# The folder of key files of centers that run as root; containers cannot see it.
KEY_FOLDER = "/etc/cress/keys"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class Owner(NamedTuple):
    """The owner of a secret: the user or the group with this name."""

    name: str
    is_group: bool = False

    def __str__(self) -> str:
        return f"group {self.name}" if self.is_group else self.name


class Secret(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A secret. Only ``sealed`` is stored of its value: encrypted with the key ``key``, which is in no table.

    ``size`` is the size of the value in bytes. ``created`` and ``changed`` are µs since the epoch; ``by`` is the user
    who set the value.
    """

    owner: str
    name: str
    key: str
    sealed: bytes
    size: int
    created: int
    changed: int
    by: str
    is_group: bool = False

    @property
    def of(self) -> Owner:
        """The owner."""
        return Owner(self.owner, self.is_group)

    @property
    def id(self) -> tuple[str, str]:
        """The key of its row."""
        return secret_id(self.of, self.name)


def secret_id(owner: Owner, name: str) -> tuple[str, str]:
    """Return the key of the row of a secret."""
    return ("group " if owner.is_group else "user ") + owner.name, name


def checked_secret_name(name: object, field: str = "name") -> str:
    """Check the name of a secret, and return it. Raises InputError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        hint = f"letters, digits, and _ . - behind the first, at most {MOST_NAME} characters"
        shown = repr(name[:40]) if isinstance(name, str) else "this"
        raise InputError(f"{shown} is not a name of a secret", hint=hint, field=field)
    return name
