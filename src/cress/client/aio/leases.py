"""``AsyncClient.leases``: leases of the cluster for frameworks with tasks of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias, Unpack

from cress.client import calls
from cress.client.aio import lease_operations
from cress.client.aio.handles import AsyncJobHandle
from cress.client.aio.patient import AsyncPatientHttp
from cress.client.aio.uploads import with_uploads
from cress.client.calls import PreparedCall
from cress.client.job_keywords import Duration, Resource
from cress.client.jobs import JobFile, mapping_of
from cress.client.lease_changes import job_of
from cress.client.lease_keywords import AskKeys, LeaseKeys, body_of
from cress.protocol.lease_views import LeasesPage, LeaseView, WorkloadView

# The present views of leases.
Views: TypeAlias = list[LeaseView]
# What workloads hold in all.
Sums: TypeAlias = list[WorkloadView]


class AsyncLeases:
    """The leases of a cluster. A lease has the name JOB.TASK, and all leases of one request have the name JOB.

    A lease that is not renewed within its term ends. Every change by its holder renews all leases of the workload, and
    so does ``watch``.
    """

    def __init__(self, center: AsyncPatientHttp) -> None:
        self._center = center

    async def request(
        self,
        resource: Resource | None = None,
        *,
        workload: str,
        count: int = 1,
        command: str | Sequence[str] | None = None,
        group: str | None = None,
        name: str | None = None,
        gang: bool | None = None,
        min_time: Duration | None = None,
        term: Duration | None = None,
        uses: str | Resource | None = None,
        key: str = "",
        **keys: Unpack[LeaseKeys],
    ) -> Views:
        """Request ``count`` leases of ``resource`` each for a workload; return them, at first all waiting.

        ``command`` is a program of the framework that runs in each of them until it is released, and uses all of it.
        Without one nothing is used at first, unless ``uses`` gives something else (``"all"``, ``"nothing"``, amounts).
        ``gang`` starts all at once or none. For ``min_time`` a lease is not preempted. If the holder is silent for
        ``term`` (60 s), they end.
        """
        given = {
            "resource": resource,
            "workload": workload,
            "count": count,
            "command": command,
            "group": group,
            "name": name,
            "gang": gang,
            "min_time": min_time,
            "term": term,
            "uses": uses,
            **keys,
        }
        return await self._leases(calls.request_leases(body_of(given), key))

    async def check(self, resource: Resource | None = None, *, workload: str, **keys: Unpack[AskKeys]) -> str:
        """Return the remarks on a request, without making it. Raises ``Refused`` as the request would."""
        body = body_of({"resource": resource, "workload": workload, **keys})
        page = await self._center.ask(calls.request_leases(body, dry_run=True))
        return page.note

    async def list(self, *, workload: str = "", group: str = "") -> Views:
        """Return all leases, or those of a workload or group: waiting ones, held ones, those that the center keeps."""
        return await lease_operations.listed(workload, group, self._center)

    async def workloads(self, *, workload: str = "", group: str = "") -> Sums:
        """Return what each workload holds in all, or one of them: sums over its leases, in all and on each node."""
        page = await self._center.ask(calls.workloads(workload, group))
        return [*page.workloads]

    async def get(self, id: str | int) -> Views:
        """Return a lease (JOB.TASK) or all leases of one request (JOB); none if they have ended."""
        return await self._leases(calls.lease(str(id)))

    async def use(self, id: str | int, amounts: Resource) -> LeaseView:
        """Report the holder's own use of a lease; the rest is idle. Return the lease."""
        leases = await self._leases(calls.use_lease(str(id), amounts))
        return leases[0]

    async def submit(self, id: str | int, job: JobFile | Mapping[str, Any], *, key: str = "") -> AsyncJobHandle:
        """Submit a job whose tasks run in a lease: on its node, first in its idle parts."""
        mapping = {name: value for name, value in mapping_of(job).items() if name != "type" or value != "batch"}
        (whole,) = await with_uploads([mapping], self._center)
        page = await self._center.ask(calls.submit_in_lease(str(id), whole, key))
        (made,) = page.jobs
        return AsyncJobHandle(self._center, made.id, made.name, made.note)

    async def grow(self, id: str | int, count: int = 1, *, key: str = "") -> Views:
        """Request more leases like those of a request, and return the leases of the new request."""
        return await self._leases(calls.grow_lease(job_of(id), count, key))

    async def shrink(self, id: str | int, count: int = 1) -> Views:
        """Release some held leases of a request, idle and young ones first; return all of its leases."""
        return await self._leases(calls.shrink_lease(job_of(id), count))

    async def release(self, id: str | int) -> Views:
        """Return a lease (JOB.TASK) or all leases of one request (JOB), waiting ones included, to the cluster.

        The result is the rest of the lease or request, empty if it had ended.
        """
        return await self._leases(calls.release_lease(str(id)))

    async def renew(self, id: str | int) -> Views:
        """Renew the terms of the user's leases of that workload."""
        return await self._leases(calls.renew_lease(str(id)))

    async def watch(
        self, id: str | int = "", *, workload: str = "", group: str = "", renews: bool = True
    ) -> AsyncIterator[LeaseView]:
        """Yield the present leases of a request or workload, then each one that changes.

        A lease with the state ``stopping`` ends at its ``stops_at``; an ended one comes once more, with the state
        ``over``. The iterator ends when all leases of the request have ended.
        """
        ids = (str(id),) if id != "" else ()
        async with aclosing(lease_operations.watched(ids, workload, group, self._center, renews=renews)) as leases:
            async for lease in leases:
                yield lease

    async def _leases(self, call: PreparedCall[LeasesPage]) -> Views:
        page = await self._center.ask(call)
        return [*page.leases]
