"""The data directory: private to its owner, used by one center at a time, with the address of that center."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from cress.center.keeping.file_names import ADDRESS, API_SOCKET, EXECUTOR_SOCKET, LOCK
from cress.center.keeping.files_table import irregular
from cress.model.errors import InputError
from cress.protocol.regular_files import NotRegularError


class ListenAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address at which a center listens; the content of ``center.json``.

    ``socket`` and ``executor_socket`` are the names of its Unix sockets in the data directory.
    """

    url: str
    executor_url: str
    pid: int
    socket: str = API_SOCKET
    executor_socket: str = EXECUTOR_SOCKET


class DataDirectory:
    """A data directory that this process holds until ``close``."""

    def __init__(self, path: Path) -> None:
        """Make the directory if needed, and lock it. Raises InputError, also when another center holds it."""
        self.path = path
        try:
            # Executors of root may have their directories in it, and tasks of other accounts pass through to their own
            # files. The center's files are protected by their own modes.
            mode = 0o711 if os.geteuid() == 0 else 0o700
            path.mkdir(mode=mode, parents=True, exist_ok=True)
            if stat.S_IMODE(path.stat().st_mode) & 0o077 != mode & 0o077:
                path.chmod(mode)
            self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except IsADirectoryError as error:
            raise _in_the_way(path / LOCK, error) from None
        except OSError as error:
            raise InputError(f"the data directory cannot be used: {error.strerror}", file=str(path)) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise InputError(self._holder(), hint="one center for each data directory") from None
        try:
            self._check_places()
            self._hide_address()
        except NotRegularError as error:
            os.close(self._lock)
            raise InputError(f"it is {error.kind}, not a file", hint="move it away", file=str(error.filename)) from None
        except OSError as error:
            os.close(self._lock)
            raise _in_the_way(Path(error.filename or path / ADDRESS), error) from None

    def _holder(self) -> str:
        try:
            address = msgspec.json.decode((self.path / ADDRESS).read_bytes(), type=ListenAddress)
        except (OSError, msgspec.MsgspecError):
            return f"another center is starting or stopping on {self.path}"
        return f"a center runs on {self.path} already: process {address.pid}, at {address.url}"

    def listen(self, name: str, backlog: int) -> socket.socket:
        """Return a Unix socket that listens in the directory, for its owner only. Raises InputError."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            (self.path / name).unlink(missing_ok=True)
            # The path of a socket has at most 107 bytes, but the path of the directory may be longer.
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                listening.bind(f"/proc/self/fd/{folder}/{name}")
            finally:
                os.close(folder)
            (self.path / name).chmod(0o600)
            listening.listen(backlog)
            listening.setblocking(False)
        except OSError as error:
            listening.close()
            raise _in_the_way(self.path / name, error) from None
        return listening

    def announce(self, address: ListenAddress) -> None:
        """Write the center's address, so that a reader sees all of it or nothing. Raises OSError.

        It replaces the old address in the same blocks, so a full disk does not prevent it.
        """
        text = msgspec.json.encode(address) + b"\n"
        handle = os.open(self._hidden, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(handle, 0o600)
            if os.pwrite(handle, text, 0) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.ftruncate(handle, len(text))
        finally:
            os.close(handle)
        self._hidden.replace(self.path / ADDRESS)

    @property
    def _hidden(self) -> Path:
        return self.path / f".{ADDRESS}.new"

    def _hide_address(self) -> None:
        """Hide the address, so that clients do not use it; the file keeps its blocks for the next address."""
        with suppress(FileNotFoundError):
            (self.path / ADDRESS).replace(self._hidden)

    def _check_places(self) -> None:
        """Raise OSError for what would hold up the center or a file that it makes, before anything is begun."""
        for error in irregular(self.path):
            raise error
        for place in (self.path / ADDRESS, self._hidden, self.path / API_SOCKET, self.path / EXECUTOR_SOCKET):
            if place.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(place))

    def close(self) -> None:
        """Release the directory."""
        with suppress(OSError):
            self._hide_address()
            for name in (API_SOCKET, EXECUTOR_SOCKET):
                (self.path / name).unlink(missing_ok=True)
        os.close(self._lock)


def _in_the_way(path: Path, error: OSError) -> InputError:
    what = "it is a directory" if path.is_dir() else f"it cannot be used: {error.strerror}"
    return InputError(what, hint="move it away, the center makes the file again", file=str(path))
