"""A shared log in ZooKeeper.

Below the root are ``id``, ``lead`` and ``centers`` (see ``zookeeper_lead``), ``fence`` (the newest epoch; each append
names its version), ``log/BUCKET/NUMBER`` (the entries), ``checkpoint`` (the newest one), ``checkpoints/PLACE/PIECE``,
and ``parts/PLACE/PIECE`` for entries that are too large for one node. No node has more than a few thousand children.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from cress.store.base import Checkpoint, Damaged, Fenced, StoreError
from cress.store.shared_log import Head, LogUnreachable, Trimmed, another
from cress.store.zookeeper_lead import LOST, ZooKeeperLead

# Number of entries in a bucket.
BUCKET = 1000
# Maximum size of a node in bytes: ZooKeeper refuses a request of 1 MB.
NODE = 500_000
# Maximum time of an operation in seconds, including reconnections.
PATIENCE = 6.0
# Maximum number of concurrent requests, and of large ones, for which commits wait.
AT_ONCE, LARGE_AT_ONCE = 64, 2
# Seconds after which the servers give up a center; they may only agree to more.
SESSION = 4.0
# The longest pause (s) before another try at all servers, since the lead is lost with the session; the fraction of a
# session for a connection to one of them.
LONGEST_PAUSE, CONNECT = 0.25, 1 / 6
# Lost connections show as errors of the operations that needed them.
_quiet = logging.getLogger("cress.zookeeper")
_quiet.setLevel(logging.CRITICAL)

_T = TypeVar("_T")


class _Fence(msgspec.Struct, array_like=True):
    epoch: int = 0


class _Newest(msgspec.Struct, array_like=True):
    """The newest checkpoint, as in ``Checkpoint``; ``before`` is the last entry that the previous one covers."""

    number: int = 0
    place: str = ""
    pieces: int = 0
    before: int = 0
    entry: int = 0


class _Pieces(msgspec.Struct, array_like=True):
    place: str
    pieces: int


# The first byte of a node with a whole entry, and of one that refers to the pieces of an entry.
_PLAIN, _IN_PARTS = b"e", b"p"


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Waits at most ``seconds`` for a connection to one server: kazoo waits a whole session for one that is cut off."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._socket: socket.socket | None = None

    def create_connection(self, *words: Any, timeout: float, **more: Any) -> socket.socket:
        """Return a connected socket."""
        connected: socket.socket = super().create_connection(*words, timeout=min(timeout, self._seconds), **more)
        self._socket = connected
        return connected

    def drop(self) -> None:
        """Break the connection: the session goes on at another server, and what was under way is tried again."""
        with contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)


class ZooKeeperLog:
    """A ``SharedLog`` below ``root`` of the servers ``hosts`` (``host:port,…``).

    ``login`` is ``user:password``, ``session`` the time (s) after which the servers give up a center, ``patience`` the
    maximum time (s) of an operation.
    """

    def __init__(
        self, hosts: str, root: str, login: str = "", session: float = SESSION, patience: float = PATIENCE
    ) -> None:
        self.name = f"zookeeper://{hosts}{root}"
        self._root = root
        self._session, self._patience = session, patience
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=LONGEST_PAUSE)
        user, _, password = login.partition(":")
        acl = [make_digest_acl(user, password, all=True)] if login else None
        self._handler = _Handler(session * CONNECT)
        self.client = KazooClient(
            hosts,
            timeout=session,
            connection_retry=retry,
            logger=_quiet,
            handler=self._handler,
            auth_data=[("digest", login)] if login else None,
            default_acl=acl,
        )
        self._fence_version = self._epoch = -1
        self._news = threading.Event()
        self._awaited = 0
        try:
            self.client.start(timeout=self._patience)
        except KazooTimeoutError:
            self.client.stop()
            self.client.close()
            raise LogUnreachable(f"no server of {self.name} answers within {self._patience:.0f} s") from None
        try:
            self._make_tree()
        except BaseException:
            self.close()
            raise

    def lead(self, address: str) -> ZooKeeperLead:
        """See ``SharedLog.lead``."""
        places = self._path("lead"), self._path("centers")
        return ZooKeeperLead(self.client, *places, address, self._session, self._handler.drop)

    def close(self) -> None:
        """End the session."""
        with contextlib.suppress(KazooException, KazooTimeoutError):
            self.client.stop()
            self.client.close()

    # --- reading -------------------------------------------------------------------------------------------------

    def head(self) -> Head:
        """See ``SharedLog.head``."""
        # The server of this session may be behind the others.
        self._again(lambda: self.client.sync_async(self._root or "/"))
        self._read_fence()
        newest = self._newest()
        return Head(self._get("id")[0].decode("ascii"), self._epoch, self._last(newest.number), newest.number)

    def _read_fence(self) -> None:
        data, stat = self._get("fence")
        self._epoch, self._fence_version = _decoded(data, _Fence, self.name).epoch, stat.version

    def _newest(self) -> _Newest:
        return _decoded(self._get("checkpoint")[0], _Newest, self.name)

    def _last(self, least: int) -> int:
        """Return the number of the last entry."""
        for bucket in sorted(self._children("log"), reverse=True):
            if numbers := self._children(f"log/{bucket}"):
                return max(map(int, numbers))
        return least

    def entries(self, after: int) -> Iterator[bytes]:
        """See ``SharedLog.entries``."""
        number = after + 1
        while True:
            bucket = number // BUCKET
            try:
                present = {int(child) for child in self._children(f"log/{bucket:010d}")}
            except NoNodeError:
                present = set()
            wanted = range(number, (bucket + 1) * BUCKET)
            until = next((entry for entry in wanted if entry not in present), wanted.stop)
            if until == number:
                if number > self._last(0):
                    return
                # It may have been added after the look at its bucket.
                if self._again(partial(self.client.exists_async, self._path(_entry(number)))) is None:
                    raise Trimmed(f"{self.name} does not go back to entry {number}")
                continue
            for first in range(number, until, AT_ONCE):
                paths = [_entry(entry) for entry in range(first, min(first + AT_ONCE, until))]
                try:
                    for data in self._get_all(paths):
                        yield self._whole(data)
                except NoNodeError:
                    raise Trimmed(f"{self.name} has been shortened") from None
            number = until

    def wait(self, after: int, seconds: float) -> bool:
        """See ``SharedLog.wait``: ZooKeeper reports the next entry."""
        if self._awaited != after + 1:
            self._news.clear()
            self._awaited = after + 1
            if self._again(lambda: self.client.exists_async(self._path(_entry(after + 1)), self._note)) is not None:
                self._news.set()
        return self._news.wait(seconds)

    def _note(self, _: object) -> None:
        self._awaited = 0
        self._news.set()

    def _whole(self, data: bytes) -> bytes:
        if data[:1] != _IN_PARTS:
            return data[1:]
        parts = _decoded(data[1:], _Pieces, self.name)
        return b"".join(self._pieces(f"parts/{parts.place}", parts.pieces))

    def checkpoint(self) -> tuple[Checkpoint, Iterator[bytes]]:
        """See ``SharedLog.checkpoint``."""
        newest = self._newest()
        if not newest.number:
            raise Damaged(f"{self.name} begins with missing entries, and has no checkpoint")
        found = Checkpoint(newest.number, newest.place, newest.pieces, newest.entry or newest.number)
        return found, self._checkpoint(found)

    def _checkpoint(self, found: Checkpoint) -> Iterator[bytes]:
        try:
            yield from _joined(self._pieces(f"checkpoints/{found.place}", found.pieces))
        except NoNodeError:
            raise Trimmed("there is a newer checkpoint") from None

    def _pieces(self, place: str, count: int) -> Iterator[bytes]:
        for first in range(0, count, AT_ONCE):
            yield from self._get_all([f"{place}/{number:06d}" for number in range(first, min(first + AT_ONCE, count))])

    # --- writing -------------------------------------------------------------------------------------------------

    def append(self, number: int, entry: bytes, epoch: int, checkpoint: Checkpoint | None = None) -> None:
        """See ``SharedLog.append``."""
        if checkpoint is None:
            self._append(number, self._fitting(number, entry), epoch)
            return
        before = self._newest()
        newest = _Newest(checkpoint.number, checkpoint.place, checkpoint.pieces, before.number, number)
        self._append(number, self._fitting(number, entry), epoch, newest)
        with contextlib.suppress(StoreError, NoNodeError):
            self._trim(newest)

    def _fitting(self, number: int, entry: bytes) -> bytes:
        """Return the data of an entry's node; a large entry is stored in pieces first."""
        if len(entry) < NODE:
            return _PLAIN + entry
        place = _place(number)
        pieces = [entry[at : at + NODE] for at in range(0, len(entry), NODE)]
        count = self._put_pieces(f"parts/{place}", pieces)
        return _IN_PARTS + msgspec.msgpack.encode(_Pieces(place, count))

    def _append(self, number: int, data: bytes, epoch: int, newest: _Newest | None = None) -> None:
        if self._epoch < 0:
            self._read_fence()
        if epoch < self._epoch:
            raise Fenced(epoch, self._epoch)
        if number % BUCKET == 0 or newest is not None:
            self._make(f"log/{number // BUCKET:010d}")
        deadline = time.monotonic() + self._patience
        in_doubt = False
        while True:
            change = self.client.transaction()
            self._fill(change, number, data, epoch, newest)
            try:
                results = self._once(change.commit_async())
            except LOST:
                in_doubt = True
                if time.monotonic() >= deadline:
                    raise LogUnreachable(f"{self.name} does not answer") from None
                continue
            failed = next(
                (result for result in results if isinstance(result, KazooException) and not _follows(result)), None
            )
            if failed is None:
                if epoch > self._epoch:
                    self._epoch, self._fence_version = epoch, results[0].version
                return
            if in_doubt and self._is_there(number, data):
                self._read_fence()
                return
            self._refuse(failed, number, epoch)

    def _fill(self, change: TransactionRequest, number: int, data: bytes, epoch: int, newest: _Newest | None) -> None:
        if epoch == self._epoch:
            change.check(self._path("fence"), self._fence_version)
        else:
            change.set_data(self._path("fence"), msgspec.msgpack.encode(_Fence(epoch)), self._fence_version)
        change.create(self._path(_entry(number)), data)
        if newest is not None:
            change.set_data(self._path("checkpoint"), msgspec.msgpack.encode(newest))

    def _is_there(self, number: int, data: bytes) -> bool:
        try:
            return self._get(_entry(number))[0] == data
        except NoNodeError:
            return False

    def _refuse(self, failed: KazooException, number: int, epoch: int) -> None:
        if isinstance(failed, BadVersionError):
            self._read_fence()
            raise Fenced(epoch, self._epoch)
        if isinstance(failed, NodeExistsError):
            raise another(self.name, number)
        raise StoreError(f"{self.name} refuses a change: {_said(failed)}")

    def put_checkpoint(self, number: int, pieces: Iterable[bytes]) -> Checkpoint:
        """See ``SharedLog.put_checkpoint``."""
        place = _place(number)
        return Checkpoint(number, place, self._put_pieces(f"checkpoints/{place}", _cut(pieces)))

    def _trim(self, newest: _Newest) -> None:
        """Remove older checkpoints, and the entries that the previous one covers. The next checkpoint repeats this.

        Behind the fence: a center that slept meanwhile would take the new leader's checkpoint for an older one.
        """
        for place in self._children("checkpoints"):
            if place != newest.place:
                self._remove(f"checkpoints/{place}")
        for place in self._children("parts"):
            if int(place.partition("-")[0]) <= newest.before:
                self._remove(f"parts/{place}")
        last = newest.before // BUCKET
        for bucket in sorted(self._children("log")):
            if int(bucket) < last:
                self._remove(f"log/{bucket}")
            elif int(bucket) == last:
                old = [name for name in self._children(f"log/{bucket}") if int(name) <= newest.before]
                self._delete_all([f"log/{bucket}/{name}" for name in sorted(old)])

    # --- nodes -----------------------------------------------------------------------------------------------------

    def _make_tree(self) -> None:
        nodes = {
            "": b"",
            "fence": msgspec.msgpack.encode(_Fence()),
            "checkpoint": msgspec.msgpack.encode(_Newest()),
            "checkpoints": b"",
            "parts": b"",
            "centers": b"",
            "log": b"",
            f"log/{0:010d}": b"",
            "id": secrets.token_hex(8).encode("ascii"),
        }
        for path, data in nodes.items():
            self._make(path, data)

    def _make(self, path: str, data: bytes = b"") -> None:
        with contextlib.suppress(NodeExistsError):
            self._again(lambda: self.client.create_async(self._path(path), data, makepath=not path))

    def _put_pieces(self, place: str, pieces: Iterable[bytes]) -> int:
        """Put pieces below ``place``, several at a time; return their number."""
        self._make(place)
        count = 0
        for group in _groups(pieces, LARGE_AT_ONCE):
            waiting = [
                (at, piece, self.client.create_async(self._path(f"{place}/{at:06d}"), piece))
                for at, piece in enumerate(group, count)
            ]
            for at, piece, result in waiting:
                try:
                    self._once(result)
                except NodeExistsError:
                    pass
                except LOST:
                    self._make(f"{place}/{at:06d}", piece)
            count += len(group)
        return count

    def _remove(self, place: str) -> None:
        try:
            self._delete_all([f"{place}/{name}" for name in self._children(place)])
        except NoNodeError:
            return
        self._delete_all([place])

    def _delete_all(self, paths: Sequence[str]) -> None:
        """Delete nodes while the epoch of the last entry is the newest. Raises ``Fenced``."""
        for first in range(0, len(paths), AT_ONCE):
            self._delete(paths[first : first + AT_ONCE])

    def _delete(self, paths: Sequence[str]) -> None:
        change = self.client.transaction()
        change.check(self._path("fence"), self._fence_version)
        for path in paths:
            change.delete(self._path(path))
        try:
            results = self._once(change.commit_async())
        except LOST:
            return
        failed = next(
            (result for result in results if isinstance(result, KazooException) and not _follows(result)), None
        )
        if isinstance(failed, BadVersionError):
            raise Fenced(self._epoch, self._epoch + 1)
        if failed is not None and len(paths) > 1:
            # One of them is deleted already.
            for path in paths:
                self._delete([path])

    def _children(self, path: str) -> list[str]:
        found: list[str] = self._again(lambda: self.client.get_children_async(self._path(path)))
        return found

    def _get(self, path: str) -> tuple[bytes, Any]:
        found: tuple[bytes, Any] = self._again(lambda: self.client.get_async(self._path(path)))
        return found

    def _get_all(self, paths: Sequence[str]) -> list[bytes]:
        waiting = [self.client.get_async(self._path(path)) for path in paths]
        found: list[bytes] = []
        for path, result in zip(paths, waiting, strict=True):
            try:
                found.append(self._once(result)[0])
            except LOST:
                found.append(self._get(path)[0])
        return found

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/") or "/"

    def _again(self, begin: Callable[[], Any]) -> Any:
        """Return the result of a repeatable operation.

        Raises ``LogUnreachable``, NoNodeError, NodeExistsError.
        """
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._once(begin())
            except LOST:
                if time.monotonic() >= deadline:
                    raise LogUnreachable(f"{self.name} does not answer") from None
                time.sleep(0.02)

    def _once(self, result: Any) -> Any:
        try:
            return result.get(timeout=self._patience)
        except (*LOST, NoNodeError, NodeExistsError):
            raise
        except KazooException as error:
            raise StoreError(f"{self.name}: {_said(error)}") from error


