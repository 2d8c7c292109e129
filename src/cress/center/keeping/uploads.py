"""Uploads: files of submitters, kept by their content until no job uses them.

``content/DIGEST`` is a complete file. ``users/USER/DIGEST`` is a second name of it for each user who has sent all of
it: a digest alone opens nothing. ``users/USER/DIGEST.SIZE.part`` is a file that is still arriving. The time of the last
change of a complete file is that of its last use.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import stat
import time
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote
from weakref import WeakValueDictionary

from cress.center.keeping.upload_room import CountedFile, UploadLimits, UploadRoom
from cress.center.settings import CenterSettings
from cress.model.errors import InputError, NotAccepted
from cress.model.resources import Measure
from cress.model.times import SECOND
from cress.model.units import format_amount
from cress.model.uploads import is_digest
from cress.protocol.file_views import UploadView

FOLDER = "uploads"
CONTENT, USERS = "content", "users"
# Seconds after which a file that stopped arriving is removed.
PART_KEPT = 3600.0
_PART = re.compile(r"([0-9a-f]{64})\.([0-9]{1,19})\.part")
_CHUNK = 1 << 20


def upload_limits(settings: CenterSettings) -> UploadLimits:
    """Return the limits in the settings of a center."""
    kept = settings.keep_uploads / SECOND
    return UploadLimits(settings.upload_file_most, settings.upload_user_most, settings.upload_most, kept)


def unshared(folder: Path | None) -> str:
    """Return what follows if several centers were given no folder for uploads, empty if they were."""
    if folder is not None:
        return ""
    return (
        "files that submitters upload are kept on this machine alone: a center that takes over lacks them, and tasks "
        "that need them fail (--uploads DIR names a folder that all centers see)"
    )


class Uploads:
    """The uploads in a folder, which is made with the first of them.

    Several centers that share a store may share the folder: files appear in it complete or not at all.
    """

    def __init__(self, folder: Path, limits: UploadLimits) -> None:
        self.folder = folder
        self.limits = limits
        # One part of a file of a user at a time; a lock lives as long as a part waits for it.
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._room = UploadRoom(limits, self._counted)

    # --- sending ------------------------------------------------------------------------------------------------------

    async def receive(self, user: str, digest: str, size: int, offset: int, data: bytes) -> UploadView:
        """Keep a part of a file; return how much is there. Raises InputError and NotAccepted.

        A part that does not begin where the file ends so far is passed over: the answer says where to go on.
        """
        lock = self._locks.setdefault((user, digest), asyncio.Lock())
        try:
            async with lock:
                return await asyncio.to_thread(self._receive, user, digest, size, offset, data)
        except OSError as error:
            raise NotAccepted(f"the center cannot keep files now: {error.strerror or error}") from None

    def _receive(self, user: str, digest: str, size: int, offset: int, data: bytes) -> UploadView:
        own = self._of_user(user)
        if _is_file(own / digest):
            os.utime(own / digest)
            return self._view(own / digest)
        if size > self.limits.file:
            hint = f"at most {_bytes(self.limits.file)} (--upload-file-most); put larger files where nodes see them"
            raise InputError(f"a file of {_bytes(size)} is too large", hint=hint, field="size")
        part = own / f"{digest}.{size}.part"
        for path in (own / digest, self.folder / CONTENT / digest, part):
            if os.path.lexists(path) and not _is_file(path):
                raise NotAccepted(
                    "what lies in its place is not a file", hint="operators find it with: cress store check"
                )
        received = part.stat().st_size if part.exists() else 0
        if not part.exists():
            if not data and size:
                return UploadView(digest=digest, size=size, received=0)
            in_total = not (self.folder / CONTENT / digest).exists()
            self._room.take(user, size, partial(self._begin, part), in_total=in_total)
        if offset == received:
            if received + len(data) > size:
                raise InputError(f"more than the {size} bytes that were announced", field="data")
            with part.open("ab") as file:
                file.write(data)
            received += len(data)
        if received < size:
            return UploadView(digest=digest, size=size, received=received)
        return self._complete(part, own / digest)

    def _begin(self, part: Path) -> None:
        for folder in (self.folder, self.folder / USERS, part.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.touch(mode=0o600)

    def _complete(self, part: Path, place: Path) -> UploadView:
        """Keep a file that has arrived, if its content is what its name says. Raises InputError."""
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        if digest != place.name:
            part.unlink()
            self._room.recount()
            raise InputError(
                f"the content has the SHA-256 {digest}, not the one that was announced",
                hint="the file was changed while it was read; send it again",
                field="digest",
            )
        content = self.folder / CONTENT
        content.mkdir(mode=0o700, exist_ok=True)
        shared = content / digest
        os.utime(part)
        with contextlib.suppress(FileExistsError):
            os.link(part, shared)
        try:
            os.link(shared, place)
        except FileNotFoundError:  # removed in this moment, since nobody used it
            os.link(part, place)
        part.unlink()
        os.utime(place)
        for folder in (content, place.parent):
            _sync(folder)
        return self._view(place)

    def _counted(self) -> Iterator[CountedFile]:
        for path in _paths(self.folder / CONTENT):
            yield CountedFile("", _size_of(path), in_total=True)
        for name in self._users():
            for path in self._files_of(name):
                yield CountedFile(name, _size_of(path), in_total=_PART.fullmatch(path.name) is not None)

    # --- reading ------------------------------------------------------------------------------------------------------

    def has(self, user: str, digest: str) -> bool:
        """Return whether a user has sent this file; this is a use of it."""
        path = self._of_user(user) / digest
        try:
            os.utime(path)
        except OSError:
            return False
        return _is_file(path)

    def path_of(self, digest: str, user: str = "") -> Path | None:
        """Return the path of a complete file, with ``user`` only of this user's; ``None`` if there is none."""
        path = (self._of_user(user) if user else self.folder / CONTENT) / digest
        return path if is_digest(digest) and _is_file(path) else None

    def of(self, user: str) -> list[UploadView]:
        """Return the complete uploads of a user, latest use first."""
        views = []
        for path in self._files_of(user):
            if is_digest(path.name):
                with contextlib.suppress(FileNotFoundError):
                    views.append(self._view(path))
        return sorted(views, key=lambda view: view.used, reverse=True)

    # --- removing -----------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was ever uploaded here."""
        return not self.folder.is_dir()

    def overdue(self) -> list[str]:
        """Return the digests of the files that were not used for long; jobs may need them nevertheless."""
        last = time.time() - self.limits.kept
        return [path.name for path in _paths(self.folder / CONTENT) if _used(path) <= last]

    def touch(self, digests: Collection[str]) -> None:
        """Note that jobs use these files, so that they stay."""
        for digest in digests:
            with contextlib.suppress(OSError):
                os.utime(self.folder / CONTENT / digest)

    def remove_unused(self, digests: Collection[str]) -> int:
        """Remove these files unless they were used since, and what stopped arriving; return the number of files."""
        last, count = time.time() - self.limits.kept, 0
        for digest in digests:
            shared = self.folder / CONTENT / digest
            if _used(shared) > last:
                continue
            with contextlib.suppress(IsADirectoryError):  # in the place of a file: see check_uploads
                for name in self._users():
                    (self._of_user(name) / digest).unlink(missing_ok=True)
                shared.unlink(missing_ok=True)
                count += 1
        for name in self._users():
            for path in self._files_of(name):
                if _PART.fullmatch(path.name) and _used(path) <= time.time() - PART_KEPT:
                    with contextlib.suppress(IsADirectoryError):
                        path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._of_user(name).rmdir()
        self._room.recount()
        return count

    # --- places -------------------------------------------------------------------------------------------------------

    def _of_user(self, user: str) -> Path:
        return self.folder / USERS / quote(user, safe="").replace(".", "%2E")

    def _users(self) -> list[str]:
        return [unquote(path.name) for path in _paths(self.folder / USERS)]

    def _files_of(self, user: str) -> Iterator[Path]:
        return _paths(self._of_user(user))

    @staticmethod
    def _view(path: Path) -> UploadView:
        known = path.stat()
        size = known.st_size
        return UploadView(digest=path.name, size=size, received=size, complete=True, used=known.st_mtime)


