"""The file with the encryption keys of secrets, outside the data directory.

JSON: ``{"version": 1, "current": ID, "keys": {ID: KEY}}``. New values are encrypted with the current key. The other
keys stay until no secret needs them. A copy of the data directory without this file reveals no secret.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cress.model.errors import InputError
from cress.model.secrets import KEY_FOLDER
from cress.protocol.private_files import make_private_folder, write_private
from cress.protocol.regular_files import open_regular

VERSION = 1
KEY_BYTES = 32


class MissingKeyFile(InputError):
    """The key file does not exist."""


class Keys(msgspec.Struct, frozen=True):
    """The keys by their ids; their ``repr`` shows none."""

    current: str
    keys: dict[str, bytes]
    version: int = VERSION

    def __repr__(self) -> str:
        return f"Keys({len(self.keys)})"


class KeyFile:
    """The key file of a center with the data directory ``data``; it is read only when needed."""

    def __init__(self, path: Path, data: Path) -> None:
        self.path = path.absolute()
        self._data = data

    def read(self) -> Keys:
        """Return the keys. Raises MissingKeyFile, and InputError for a file that is unsafe or incomplete."""
        self.check_place()
        try:
            handle = open_regular(self.path)
        except FileNotFoundError:
            hint = "bring it back from the copy that you keep apart from the backups of the data directory"
            raise MissingKeyFile(
                "the file with the keys of the secrets does not exist", hint=hint, file=str(self.path)
            ) from None
        except OSError as error:
            raise self._wrong(f"cannot be read: {error.strerror}", "a file of the account of the center") from None
        with os.fdopen(handle, "rb") as file:
            self._check_owner(os.fstat(file.fileno()))
            data = file.read()
        try:
            keys = msgspec.json.decode(data, type=Keys)
        except msgspec.MsgspecError:
            raise self._wrong("is not a key file", "the copy that you keep of it") from None
        if (
            keys.version != VERSION
            or keys.current not in keys.keys
            or any(len(key) != KEY_BYTES for key in keys.keys.values())
        ):
            raise self._wrong("is not a key file of this release", "the copy that you keep of it")
        return keys

    def create(self) -> Keys:
        """Make the file with a new key. Raises InputError."""
        self.check_place()
        if not self.path.parent.exists():
            make_private_folder(self.path.parent)
        return self.add({})

    def add(self, keys: Mapping[str, bytes]) -> Keys:
        """Write these keys and a new one, which becomes the current key. Raises InputError."""
        number = secrets.token_hex(8)
        return self._write(Keys(number, {**keys, number: secrets.token_bytes(KEY_BYTES)}))

    def keep_only_current(self, keys: Keys) -> Keys:
        """Write the current key alone. Raises InputError."""
        return self._write(Keys(keys.current, {keys.current: keys.keys[keys.current]}))

    def check_place(self) -> None:
        """Raise InputError if the file is in the data directory, whose copies must not contain the keys."""
        real, data = self.path.resolve(), self._data.resolve()
        if data == real or data in real.parents:
            raise self._wrong(
                "is in the data directory, so a copy of that would have the keys too",
                "a file elsewhere, such as the default",
            )

    def _check_owner(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise self._wrong("is not a file", "a file")
        if status.st_uid != os.geteuid():
            raise self._wrong("belongs to another account", "a file of the account of the center")
        if status.st_mode & 0o077:
            raise self._wrong(
                "can be read by other accounts", f"`chmod 600 {self.path}`, and then `cress secret rotate-key`"
            )

    def _write(self, keys: Keys) -> Keys:
        write_private(self.path, msgspec.json.encode(keys))
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # A power cut must not leave secrets whose key is lost.
            os.fsync(folder)
        finally:
            os.close(folder)
        return keys

    def _wrong(self, what: str, hint: str) -> InputError:
        return InputError(f"the file with the keys of the secrets {what}", hint=hint, file=str(self.path))


def default_path(cluster: str, environment: Mapping[str, str]) -> Path:
    """Return the default path of the key file of a cluster."""
    if os.geteuid() == 0:
        return Path(KEY_FOLDER) / f"{cluster}.key"
    base = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".config"
    return folder / "cress" / "keys" / f"{cluster}.key"