def _entry(number: int) -> str:
    return f"log/{number // BUCKET:010d}/{number:020d}"


def _place(number: int) -> str:
    """Return a new name for the pieces of an entry, never used by an earlier change in doubt."""
    return f"{number}-{secrets.token_hex(8)}"


def _follows(error: KazooException) -> bool:
    """Return whether an operation failed only because another one in its transaction did."""
    return isinstance(error, RolledBackError | RuntimeInconsistency)


def _said(error: KazooException) -> str:
    return str(error) or type(error).__name__


def _decoded(data: bytes, kind: type[_T], name: str) -> _T:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError:
        raise Damaged(f"{name} was written by another version of Cress, or is damaged") from None


def _cut(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces that fit a node: the input pieces one after the other, each with its length in front."""
    waiting = bytearray()
    for piece in pieces:
        waiting += len(piece).to_bytes(4, "little") + piece
        while len(waiting) >= NODE:
            yield bytes(waiting[:NODE])
            del waiting[:NODE]
    if waiting:
        yield bytes(waiting)


def _joined(nodes: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the input pieces of ``_cut``."""
    waiting = bytearray()
    for node in nodes:
        waiting += node
        while len(waiting) >= 4 and len(waiting) >= 4 + (size := int.from_bytes(waiting[:4], "little")):
            yield bytes(waiting[4 : 4 + size])
            del waiting[: 4 + size]
    if waiting:
        raise Damaged("a checkpoint is not complete")


def _groups(pieces: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    for piece in pieces:
        group.append(piece)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group
