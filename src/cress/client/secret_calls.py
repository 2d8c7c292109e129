"""Calls about secrets."""

from __future__ import annotations

import base64
from urllib.parse import quote

from cress.client.calls import Call
from cress.protocol.secretviews import KeyRotated, SecretsPage, SecretView


def secrets(user: str = "", group: str = "") -> Call[SecretsPage]:
    """List secrets without their values; those of a user or group, or all that the caller may know of."""
    return Call(SecretsPage, "GET", "/v1/secrets", {"user": user, "group": group})


def secret(name: str, user: str = "", group: str = "") -> Call[SecretView]:
    """Ask for a secret without its value."""
    return Call(SecretView, "GET", _path(name), {"user": user, "group": group})


def set_secret(name: str, value: bytes, user: str = "", group: str = "") -> Call[SecretView]:
    """Set the value of a secret."""
    body = {"value": base64.b64encode(value).decode(), "user": user, "group": group}
    return Call(SecretView, "PUT", _path(name), body=body)


def delete_secret(name: str, user: str = "", group: str = "") -> Call[SecretView]:
    """Delete a secret."""
    return Call(SecretView, "DELETE", _path(name), {"user": user, "group": group})


def rotate_key(*, keep_old: bool = False) -> Call[KeyRotated]:
    """Encrypt all secrets with a new key."""
    return Call(KeyRotated, "POST", "/v1/secret-key/rotate", body={"keep_old": keep_old}, again=False)


def _path(name: str) -> str:
    return f"/v1/secrets/{quote(name, safe='')}"
