"""Uploads of submitters on the node: fetched from the center once, verified, and kept for the next attempts.

The files are in ``DIR/inputs``, which only the executor's account may enter. A stage opens them before it changes to
the account of the task.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import http.client
import os
import random
import ssl
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from cress.executor.addresses import Failed
from cress.executor.folder import remove
from cress.model.start_material import CenterAccess

FOLDER = "inputs"
# Tries to fetch a file, and seconds before the second one, doubled for each further one.
TRIES, BACKOFF = 6, 0.5
# Seconds: the timeout of a connection, and between two bytes. Seconds after its last use, for which a file is kept.
SILENCE, KEPT = 60.0, 86_400.0
_CHUNK = 1 << 20


class _Passing(Exception):
    """Error: another try, perhaps at another center, may help."""


def open_inputs(digests: Iterable[str], home: Path, access: CenterAccess | None) -> dict[str, int]:
    """Return an open descriptor of each file by digest; what the node lacks is fetched first. Raise Failed."""
    folder = home / FOLDER
    opened: dict[str, int] = {}
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for digest in dict.fromkeys(digests):
            opened[digest] = _open(folder, digest, access)
        _remove_old(folder)
    except OSError as error:
        node = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "no room is left on the disk of this node" if node else f"{folder}: {error.strerror or error}"
        raise Failed(why, node=node) from None
    return opened


def _open(folder: Path, digest: str, access: CenterAccess | None) -> int:
    path = folder / digest
    while True:
        part = folder / f"{digest}.part"
        for place in (path, part):
            with contextlib.suppress(FileNotFoundError):  # also since another attempt has renamed it in this moment
                if not stat.S_ISREG(place.lstat().st_mode):
                    remove(place)  # what somebody has put in the place of a file; it is fetched again
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            os.utime(fd)
            return fd
        if access is None:
            raise Failed("the center has sent no access to uploads; its release may be older than that of this node")
        fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # Attempts that start together fetch a file once. Another one may have finished or removed it meanwhile.
            fcntl.flock(fd, fcntl.LOCK_EX)
            if part.exists() and part.stat().st_ino == os.fstat(fd).st_ino:
                _fetch(digest, fd, access)
                os.fsync(fd)
                part.rename(path)
        finally:
            os.close(fd)


def _fetch(digest: str, fd: int, access: CenterAccess) -> None:
    """Fetch the rest of a file, from the first center that has it. Raise Failed and OSError."""
    context = ssl.create_default_context(cadata=access.ca or None)
    urls, why = access.urls.split(","), ""
    for tried in range(TRIES):
        url = urls[tried % len(urls)]
        try:
            for data in _content(url, digest, os.lseek(fd, 0, os.SEEK_END), access.token, context):
                os.write(fd, data)
        except _Passing as error:
            why = str(error)
        except (http.client.HTTPException, ssl.SSLError, ConnectionError, TimeoutError) as error:
            why = f"the center at {url} cannot be reached: {error}"
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS):
                raise
            why = f"the center at {url} cannot be reached: {error.strerror or error}"
        else:
            os.lseek(fd, 0, os.SEEK_SET)
            with os.fdopen(os.dup(fd), "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == digest:
                    return
            os.ftruncate(fd, 0)
            why = "what the center sent has another SHA-256"
        if tried < TRIES - 1:
            time.sleep(BACKOFF * 2**tried * random.uniform(0.7, 1.0))  # noqa: S311
    raise Failed(f"{why} ({TRIES} tries)")


def _content(url: str, digest: str, offset: int, token: str, context: ssl.SSLContext) -> Iterator[bytes]:
    """Yield a file from ``offset`` on. Raise Failed, _Passing, and errors of the connection."""
    place = urlsplit(url)
    connection: http.client.HTTPConnection
    if place.scheme == "https":
        connection = http.client.HTTPSConnection(place.hostname or "", place.port, timeout=SILENCE, context=context)
    else:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=SILENCE)
    with contextlib.closing(connection):
        path = f"/v1/uploads/{digest}/content?offset={offset}"
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            said = _said(answer.read(65_536)) or f"the center answers {answer.status} {answer.reason}"
            if answer.status in (http.client.NOT_FOUND, http.client.FORBIDDEN):
                raise Failed(said)
            raise _Passing(said)
        while data := answer.read(_CHUNK):
            yield data


def _said(body: bytes) -> str:
    with contextlib.suppress(msgspec.MsgspecError):
        return str(msgspec.json.decode(body, type=dict[str, object]).get("message", ""))
    return ""


def _remove_old(folder: Path) -> None:
    """Remove files that no attempt has used for long; one that is open stays readable. What cannot be removed stays."""
    last = time.time() - KEPT
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < last:
                remove(path)
