"""The holder of the leases of one Dask cluster: it requests and renews them, and reports their changes."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cress.client import LeaseView
from cress.client.aio.client import AsyncClient
from cress.client.errors import ClientError, NotFound, Refused
from cress.client.lease_changes import over
from cress.integrations.dask.ask import Ask

logger = logging.getLogger(__name__)
# Seconds until leases are listed again after an error.
LOOK_AGAIN = 5.0
# Seconds for which a closing cluster waits for the center, and for the end of its leases.
GIVE_BACK, END = 5.0, 10.0
# Seconds between two checks of the remaining leases.
LOOK = 0.1


class Holder:
    """Leases of one workload; ``heard`` is called with each view that has changed.

    The center may be away for any time: calls wait for it until the holder closes.
    """

    def __init__(
        self,
        ask: Ask,
        heard: Callable[[LeaseView], None],
        *,
        url: str | None,
        token: str | None,
        data: Path | str | None,
    ) -> None:
        self.ask = ask
        self.client = AsyncClient(url, token, data=data, patience=math.inf)
        self.closing = asyncio.Event()
        self._heard = heard
        # Requests that have not ended as far as is known, and the names of all requests made here: the workload may
        # have others.
        self._held: dict[int, LeaseView] = {}
        # Views of requests that came before their answers.
        self._early: dict[int, LeaseView] = {}
        self._names: set[str] = set()
        self._watching: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Watch the leases, and renew them."""
        self._watching = asyncio.ensure_future(self._watch())

    async def request(self, name: str, scheduler: str) -> LeaseView:
        """Request a lease; return its latest view. Raises ``ClientError``, ``InputError``."""
        self._names.add(name)
        asked = asyncio.ensure_future(self.client.leases.request(**self.ask.request(name, scheduler)))
        closing = asyncio.ensure_future(self.closing.wait())
        try:
            await asyncio.wait({asked, closing}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise ClientError("the cluster closes while the center is away")
            (view,) = asked.result()
        finally:
            for work in (asked, closing):
                work.cancel()
        assert view.job is not None, "a request is a job"
        view = self._early.pop(view.job, view)
        if view.state != "over" and view.job is not None:
            self._held[view.job] = view
        return view

    async def release(self, job: int) -> None:
        """Return a lease, or withdraw its request. Without a center the lease ends after its term."""
        with suppress(Refused, NotFound):
            try:
                await asyncio.wait_for(self.client.leases.release(job), GIVE_BACK)
            except (ClientError, TimeoutError) as error:
                if isinstance(error, (Refused, NotFound)):
                    raise
                why = str(error) or "no answer"
                logger.warning("lease %d could not be given back (%s); it ends after its term", job, why)

    async def use(self, view: LeaseView, amounts: dict[str, str | float]) -> None:
        """Report the use of a lease; do nothing if it has ended or is changing."""
        with suppress(Refused, NotFound):
            await self.client.leases.use(view.id, amounts)

    async def reason(self, job: int) -> tuple[bool, str]:
        """Return whether the program in an ended lease failed, and why the lease ended."""
        handle = await self.client.job(job)
        view = await handle.view()
        lines = (await handle.output(stream="stderr")).strip().splitlines() if view.state == "failed" else []
        return view.state == "failed", "; ".join(filter(None, (view.reason or view.state, *lines[-1:])))

    async def close(self) -> None:
        """End the watch, and wait until the leases have ended, if there is a center."""
        self.closing.set()
        with suppress(ClientError, TimeoutError):
            left = await asyncio.wait_for(self._now(), GIVE_BACK)
            await asyncio.wait_for(self._over(left), END)
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        await self.client.close()

    async def _over(self, left: list[LeaseView]) -> None:
        """Wait until no lease is left.

        Return leases whose requests were given up while the center was away and arrived nevertheless.
        """
        while left:
            for view in left:
                if view.state != "stopping" and view.job is not None:
                    await self.release(view.job)
            await asyncio.sleep(LOOK)
            left = await self._now()

    async def _now(self) -> list[LeaseView]:
        found = await self.client.leases.list(workload=self.ask.workload, group=self.ask.keys.get("group", ""))
        return [lease for lease in found if lease.name in self._names]

    async def _watch(self) -> None:
        group = self.ask.keys.get("group", "")
        while True:
            try:
                # A new watch does not report leases that ended since the last list.
                known = dict(self._held)
                there = {lease.job for lease in await self._now()}
                for job, view in known.items():
                    if job not in there:
                        self._take(over(view))
                async for view in self.client.leases.watch(workload=self.ask.workload, group=group):
                    self._take(view)
            except ClientError as error:
                logger.warning("the leases of %s cannot be watched: %s", self.ask.workload, error)
            except Exception:
                # Without the watch the leases are not renewed.
                logger.exception("the leases of %s could not be watched", self.ask.workload)
            await asyncio.sleep(LOOK_AGAIN)

    def _take(self, view: LeaseView) -> None:
        if view.job is None or view.name not in self._names:
            return
        if view.job not in self._held:
            self._early[view.job] = view
            return
        if view.state == "over":
            del self._held[view.job]
        else:
            self._held[view.job] = view
        self._heard(view)
