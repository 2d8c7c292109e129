"""The vault: encrypts the values of secrets for the store, and decrypts them for starting attempts.

It uses AES-256-GCM with a fresh nonce for each value. Owner, name and key are authenticated with the value, so that a
row exchanged for another one, in the store or on its way, cannot be decrypted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from cress.center.secrets.key_file import KeyFile, Keys, MissingKeyFile
from cress.lifecycle.inputs import DeleteSecret, RekeySecret, SetSecret
from cress.model.errors import InputError
from cress.model.secrets import Owner, Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from cress.center.committing.committer import Committer

NONCE = 12
# Secrets that are encrypted again at a time.
AT_ONCE = 64


class Vault:
    """The secrets of a center. ``key_file`` is called at each use, since its place may depend on the loaded cluster."""

    def __init__(self, committer: Committer, key_file: Callable[[], KeyFile]) -> None:
        self._committer = committer
        self._key_file = key_file
        # No key may be dropped between its choice and the storing of the secret.
        self._lock = asyncio.Lock()

    async def set(self, owner: Owner, name: str, value: bytes, by: str) -> tuple[Secret, str]:
        """Store a value; return its secret, and the path of the key file if one was created. Raises InputError."""
        committer = self._committer
        async with self._lock:
            keys, made = self._keys_to_write()
            now = committer.clock.utc()
            sealed = _sealed(keys, owner, name, value)
            secret = Secret(
                owner=owner.name,
                is_group=owner.is_group,
                name=name,
                key=keys.current,
                sealed=sealed,
                size=len(value),
                created=now,
                changed=now,
                by=by,
            )
            await committer.submit(SetSecret(secret=secret))
        return committer.machine.tables.secrets.get(secret.id, secret), made

    async def delete(self, secret: Secret) -> None:
        """Delete a secret. Raises InputError."""
        await self._committer.submit(DeleteSecret(owner=secret.owner, is_group=secret.is_group, name=secret.name))

    def open(self, secret: Secret) -> bytes:
        """Return the value of a secret. Raises InputError."""
        return _opened(self._key_file().read(), secret)

    async def rotate(self, *, keep_old: bool = False) -> tuple[int, str]:
        """Encrypt all secrets with a new key; return their number, and the path of the key file. Raises InputError.

        If the center is killed in between, the file has all keys in use, and the next rotation continues. The old keys
        are dropped at the end unless ``keep_old``: older backups need them.
        """
        async with self._lock:
            file = self._key_file()
            old = self._keys_to_write()[0]
            keys = file.add(old.keys)
            rows = [secret for secret in self._committer.machine.tables.secrets.values() if secret.key != keys.current]
            for first in range(0, len(rows), AT_ONCE):
                await asyncio.gather(*(self._rekey(keys, row) for row in rows[first : first + AT_ONCE]))
            left = {secret.key for secret in self._committer.machine.tables.secrets.values()}
            if not keep_old and left <= {keys.current}:
                file.keep_only_current(keys)
            return len(rows), str(file.path)

    async def _rekey(self, keys: Keys, secret: Secret) -> None:
        sealed = _sealed(keys, secret.of, secret.name, _opened(keys, secret))
        await self._committer.submit(
            RekeySecret(
                owner=secret.owner,
                is_group=secret.is_group,
                name=secret.name,
                key=keys.current,
                sealed=sealed,
                before=secret.sealed,
            )
        )

    def _keys_to_write(self) -> tuple[Keys, str]:
        """Return the keys and the path of a newly made file; one is made if there is none and no secret needs a key."""
        file = self._key_file()
        try:
            return file.read(), ""
        except MissingKeyFile:
            if self._committer.machine.tables.secrets:
                raise
            _library()
            return file.create(), str(file.path)


def _sealed(keys: Keys, owner: Owner, name: str, value: bytes) -> bytes:
    nonce = os.urandom(NONCE)
    sealed: bytes = nonce + _library()(keys.keys[keys.current]).encrypt(
        nonce, value, _bound_to(owner, name, keys.current)
    )
    return sealed


def _opened(keys: Keys, secret: Secret) -> bytes:
    key = keys.keys.get(secret.key)
    if key is None:
        what = (
            f"the secret {secret.name} of {secret.of} is encrypted with the key {secret.key}, which is not in the key "
            "file"
        )
        raise InputError(what, hint="restore the earlier key file, or set the secret again")
    from cryptography.exceptions import InvalidTag

    try:
        value: bytes = _library()(key).decrypt(
            secret.sealed[:NONCE], secret.sealed[NONCE:], _bound_to(secret.of, secret.name, secret.key)
        )
    except (InvalidTag, ValueError):
        what = f"the secret {secret.name} of {secret.of} cannot be decrypted: it is damaged"
        raise InputError(what, hint="set it again") from None
    return value


def _bound_to(owner: Owner, name: str, key: str) -> bytes:
    """Return the data that is authenticated with a value."""
    return msgspec.msgpack.encode(("cress secret", owner.is_group, owner.name, name, key))


def _library() -> type[AESGCM]:
    """Return the cipher, imported on first use. Raises InputError if it is not installed."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        what = "this center cannot keep secrets: the Python package cryptography is not installed"
        raise InputError(what, hint="`pip install 'cress[center]'`, or cryptography alone") from None
    return AESGCM
