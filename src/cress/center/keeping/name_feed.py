"""The feed of names: the name table of a running center, and callers that wait for changes of a name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cress.lifecycle.name_table import NamesRevision, NameTable, PlaceChange
from cress.lifecycle.tables.changes import RowChanges
from cress.shell.center.commit import CommitLoop


class NameFeed:
    """Keeps the name table current.

    ``when_loaded`` and ``when_changed`` are called after each change, before waiting callers wake.
    """

    def __init__(self, loop: CommitLoop) -> None:
        self.table = NameTable()
        self.when_loaded: list[Callable[[], None]] = []
        self.when_changed: list[Callable[[list[PlaceChange]], None]] = []
        self._loop = loop
        self._loads = 0
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def load(self) -> None:
        """Load the names from a restored state."""
        loop = self._loop
        self._loads += 1
        self.table.load(loop.machine, NamesRevision(f"{loop.epoch}.{self._loads}", loop.number))
        for listener in self.when_loaded:
            listener()
        self.tell()

    def stepped(self, rows: RowChanges) -> None:
        """Apply the stored row changes of the last step."""
        changed = self.table.stepped(self._loop.machine, rows, self._loop.number)
        if not changed:
            return
        for listener in self.when_changed:
            listener(changed)
        if self._waiting:
            for name in {change.name for change in changed} & self._waiting.keys():
                self._wake(name)

    def tell(self) -> None:
        """Wake all waiting callers."""
        for name in list(self._waiting):
            self._wake(name)

    async def wait(self, name: str, revision: NamesRevision, seconds: float) -> None:
        """Wait for a change of a name after a revision, a call of ``tell``, or the timeout in seconds."""
        if self.table.since(name, revision) != []:
            return
        future = self._waiting.get(name)
        if future is None:
            future = self._waiting[name] = asyncio.get_running_loop().create_future()
        await asyncio.wait((future,), timeout=seconds)

    def _wake(self, name: str) -> None:
        future = self._waiting.pop(name)
        if not future.done():
            future.set_result(None)
