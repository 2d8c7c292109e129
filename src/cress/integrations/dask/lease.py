"""One lease in the form of Dask's clusters: a process that is started and closed."""

from __future__ import annotations

from typing import Any, Protocol

from distributed import Status
from distributed.deploy.spec import ProcessInterface

from cress.client import LeaseView
from cress.integrations.dask.ask import Ask


class LeaseOwner(Protocol):
    """The cluster of a lease."""

    ask: Ask

    async def request(self, lease: WorkerLease) -> None:
        """Request a lease. Raises ``ClientError``."""

    async def give_back(self, lease: WorkerLease) -> None:
        """Retire its workers, and return the lease."""


class WorkerLease(ProcessInterface):
    """A lease with its workers.

    ``view`` is its latest view; ``joined`` says that one of its workers has reached the scheduler; ``taken`` is the
    attempt that the center last took back. It counts as started once it is requested; its workers come when the center
    grants it.
    """

    def __init__(self, scheduler: str, *, name: str, cluster: LeaseOwner, **_: Any) -> None:
        super().__init__(scheduler=scheduler, name=name)
        self.name = name
        self.scheduler = scheduler
        self.job = 0
        self.joined = False
        self.taken: int | None = None
        self.view: LeaseView | None = None
        self._of = cluster

    @property
    def workers(self) -> list[str]:
        """The names of its workers."""
        return self._of.ask.workers(self.name)

    @property
    def released(self) -> bool:
        """Return whether it has been returned."""
        return self.status in (Status.closing, Status.closed, Status.failed)

    async def start(self) -> None:
        """Request the lease. Raises ``ClientError``."""
        try:
            await self._of.request(self)
        except BaseException:
            self.status = Status.failed
            raise
        await super().start()

    async def close(self) -> None:
        """Retire its workers, and return it."""
        if self.released:
            return
        self.status = Status.closing
        await self._of.give_back(self)
        await super().close()

    def gone(self) -> None:
        """Note that it has ended, whoever ended it."""
        if not self.released:
            self.status = Status.closed
            self._event_finished.set()
