"""Authentication of the owner: one token in the data directory, made at the first start."""

from __future__ import annotations

import hmac
import os
import pwd
import secrets
import stat
from pathlib import Path

from cress.model.errors import InputError
from cress.protocol.proof import mac
from cress.protocol.regular_files import open_regular

TOKEN_FILE = "token"  # noqa: S105 – the name of a file
LEAST_LENGTH = 20
# The store's note with the fingerprint of the token.
FINGERPRINT = "secret"
WAY_BACK = (
    "restore it from a backup, from another center of the cluster, or from a node (the file in `--token-file` of its "
    "executor); only if no copy is left, `cress store secret --new` makes a new one, which all executors need"
)
ACCEPT = "; if executors already have this one, use `cress store secret --accept`"


def fingerprint_of(secret: str) -> bytes:
    """Return the fingerprint with which a store identifies the secret of its cluster."""
    return mac(secret.encode(), "fingerprint of the secret")


def check_fingerprint(folder: Path, secret: bytes, known: bytes | None) -> None:
    """Raise InputError if the store knows another secret than the one in ``folder`` with fingerprint ``secret``."""
    if known is not None and not hmac.compare_digest(known, secret):
        raise InputError(
            "the token was changed, or belongs to another cluster, so executors would refuse a center with it",
            hint=WAY_BACK + ACCEPT,
            file=str(folder / TOKEN_FILE),
        )


def cluster_secret(folder: Path, known: bytes | None) -> str:
    """Return the secret in ``folder``, checked against the fingerprint in the store.

    If the store has no fingerprint, a missing secret is made. Raises InputError.
    """
    if known is None:
        return ensure_token(folder)
    path = folder / TOKEN_FILE
    if not path.exists():
        what = "the token is missing, and executors would refuse a center with a new one"
        raise InputError(what, hint=WAY_BACK, file=str(path))
    secret = read_token(path, WAY_BACK)
    check_fingerprint(folder, fingerprint_of(secret), known)
    return secret


def ensure_token(folder: Path) -> str:
    """Return the token in ``folder``, made if there is none. It is never readable by others."""
    path = folder / TOKEN_FILE
    if not path.exists():
        fresh = fresh_token(folder)
        try:
            # The file gets its name only when the token is complete, and never replaces another one.
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink(missing_ok=True)
    return read_token(path)


def fresh_token(folder: Path) -> Path:
    """Write a new token to a file with another name; return its path."""
    fresh = folder / f".{TOKEN_FILE}.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return fresh


def read_token(path: Path, remedy: str = "move it away, and the next start makes one") -> str:
    """Return the token from a file that only its owner may read. Raises InputError.

    ``remedy`` says how to handle a file without a token.
    """
    try:
        handle = open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
    except IsADirectoryError:
        raise InputError("there is a directory in the place of the token", hint=remedy, file=str(path)) from None
    except OSError as error:
        raise InputError(f"the token cannot be read: {error.strerror}", file=str(path)) from None
    with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_IMODE(mode) & 0o077:
            raise InputError("others may read the token", hint=f"chmod 600 {path}", file=str(path))
        token = file.read(4096).strip()
    if len(token) < LEAST_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError("there is no token in it", hint=remedy, file=str(path))
    return token


def owner(folder: Path) -> str:
    """Return the name of the owner of ``folder``."""
    uid = folder.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
