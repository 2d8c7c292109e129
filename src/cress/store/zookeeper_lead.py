"""The lead in ZooKeeper: a node that vanishes with the session of its center."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from cress.store.base import StoreError
from cress.store.lead import boottime
from cress.store.shared_log import LogUnreachable

_T = TypeVar("_T")

# Errors after which the result of an operation is unknown.
LOST = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, OperationTimeoutError, KazooTimeoutError)
# The fraction of a session on which the lead does not rely: the servers see a client's actions with a delay of half a
# tick.
MARGIN = 0.25
# The fraction of a session within which a server must answer a claim. A network that loses packets needs this time.
ANSWER = 1 / 2


class ZooKeeperLead:
    """A ``Lead``: the node at ``path``, with the address of this center, in the session of ``client``, which lasts
    ``session`` (s) or longer.

    Standbys have such nodes too, below ``centers``.
    """

    def __init__(
        self,
        client: KazooClient,
        path: str,
        centers: str,
        address: str,
        session: float,
        drop: Callable[[], None] = lambda: None,
    ) -> None:
        """``drop`` breaks the connection to a server that does not answer, so that another one is tried."""
        self._client = client
        self._drop = drop
        self._path = path
        self._centers = centers
        self._changed = threading.Event()
        self._address = address.encode()
        self.session = session
        self.until = 0

    def claim(self) -> bool:
        """See ``Lead.claim``. Keeping the lead is a write, because only writes are confirmed by a majority of the
        servers.
        """
        begin = boottime()
        try:
            mine = self._told(self._claim)
        except LogUnreachable:
            # kazoo itself notices a server that stands still only after most of a session.
            if self._client.connected:
                self._drop()
            raise
        self.until = begin + int(self.session * (1 - MARGIN) * 1e6) if mine else 0
        return mine

    def _claim(self) -> bool:
        wait = self.session * ANSWER
        try:
            self._client.create_async(self._path, self._address, ephemeral=True).get(timeout=wait)
        except NodeExistsError:
            try:
                _, stat = self._client.get_async(self._path).get(timeout=wait)
                if stat.ephemeralOwner != self._client.client_id[0]:
                    return False
                self._client.set_async(self._path, self._address).get(timeout=wait)
            except NoNodeError:
                return False
        return True

    def leader(self) -> str:
        """See ``Lead.leader``."""
        try:
            return self._told(partial(self._read, self._path))
        except NoNodeError:
            return ""

    def wait(self, seconds: float) -> None:
        """See ``Lead.wait``: ZooKeeper reports that the leader's node vanished."""
        self._changed.clear()
        with contextlib.suppress(*LOST, KazooException):
            if self._client.exists_async(self._path, self._note).get(timeout=seconds) is None:
                return
        self._changed.wait(seconds)

    def _note(self, _: object) -> None:
        self._changed.set()

    def stand_by(self) -> None:
        """See ``Lead.stand_by``."""

        def note() -> None:
            with contextlib.suppress(NodeExistsError):
                self._client.create_async(self._place(), self._address, ephemeral=True).get(timeout=self.session)

        self._told(note)

    def _place(self) -> str:
        return f"{self._centers}/{(self._client.client_id or (0,))[0]:016x}"

    def others(self) -> list[str]:
        """See ``Lead.others``."""
        own = self._place().rpartition("/")[2]
        names: list[str] = self._told(lambda: self._client.get_children_async(self._centers).get(timeout=self.session))
        found: list[str] = []
        for name in sorted(names):
            with contextlib.suppress(NoNodeError):
                if name != own:
                    found.append(self._told(partial(self._read, f"{self._centers}/{name}")))
        return found

    def _read(self, path: str) -> str:
        data: bytes = self._client.get_async(path).get(timeout=self.session)[0]
        return data.decode(errors="replace")

    def release(self) -> None:
        """See ``Lead.release``."""
        if self.until:
            self.until = 0
            with contextlib.suppress(KazooException, KazooTimeoutError):
                self._client.delete_async(self._path).get(timeout=1)

    def close(self) -> None:
        """See ``Lead.close``."""
        with contextlib.suppress(KazooException, KazooTimeoutError):
            self._client.delete_async(self._place()).get(timeout=1)

    def _told(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except LOST:
            raise LogUnreachable("the servers of the store do not answer") from None
        except NoNodeError:
            raise
        except KazooException as error:
            raise StoreError(f"the lead cannot be claimed: {str(error) or type(error).__name__}") from None
