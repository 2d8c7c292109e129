"""Authentication: one token for the owner of the data directory, made at the first start."""

from __future__ import annotations

import os
import pwd
import secrets
import stat
from pathlib import Path

from cress.model.errors import InputError

TOKEN_FILE = "token"  # noqa: S105 – the name of a file
LEAST_LENGTH = 20


def ensure_token(folder: Path) -> str:
    """Return the token in ``folder``; create it if there is none. It is never readable by others."""
    path = folder / TOKEN_FILE
    if not path.exists():
        fresh = folder / f".{TOKEN_FILE}.{os.getpid()}"
        fresh.unlink(missing_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
            # The file gets its name only when the token is complete, and never replaces another one.
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink(missing_ok=True)
    return read_token(path)


def read_token(path: Path) -> str:
    """Return the token from a file that only its owner may read. Raises InputError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise InputError(f"the token cannot be read: {error.strerror}", file=str(path)) from None
    if stat.S_ISDIR(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError("it is a directory", hint="move it away, and the next start makes a token", file=str(path))
    with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_IMODE(mode) & 0o077:
            raise InputError("others may read the token", hint=f"chmod 600 {path}", file=str(path))
        token = file.read(4096).strip()
    if len(token) < LEAST_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            "there is no token in it", hint="remove the file, and the next start makes one", file=str(path)
        )
    return token


def owner(folder: Path) -> str:
    """Return the name of the owner of ``folder``."""
    uid = folder.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
