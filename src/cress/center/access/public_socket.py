"""The socket for all accounts of the center's machine: the kernel names the account, so no token is needed."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

from cress.model.errors import InputError

# Most bytes in the path of a Unix socket.
MOST_PATH = 107


def public_socket(path: Path, backlog: int) -> socket.socket:
    """Return a Unix socket that listens at ``path`` for every account. Raises InputError.

    Its directory must be writable by no other account, which could put another socket in its place.
    """
    if len(os.fsencode(path)) > MOST_PATH:
        raise InputError(f"{path} is too long", hint=f"at most {MOST_PATH} bytes", field="--socket")
    _check_folder(path)
    if _answers(path):
        raise InputError(f"another center listens at {path}", hint="another --socket", field="--socket")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        listening.bind(str(path))
        path.chmod(0o666)
        listening.listen(backlog)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise InputError(f"cannot listen at {path}: {error.strerror}", field="--socket") from None
    return listening


def _check_folder(path: Path) -> None:
    folder = path.parent
    try:
        folder.mkdir(mode=0o755, exist_ok=True)
        # The umask of a center would deny other accounts access.
        found = folder.stat()
        if found.st_uid == os.geteuid() and not found.st_mode & 0o022:
            folder.chmod(stat.S_IMODE(found.st_mode) | 0o111)
    except OSError as error:
        raise InputError(f"{folder} cannot be used: {error.strerror}", field="--socket") from None
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        hint = "a directory that only root or this account can write in, such as /run/cress"
        raise InputError(
            f"other users can write in {folder}, and could replace the socket", hint=hint, field="--socket"
        )
    if path.exists() and not path.is_socket():
        raise InputError(f"{path} exists and is not a socket", hint="another --socket", field="--socket")


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        try:
            trial.connect(str(path))
        except OSError as error:
            return error.errno not in (errno.ENOENT, errno.ECONNREFUSED)
    return True
