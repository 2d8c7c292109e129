"""``cress.AsyncClient``: ``cress.Client`` for asyncio, with the same names as coroutines."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from cress.client import calls, mapping, move_calls, operations, reservation_calls
from cress.client.asynchandles import AsyncJobHandle
from cress.client.asynchttp import AsyncHttp
from cress.client.asyncleases import AsyncLeases
from cress.client.asyncmapping import AsyncResults
from cress.client.bundle import Deadline
from cress.client.client import MOST_JOBS, PATIENCE, JobLike, found, several
from cress.client.effects import RetryBudget, aiterate, arun, retried
from cress.client.job_keywords import CallKeys
from cress.client.jobs import JobFile
from cress.client.leader import ANSWER_SECONDS
from cress.protocol.licenceviews import LicenceView
from cress.protocol.moveviews import PlanView, RoundView
from cress.protocol.reservationviews import ReservationView
from cress.protocol.views import AppliedJob, JobView, NodeView, PlaceView, StateView, Submitted

R = TypeVar("R")


class AsyncClient:
    """``cress.Client`` for asyncio: every method is a coroutine, every iterator asynchronous.

    One event loop may use it; close it, or use it in an ``async with``.
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
        self.http = AsyncHttp(place.url, place.token, timeout, place.advice, place.find, place.socket, place.ca)
        self.budget = RetryBudget(patience)
        # Parts of nodes for frameworks that bring tasks of their own.
        self.leases = AsyncLeases(self.http, self.budget)

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
        await self.http.aclose()

    # --- jobs ---------------------------------------------------------------------------------------------------------

    @overload
    async def submit(self, jobs: JobLike, *, key: str = "", strict: bool = False) -> AsyncJobHandle: ...
    @overload
    async def submit(self, jobs: Sequence[JobLike], *, key: str = "", strict: bool = False) -> list[AsyncJobHandle]: ...
    async def submit(
        self, jobs: JobLike | Sequence[JobLike], *, key: str = "", strict: bool = False
    ) -> AsyncJobHandle | list[AsyncJobHandle]:
        """Submit a job, or several together or not at all; they are stored when this returns.

        As with ``cress submit`` they start in the current directory unless they name one. A submit with the ``key`` of
        an earlier one is the same one, for a day. ``strict``: jobs whose deadlines cannot be met are refused. Raises
        ``Refused``, whose ``faults`` say where a mistake is.
        """
        made = await arun(operations.submit(several(jobs), key, self.budget, strict=strict), self.http)
        handles = [AsyncJobHandle(self.http, self.budget, each.id, each.name, each.note) for each in made]
        return handles[0] if isinstance(jobs, (JobFile, Mapping)) else handles

    async def check(self, jobs: JobLike | Sequence[JobLike]) -> list[Submitted]:
        """Return the answer that a submit would get, with a ``note`` for each job and ids 0; store nothing.

        Raises ``Refused``.
        """
        return await arun(operations.check(several(jobs), self.budget), self.http)

    async def apply(
        self,
        jobs: JobLike | Sequence[JobLike],
        *,
        dry_run: bool = False,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 – the same names as in Client
    ) -> list[AppliedJob]:
        """Create or update services, databases and cron jobs as these say, all or none; return the result for each.

        ``created``, ``updated``, ``scaled`` or ``unchanged``; a dry run says what would. A new version replaces the old
        one after that; with ``wait`` this returns when all tasks are of it and ready, raises ``JobFailed`` when it was
        rolled back or does not become ready, and ``TimeoutError`` after ``timeout`` seconds. The update goes on after
        both.
        """
        operation = operations.apply(several(jobs), self.budget, dry_run=dry_run, wait=wait, timeout=timeout)
        return await arun(operation, self.http)

    async def job(self, id: int) -> AsyncJobHandle:
        """A handle of a job that is there. Raises ``NotFound``."""
        view = await arun(retried(calls.job(id), self.budget), self.http)
        return AsyncJobHandle(self.http, self.budget, view.id, view.name)

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
        """Jobs, newest first, at most ``limit``; those of a ``group``, ``user``, ``state``, ``name``, ``type``."""
        query = {"group": group, "user": user, "state": state, "name": name, "type": type}
        return await arun(operations.jobs(query, limit, self.budget), self.http)

    async def as_completed(
        self,
        jobs: Iterable[AsyncJobHandle],
        timeout: float | None = None,  # noqa: ASYNC109 – the same names
    ) -> AsyncIterator[AsyncJobHandle]:
        """The jobs in the order in which they end; ``TimeoutError`` after ``timeout`` seconds."""
        handles = {handle.id: handle for handle in jobs}
        async for id in aiterate(operations.as_completed(handles, timeout, self.budget), self.http):
            yield handles[id]

    # --- functions ----------------------------------------------------------------------------------------------------

    async def map(
        self,
        function: Callable[..., R],
        items: Iterable[Any],
        *more: Iterable[Any],
        chunk: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 – the same names as in Client
        return_exceptions: bool = False,
        python: str = "",
        spool: str | os.PathLike[str] | None = None,
        **keys: Unpack[CallKeys],
    ) -> AsyncResults[R]:
        """Call ``function`` for each item on the cluster, as one array job: its results, in order, as they come.

        Of several iterables it gets one item each. ``chunk`` items are done by one task; if it is not given, there are
        a few tasks for each place where one can run. ``spool`` is a folder that all nodes share, or an address that
        fsspec knows; the user's cache if it is not given. ``python`` is what runs the tasks, if not this one. ``keys``
        are those of a job: ``resource=``, ``time_limit=``, ``retries=`` of tasks that die (2)…

        When the job waits for more than five seconds, the logger ``cress`` warns why. A result that is not there
        ``timeout`` seconds after this call is a ``TimeoutError``, and the job is cancelled.
        Raises ``CannotSend`` at once for what cannot be pickled. See ``Results``.
        """
        deadline = Deadline.after(timeout)
        rows = list(zip(items, *more, strict=False))
        operation = mapping.start(function, rows, chunk, python, spool, keys, self.budget)
        bundle = await arun(operation, self.http)
        job = AsyncJobHandle(self.http, self.budget, bundle.job) if bundle.job else None
        return AsyncResults(self.http, self.budget, bundle, job, errors=return_exceptions, deadline=deadline)

    # --- the cluster --------------------------------------------------------------------------------------------------

    async def state(self) -> StateView:
        """The cluster in a few numbers."""
        return await arun(retried(calls.state(), self.budget), self.http)

    async def nodes(self, where: str = "", rank: str = "") -> list[NodeView]:
        """The nodes, each with how it stands to a requirement and a rank if these are given (docs/constraints.md)."""
        return await arun(operations.nodes(where, rank, self.budget), self.http)

    async def licences(self) -> tuple[LicenceView, ...]:
        """The licences of the cluster: how many there are, which jobs have some, which wait (docs/licences.md)."""
        return (await arun(retried(calls.licences(), self.budget), self.http)).licences

    async def plan_moves(
        self,
        job: int | None = None,
        *,
        goals: Sequence[str] = (),
        moves: int | None = None,
        lost: float | None = None,
    ) -> PlanView:
        """Return the moves of running tasks that let a waiting job start, or that serve ``goals`` (spread, devices,
        nodes; all of them).

        At most ``moves`` tasks that lose at most ``lost`` hours of cores and devices together; nothing is moved
        (docs/rebalance.md).
        """
        return await arun(retried(move_calls.plan(job, goals, moves, lost), self.budget), self.http)

    async def move(self, plan: PlanView) -> RoundView:
        """Begin to carry out a plan, one task after the other; ``moves`` says how far it is.

        Raises ``Refused`` if the cluster has changed.
        """
        return await arun(retried(move_calls.begin(plan), self.budget), self.http)

    async def moves(self) -> RoundView:
        """Return the round of moves that is under way, or the last one."""
        return await arun(retried(move_calls.last_round(), self.budget), self.http)

    async def stop_moves(self) -> RoundView:
        """End the round that is under way after its present step."""
        return await arun(retried(move_calls.stop(), self.budget), self.http)

    async def reserve(self, name: str, **fields: Unpack[reservation_calls.ReservationKeys]) -> ReservationView:
        """Make an advance reservation (docs/reservations.md): of ``nodes`` or a ``count`` of them, from ``start`` (now)
        to ``until`` or for ``length``.

        Raises ``InputError`` for what makes no sense, and ``Refused`` if there is no room for it.
        """
        return await arun(retried(reservation_calls.reserve(name, fields), self.budget), self.http)

    async def reservations(self) -> tuple[ReservationView, ...]:
        """Return the advance reservations, by their next starts."""
        return (await arun(retried(reservation_calls.reservations(), self.budget), self.http)).reservations

    async def remove_reservation(self, name: str) -> ReservationView:
        """Remove an advance reservation; what runs in it goes on."""
        return await arun(retried(reservation_calls.remove(name), self.budget), self.http)

    async def resolve(self, name: str, *, group: str = "") -> tuple[PlaceView, ...]:
        """Return the places of running (of a service: ready) tasks of the jobs with a name, in one group or in all."""
        return (await arun(retried(calls.resolve(name, group), self.budget), self.http)).places
