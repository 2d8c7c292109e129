"""Views of secrets, which never have a value."""

from __future__ import annotations

from cress.protocol.views import View


class SecretView(View, frozen=True):
    """A secret without its value: of the user ``user``, or of the group ``group``; the other one is empty.

    ``size`` in bytes; ``created`` and ``changed`` in seconds since the epoch; ``by`` is the user who has set the value.
    ``key_file`` is the path of the file with the keys, when it was made for this secret.
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
