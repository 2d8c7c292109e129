r"""Files in the directories of attempts, for their submitters: listed and read as the account of the task.

The folder of an attempt belongs to its task, which may replace everything in it at any moment. So each part of a path
is opened from the folder before it, no link is followed, and all of it happens with the rights of the task's account.
A name need not be UTF-8, but messages are: it is shown, and taken, with ``\xff`` for each byte that is not.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from cress.executor.brought import BROUGHT
from cress.executor.runtimes import linux
from cress.protocol.file_views import MOST_LISTED, TaskFile
from cress.protocol.messages import FileList, ListFiles, LogData, ReadFile

WORK = "work"
# Most bytes in one answer.
MOST = 1 << 20
# Most levels of folders, each with an open descriptor; most entries of one folder; most bytes of a path. A program can
# make more, which would occupy the agent, or which no message holds.
MOST_LEVELS, MOST_ENTRIES, MOST_PATH = 100, 200_000, 4_096
# Most names that are held at the same time, of a folder and of those above it.
MOST_HELD = 400_000
# Most bytes in a message; some file systems have larger files, which are holes.
MOST_SIZE = 1 << 62
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_T = TypeVar("_T")


class _Refused(Exception):
    """Error: the files may not or cannot be read; the message is for users."""


class _Root(NamedTuple):
    """The open directory of an attempt, and the time (ns) until which its input files were brought."""

    fd: int
    brought: int


def list_files(attempts: Path, order: ListFiles, contained: Callable[[str], bool]) -> FileList:
    """Return a page of the files of an attempt; ``contained``: a job with this runtime runs in a container here."""

    def work(root: _Root) -> FileList:
        limit, found = min(max(order.limit, 1), MOST_LISTED), list[TaskFile]()
        last = root.brought if order.written else 0
        for file in _files(root.fd, _words(order.path), _words(order.after), last):
            if len(found) == limit:
                return FileList(id=order.id, files=tuple(found), more=True)
            found.append(file)
        return FileList(id=order.id, files=tuple(found))

    try:
        return _in_directory(attempts, order, contained, work)
    except (_Refused, OSError) as error:
        return FileList(id=order.id, error=_why(error))


def read_file(attempts: Path, order: ReadFile, contained: Callable[[str], bool]) -> LogData:
    """Return a part of a file of an attempt."""

    def work(root: _Root) -> LogData:
        limit = max(1, min(order.limit, MOST))
        with _opened(root.fd, _words(order.path), _FILE) as fd:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise _Refused(f"{order.path} is not a file")
            data = os.pread(fd, limit, order.offset)
            return LogData(id=order.id, data=data, over=order.offset + len(data) >= status.st_size)

    try:
        return _in_directory(attempts, order, contained, work)
    except (_Refused, OSError) as error:
        return LogData(id=order.id, over=True, error=_why(error))


def _in_directory(
    attempts: Path, order: ListFiles | ReadFile, contained: Callable[[str], bool], work: Callable[[_Root], _T]
) -> _T:
    """Return the result of ``work`` in the directory of an attempt, done as the account of its task."""
    folder = attempts / str(int(order.attempt))
    try:
        owner = folder.lstat()
    except FileNotFoundError:
        raise _Refused(f"nothing is kept of attempt {order.attempt} on this node") from None
    uid, gid = owner.st_uid, owner.st_gid
    if order.directory:
        if contained(order.runtime):
            raise _Refused(
                f"the task ran in a container with the directory {order.directory}, where only `outputs` find its files"
            )
        return _as_account(uid, gid, lambda: _with_root(order.directory, 0, work))
    # The executor's folder may be closed to the account of the task, so its own part of the way is opened before.
    fd = _open_own(folder, uid)
    try:
        brought = 0
        with contextlib.suppress(FileNotFoundError):
            brought = (folder / BROUGHT).lstat().st_mtime_ns
        return _as_account(uid, gid, lambda: work(_Root(fd, brought)))
    finally:
        os.close(fd)


def _open_own(folder: Path, uid: int) -> int:
    try:
        fd = os.open(folder / WORK, _FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        raise _Refused("the task left no files in its directory, or they are no longer kept") from None
    if os.fstat(fd).st_uid != uid:
        os.close(fd)
        raise _Refused("the directory of the task belongs to another account")
    return fd


def _with_root(directory: str, brought: int, work: Callable[[_Root], _T]) -> _T:
    # Links on the way to the directory of the job are those that its program followed, too.
    fd = _checked(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), directory)
    try:
        return work(_Root(fd, brought))
    finally:
        os.close(fd)


def _checked(fd: int, name: str) -> int:
    """Return an open file or folder. Raise _Refused for one about processes: a task sees those of its account only."""
    if not linux.shows_processes(fd):
        return fd
    os.close(fd)
    raise _Refused(f"{name} shows processes of the node, and is no file of a task")


def _as_account(uid: int, gid: int, work: Callable[[], _T]) -> _T:
    """Return the result of ``work``, done in a thread that has the rights of an account if this process is root."""
    if os.geteuid() != 0 or uid == 0:
        return work()
    result: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            linux.take_file_rights(uid, gid, _groups_of(uid, gid))
            result.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            errors.append(error)

    # A thread of its own, since the rights stay with it until it ends.
    thread = threading.Thread(target=run, name="files of a task")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return result[0]


def _groups_of(uid: int, gid: int) -> list[int]:
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return [gid]


def _words(path: str) -> list[str]:
    """Return the parts of a relative path. Raise _Refused for one that leads elsewhere."""
    words = [word for word in path.split("/") if word not in ("", ".")]
    if path.startswith("/") or ".." in words or "\0" in path:
        raise _Refused(f"{path} is not a path in the directory of the task")
    return words


@contextlib.contextmanager
def _opened(root: int, words: list[str], flags: int) -> Iterator[int]:
    """Open a path part by part from an open folder. No link is followed."""
    fd = os.dup(root)
    try:
        for place, word in enumerate(words):
            following = _checked(_open_shown(word, flags if place == len(words) - 1 else _FOLDER, fd), word)
            os.close(fd)
            fd = following
        yield fd
    finally:
        os.close(fd)


def _files(root: int, path: list[str], after: list[str], brought: int) -> Iterator[TaskFile]:
    """Yield the files at a path or below it, in the order of their paths, after the path ``after``."""
    if not path:
        yield from _below(root, [], after, brought)
        return
    with _opened(root, path[:-1], _FOLDER) as parent:
        name = _name_shown_as(path[-1], parent)
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            if path > after:
                yield from _entry(parent, name, path, status, brought)
            return
    with _opened(root, path, _FOLDER) as folder:
        yield from _below(folder, path, after, brought)


def _below(folder: int, words: list[str], after: list[str], brought: int, held: int = 0) -> Iterator[TaskFile]:
    """Yield the files below a folder; ``held`` names of the folders above it are held meanwhile."""
    names = _names_in(folder, words, held)
    held += len(names)
    for word, name in names:
        place = [*words, word]
        # All below a folder comes after the folder itself, and before its next neighbour.
        if place < after[: len(place)]:
            continue
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                if place > after:
                    yield from _entry(folder, name, place, status, brought)
                continue
            inner = _checked(os.open(name, _FOLDER, dir_fd=folder), word)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # changed in this moment, or closed by the task
        try:
            with os.scandir(inner) as entries:
                is_empty = next(entries, None) is None
            if is_empty and place > after and status.st_ctime_ns > brought:
                yield TaskFile("/".join(place), 0, stat.S_IMODE(status.st_mode), status.st_mtime, folder=True)
            yield from _below(inner, place, after, brought, held)
        finally:
            os.close(inner)


def _names_in(folder: int, words: list[str], held: int) -> list[tuple[str, str]]:
    """Return the entries of a folder in order, each as it is shown and as the kernel knows it. Raise _Refused."""
    names: list[tuple[str, str]] = []
    where = "/".join(words)[:200] or "the directory"
    with os.scandir(folder) as entries:
        for entry in entries:
            names.append((_shown(entry.name), entry.name))
            if len(names) > MOST_ENTRIES:
                raise _Refused(f"{where} has more than {MOST_ENTRIES:,} entries; pack them into one file")
            if held + len(names) > MOST_HELD:
                raise _Refused(f"{where} and the folders above it have more than {MOST_HELD:,} entries; pack them")
    if names and len(words) >= MOST_LEVELS:
        raise _Refused(f"{'/'.join(words[:3])[:200]} has folders below it on more than {MOST_LEVELS} levels; pack them")
    return sorted(names)


def _entry(folder: int, name: str, words: list[str], status: os.stat_result, brought: int) -> Iterator[TaskFile]:
    if status.st_ctime_ns <= brought:
        return
    path, mode = "/".join(words), stat.S_IMODE(status.st_mode)
    link = _shown(os.readlink(name, dir_fd=folder)) if stat.S_ISLNK(status.st_mode) else ""
    if max(len(path.encode()), len(link.encode())) > MOST_PATH:
        what = f"the path {path[:200]}, or where it leads, has more than {MOST_PATH:,} bytes"
        raise _Refused(f"{what}; pack what is below it into one file")
    if stat.S_ISLNK(status.st_mode):
        yield TaskFile(path, 0, mode, status.st_mtime, link)
    elif stat.S_ISREG(status.st_mode):
        yield TaskFile(path, min(status.st_size, MOST_SIZE), mode, status.st_mtime)


def _shown(name: str) -> str:
    r"""Return a name in UTF-8, with ``\xff`` for each byte that is not."""
    return name if name.isascii() else os.fsencode(name).decode(errors="backslashreplace")


def _name_shown_as(word: str, folder: int) -> str:
    """Return the name of the entry of a folder that is shown as ``word``: this name itself, if there is one."""
    if "\\x" not in word:
        return word
    with os.scandir(folder) as entries:
        found = {entry.name for entry in islice(entries, MOST_ENTRIES) if _shown(entry.name) == word}
    return word if word in found else min(found, default=word)


def _open_shown(word: str, flags: int, folder: int) -> int:
    return os.open(_name_shown_as(word, folder), flags, dir_fd=folder)


def _why(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "it"
    words = {
        errno.ENOENT: f"{name} does not exist there",
        errno.ELOOP: f"{name} is a link, which is not followed",
        errno.ENOTDIR: f"{name} is not a folder, or a link to one",
        errno.EACCES: f"the account of the task may not read {name}",
    }
    return words.get(error.errno or 0, f"{name}: {error.strerror or error}")