def check_uploads(folder: Path) -> tuple[list[str], list[str]]:
    """Check the uploads of a data directory: return the damaged files, and names that do not belong there."""
    problems, others = [], []
    for path in _paths(folder / CONTENT):
        if not is_digest(path.name):
            others.append(f"{FOLDER}/{CONTENT}/{path.name}")
            continue
        if not _is_file(path):
            problems.append(f"{path} is not a file, as it should be; move it away: its jobs must be submitted again")
            continue
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != path.name:
            problems.append(f"{path} is damaged: its SHA-256 is {found}; remove it, its jobs must be submitted again")
    for user in _paths(folder / USERS):
        problems += [
            f"{path} is not a file, as it should be; move it away: its jobs must be submitted again"
            for path in _paths(user)
            if is_digest(path.name) and not _is_file(path)
        ]
        others += [
            f"{FOLDER}/{USERS}/{user.name}/{path.name}"
            for path in _paths(user)
            if not (is_digest(path.name) or _PART.fullmatch(path.name))
        ]
    others += [f"{FOLDER}/{path.name}" for path in _paths(folder) if path.name not in (CONTENT, USERS)]
    return problems, others


def _bytes(size: int) -> str:
    return format_amount(size, Measure.BYTES)


def _paths(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        yield from sorted(folder.iterdir())


def _is_file(path: Path) -> bool:
    """Return whether a path is a file itself, not a link to one: nobody makes links in the folder of uploads."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _size_of(path: Path) -> int:
    """Return the size of a file, also of one that is still arriving."""
    part = _PART.fullmatch(path.name)
    if part is not None:
        return int(part[2])
    return path.stat().st_size if path.exists() else 0


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
