"""Regular files: everything that Cress reads by itself. A named pipe or a device in their place would hold it up.

A descriptor that a shell hands over (`--token-file <(vault read …)`, `/dev/stdin`) is no file, but has a writer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotRegularError(OSError):
    """Error: the path is neither a file nor a folder; ``kind`` says what it is."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}, not a file", str(path))
        self.kind = kind


def kind_of(mode: int) -> str:
    """Return what has this ``st_mode``, such as "a named pipe"; empty for a file or a folder."""
    return next((kind for is_one, kind in _KINDS if is_one(mode)), "")


def check_regular(path: Path) -> None:
    """Raise NotRegularError for what is neither a file nor a folder, and OSError for what is not there.

    It is for files that a library opens by their names.
    """
    if not _is_handed_over(path):
        _check(path, path.stat())


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Return a descriptor of a file; it never waits. Raises OSError, also for a folder.

    It raises NotRegularError before anything is opened.
    """
    try:
        check_regular(path)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    if _is_handed_over(path):
        return os.open(path, flags & ~os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    try:
        # The path may have another file by now.
        status = os.fstat(fd)
        _check(path, status)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    except OSError:
        os.close(fd)
        raise
    return fd


def read_regular(path: Path, most: int = -1) -> bytes:
    """Return the content of a file, at most the first ``most`` bytes if that is not negative. Raises OSError."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read(most)


def not_regular(folder: Path, inner: Sequence[str] = ()) -> Iterator[NotRegularError]:
    """Yield an error for each pipe, device and socket in a folder, and for all below its folders ``inner``.

    Sockets whose names end with ``.sock`` are left out. The folders may be links.
    """
    paths: list[Path] = []
    with contextlib.suppress(OSError):
        paths += folder.iterdir()
    for place in inner:
        paths += (Path(parent, name) for parent, _, names in os.walk(folder / place) for name in names)
    for path in paths:
        try:
            kind = kind_of(path.stat().st_mode)
        except OSError:
            continue
        if kind and not (kind == "a socket" and path.suffix == ".sock"):
            yield NotRegularError(path, kind)


def _is_handed_over(path: Path) -> bool:
    """Return whether a path is that of a descriptor of this process, such as ``/dev/fd/63``."""
    parent = os.path.realpath(path.parent)
    return (path.name.isdigit() and parent == f"/proc/{os.getpid()}/fd") or str(path) == "/dev/stdin"


def _check(path: Path, status: os.stat_result) -> None:
    if kind := kind_of(status.st_mode):
        raise NotRegularError(path, kind)
