"""``cress.AsyncClient``: jobs as objects, handles, functions on the cluster; ``http`` has one method for each call."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from cress.client import calls
from cress.client.aio import fetching, mapping, operations
from cress.client.aio.handles import AsyncJobHandle
from cress.client.aio.http import AsyncHttp
from cress.client.aio.leases import AsyncLeases
from cress.client.aio.mapping import AsyncResults
from cress.client.aio.patient import AsyncPatientHttp
from cress.client.bundle import Patience
from cress.client.fetched import FetchedFile
from cress.client.found import found
from cress.client.job_keywords import CallKeys
from cress.client.jobs import JobFile, JobLike, several
from cress.client.leader import ANSWER_SECONDS
from cress.client.retries import RetryBudget
from cress.protocol.cluster_views import EfficiencyPage, NodeView, PastUsePage, PlaceView, StateView
from cress.protocol.job_views import AppliedJob, JobView, Submitted
from cress.protocol.lease_views import LicenceView, PlanView, ReservationView, RoundView
from cress.protocol.queries import JobsQuery
from cress.protocol.trial_views import ConsequencesView

R = TypeVar("R")
# Seconds for which a center may be away.
PATIENCE = 300.0
MOST_JOBS = 100


class AsyncClient:
    """A center, for programs and notebooks; by default the same one as on the command line.

    ``url`` and ``token``, or the ``data`` directory of a center on this machine, name another one. Calls wait for
    ``patience`` seconds for a center that was there and is away, wherever it starts again; ``timeout`` (seconds) limits
    one answer. Close the client, or use it in a ``with``. Methods raise ``ClientError``, and ``InputError`` for
    mistakes found before a call is sent; the constructor raises ``NoCenter``.

    Several threads may use the blocking client. The one for asyncio has the same methods as coroutines, returns
    asynchronous iterators, and belongs to one event loop.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        data: Path | str | None = None,
        patience: float = PATIENCE,
        timeout: float = ANSWER_SECONDS,
    ) -> None:
        place = found(url, token, data)
        # One method for each call of the API: groups, usage, operators' work.
        self.http = AsyncHttp(place.url, place.token, timeout, place.advice, place.find, place.socket, place.ca)
        # Calls that are repeated while the center is away.
        self.patient = AsyncPatientHttp(self.http, RetryBudget(patience))
        # Parts of nodes for frameworks with tasks of their own.
        self.leases = AsyncLeases(self.patient)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.http.url}>"

    async def close(self) -> None:
        """Close the connections."""
        await self.http.close()

    # --- jobs ---------------------------------------------------------------------------------------------------------

    @overload
    async def submit(self, jobs: JobLike, *, key: str = "", strict: bool = False) -> AsyncJobHandle: ...
    @overload
    async def submit(self, jobs: Sequence[JobLike], *, key: str = "", strict: bool = False) -> list[AsyncJobHandle]: ...
    async def submit(
        self, jobs: JobLike | Sequence[JobLike], *, key: str = "", strict: bool = False
    ) -> AsyncJobHandle | list[AsyncJobHandle]:
        """Submit one job, or several all or none; they are stored when this returns.

        As with ``cress submit``, jobs start in the current directory unless they name one. For a day, a submit with the
        ``key`` of an earlier one is the same submit. ``strict`` refuses jobs whose deadlines cannot be met. Raises
        ``Refused``; its ``faults`` give the places of mistakes.
        """
        made = await operations.submit(several(jobs), key, self.patient, strict=strict)
        handles = [AsyncJobHandle(self.patient, submitted.id, submitted.name, submitted.note) for submitted in made]
        return handles[0] if isinstance(jobs, (JobFile, Mapping)) else handles

    async def check(self, jobs: JobLike | Sequence[JobLike]) -> list[Submitted]:
        """Return the answer that a submit would get, with a ``note`` for each job and ids 0, and store nothing.

        Raises ``Refused``.
        """
        return await operations.check(several(jobs), self.patient)

    async def plan(self, jobs: JobLike | Sequence[JobLike], *, seconds: float = 20.0) -> ConsequencesView:
        """Return where and when jobs would start, whom they would preempt, and what would wait longer; store nothing.

        ``seconds`` bound the computation. Raises ``Refused``.
        """
        return await operations.plan(several(jobs), seconds, self.patient)

    async def what_if(self, *, seconds: float = 20.0, **change: Unpack[calls.ChangeKeys]) -> ConsequencesView:
        """Return what a change would do to running and waiting work (docs/plan.md); store nothing.

        ``seconds`` bound the computation. Raises ``Refused``.
        """
        return await self.patient.ask(calls.what_if(change, seconds))

    async def apply(
        self,
        jobs: JobLike | Sequence[JobLike],
        *,
        dry_run: bool = False,
        wait: bool = False,
        timeout: float | None = None,
    ) -> list[AppliedJob]:
        """Create or update services, databases and cron jobs, all or none; return the result for each.

        The result is ``created``, ``updated``, ``scaled`` or ``unchanged``; a dry run returns the expected one. The new
        version replaces the old one afterwards. With ``wait`` this returns when all tasks have the new version and are
        ready. It then raises ``JobFailed`` if the version was rolled back or does not become ready, and
        ``TimeoutError`` after ``timeout`` seconds; the update goes on in both cases.
        """
        return await operations.apply(several(jobs), self.patient, dry_run=dry_run, wait=wait, timeout=timeout)

    async def job(self, id: int) -> AsyncJobHandle:
        """Return a handle of an existing job. Raises ``NotFound``."""
        view = await self.patient.ask(calls.job(id))
        return AsyncJobHandle(self.patient, view.id, view.name)

    async def jobs(
        self,
        *,
        group: str = "",
        user: str = "",
        state: str = "",
        name: str = "",
        type: str = "",  # noqa: A002 – as the API calls it
        limit: int = MOST_JOBS,
    ) -> list[JobView]:
        """Return at most ``limit`` jobs, newest first, by ``group``, ``user``, ``state``, ``name`` or ``type``."""
        query = JobsQuery(group=group, user=user, state=state, name=name, type=type)
        return await operations.jobs(query, limit, self.patient)

    async def fetch(
        self,
        job: AsyncJobHandle | int,
        *paths: str,
        to: str | os.PathLike[str] = "",
        task: int = 0,
        attempt: int | None = None,
    ) -> list[FetchedFile]:
        """Fetch files from the directory of a task into the folder ``to``; return them with their paths here.

        ``paths`` are files, folders or patterns there; without any, all that the program wrote. The default folder is
        ``job-ID`` in the current directory. Raises ``InputError`` if a pattern matches nothing, and ``Refused``.
        """
        number = job if isinstance(job, int) else job.id
        folder = Path(to) if to else Path(f"job-{number}")
        return await fetching.fetch(number, paths, folder, self.http, task=task, attempt=attempt)

    async def as_completed(
        self,
        jobs: Iterable[AsyncJobHandle],
        timeout: float | None = None,
    ) -> AsyncIterator[AsyncJobHandle]:
        """Yield the jobs in the order in which they end. Raises ``TimeoutError`` after ``timeout`` seconds."""
        handles = {handle.id: handle for handle in jobs}
        async with aclosing(operations.as_completed(handles, timeout, self.patient)) as over:
            async for id in over:
                yield handles[id]

    # --- functions ----------------------------------------------------------------------------------------------------

    async def map(
        self,
        function: Callable[..., R],
        items: Iterable[Any],
        *more: Iterable[Any],
        chunk: int | None = None,
        timeout: float | None = None,
        return_exceptions: bool = False,
        python: str = "",
        spool: str | os.PathLike[str] | None = None,
        **keys: Unpack[CallKeys],
    ) -> AsyncResults[R]:
        """Call ``function`` for each item on the cluster, as one array job; yield the results in order, as they arrive.

        With several iterables the function gets one item of each. One task handles ``chunk`` items; by default there
        are a few tasks for each one that can run at once. ``spool`` is a folder that all nodes share, or an address for
        fsspec; the default is the user's cache. ``python`` runs the tasks; the default is this interpreter. ``keys``
        are those of a job: ``resource=``, ``time_limit=``, ``retries=`` of tasks that die (2)…

        When the job waits for more than five seconds, the logger ``cress`` warns of the reason. A result that has not
        arrived ``timeout`` seconds after this call raises ``TimeoutError``, and the job is cancelled. Raises
        ``CannotSend`` at once for objects that cannot be pickled. See ``Results``.
        """
        deadline = Patience.after(timeout)
        rows = list(zip(items, *more, strict=False))
        bundle = await mapping.start(function, rows, chunk, python, spool, keys, self.patient)
        job = AsyncJobHandle(self.patient, bundle.job) if bundle.job else None
        return AsyncResults(self.patient, bundle, job, errors=return_exceptions, deadline=deadline)

    # --- the cluster --------------------------------------------------------------------------------------------------

    async def state(self) -> StateView:
        """Return key figures of the cluster."""
        return await self.patient.ask(calls.state())

    async def nodes(self, where: str = "", rank: str = "") -> list[NodeView]:
        """Return the nodes, each matched with the requirement and the rank, if given (docs/constraints.md)."""
        return await operations.nodes(where, rank, self.patient)

    async def past_use(self, span: str = "hour", group: str = "") -> PastUsePage:
        """Return the use over the past ``hour``, ``day`` or ``week``: of each dimension as a part of the capacity, of
        groups divided by their quotas, and the waiting and running tasks; that of one ``group`` if it is named.
        """
        return await self.patient.ask(calls.past_use(span, group))

    async def efficiency(
        self, *, by: str = "name", name: str = "", user: str = "", group: str = "", since: float | None = None
    ) -> EfficiencyPage:
        """Return what finished jobs asked for and used, by ``name``, ``user``, ``group`` or ``label:NAME``.

        ``since`` is in seconds since the epoch; the default is 30 days ago.
        """
        return await self.patient.ask(calls.efficiency(by=by, name=name, user=user, group=group, since=since))

    async def licences(self) -> tuple[LicenceView, ...]:
        """Return the licences: their numbers, and the jobs that have some or wait for some (docs/licences.md)."""
        page = await self.patient.ask(calls.licences())
        return page.licences

    async def plan_moves(
        self,
        job: int | None = None,
        *,
        goals: Sequence[str] = (),
        moves: int | None = None,
        lost: float | None = None,
    ) -> PlanView:
        """Return moves of running tasks that let a waiting job start, or that serve ``goals``.

        The goals are spread, devices and nodes; all of them by default. At most ``moves`` tasks move, and lose at most
        ``lost`` hours of cores and devices together; nothing is moved yet (docs/rebalance.md).
        """
        return await self.patient.ask(calls.plan_moves(job, goals, moves, lost))

    async def move(self, plan: PlanView) -> RoundView:
        """Begin to carry out a plan, one task after another; ``moves`` returns the progress.

        Raises ``Refused`` if the cluster has changed.
        """
        return await self.patient.ask(calls.begin_moves(plan))

    async def moves(self) -> RoundView:
        """Return the current round of moves, or else the last one."""
        return await self.patient.ask(calls.last_round())

    async def stop_moves(self) -> RoundView:
        """End the current round after its present step."""
        return await self.patient.ask(calls.stop_moves())

    async def reserve(self, name: str, **fields: Unpack[calls.ReservationKeys]) -> ReservationView:
        """Make an advance reservation (docs/reservations.md) of ``nodes`` or a ``count`` of them.

        It lasts from ``start`` (by default now) to ``until`` or for ``length``. Raises ``InputError`` for invalid
        fields, and ``Refused`` if there is no room for it.
        """
        return await self.patient.ask(calls.reserve(name, fields))

    async def reservations(self) -> tuple[ReservationView, ...]:
        """Return the advance reservations, ordered by their next start."""
        page = await self.patient.ask(calls.reservations())
        return page.reservations

    async def remove_reservation(self, name: str) -> ReservationView:
        """Remove an advance reservation; tasks that run in it go on."""
        return await self.patient.ask(calls.remove_reservation(name))

    async def resolve(self, name: str, *, group: str = "") -> tuple[PlaceView, ...]:
        """Return the places of running (for services: ready) tasks of the jobs with a name, in one group or all."""
        page = await self.patient.ask(calls.resolve(name, group))
        return page.places
