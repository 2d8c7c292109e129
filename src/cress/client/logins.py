"""Sign-ins of this machine's user, in ``cress/logins.json`` of the user's configuration: one token for each center."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from cress.model.errors import InputError
from cress.protocol.private_files import make_private_folder, write_private
from cress.protocol.regular_files import read_regular


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in at the center at ``url``; ``expires``: seconds since the epoch, ``ca``: as ``CRESS_CA``, or empty."""

    url: str
    token: str
    id: str
    user: str
    expires: float
    ca: str = ""


class _Logins(msgspec.Struct):
    """The sign-ins, the latest last."""

    logins: list[Login] = []


def login_file() -> Path:
    """Return the file of the sign-ins."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "cress" / "logins.json"


def find_login(url: str = "") -> Login | None:
    """Return the sign-in at a center, or the latest one; None if there is none. Raises InputError."""
    found = [login for login in _read().logins if not url or login.url == url]
    return found[-1] if found else None


def keep_login(login: Login) -> None:
    """Store a sign-in, which replaces the one at the same center. Raises InputError."""
    others = [known for known in _read().logins if known.url != login.url]
    _write([*others, login])


def forget_login(login: Login) -> None:
    """Remove a sign-in. Raises InputError."""
    _write([known for known in _read().logins if known.id != login.id])


def _read() -> _Logins:
    path = login_file()
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InputError(f"other users may read or change {path}", hint=f"chmod 600 {path}")
        return msgspec.json.decode(read_regular(path), type=_Logins)
    except (FileNotFoundError, NotADirectoryError):
        return _Logins()
    except OSError as error:
        raise InputError(f"the sign-ins cannot be read: {error.strerror}", file=str(path)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        hint = "remove the file, and sign in again with `cress login`"
        raise InputError("there are no sign-ins in it", hint=hint, file=str(path)) from None


def _write(logins: list[Login]) -> None:
    path = login_file()
    if not path.parent.exists():
        make_private_folder(path.parent)
    write_private(path, msgspec.json.encode(_Logins(logins)))
