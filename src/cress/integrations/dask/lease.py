"""One lease as Dask's clusters see it: something that is started and closed."""

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
        """Ask for a lease. Raises ``ClientError``."""

    async def give_back(self, lease: WorkerLease) -> None:
        """Retire its workers, and give it back."""


class WorkerLease(ProcessInterface):
    """A lease with its workers. ``view`` is the last that was heard of it; ``joined``: a worker in it has reached the
    scheduler; ``taken`` is the attempt that the center last wanted back.

    It is started when it is asked for; its workers come when the center can give it.
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
        """Return whether it has been given back."""
        return self.status in (Status.closing, Status.closed, Status.failed)

    async def start(self) -> None:
        """Ask for the lease. Raises ``ClientError``."""
        try:
            await self._of.request(self)
        except BaseException:
            self.status = Status.failed
            raise
        await super().start()

    async def close(self) -> None:
        """Retire its workers, and give it back."""
        if self.released:
            return
        self.status = Status.closing
        await self._of.give_back(self)
        await super().close()

    def gone(self) -> None:
        """Note that it is over, whoever ended it."""
        if not self.released:
            self.status = Status.closed
            self._event_finished.set()
