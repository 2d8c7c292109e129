# Written by tools/blocking_client.py: edit aio/client.py.
"""``cress.Client``: jobs as objects, handles, functions on the cluster; ``http`` has one method for each call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from cress.client import calls
from cress.client.blocking import mapping, operations
from cress.client.blocking.handles import JobHandle
from cress.client.blocking.http import Http
from cress.client.blocking.leases import Leases
from cress.client.blocking.mapping import Results
from cress.client.blocking.patient import PatientHttp
from cress.client.bundle import Patience
from cress.client.found import found
from cress.client.job_keywords import CallKeys
from cress.client.jobs import JobFile, JobLike, several
from cress.client.leader import ANSWER_SECONDS
from cress.client.retries import RetryBudget
from cress.protocol.cluster_views import NodeView, PlaceView, StateView
from cress.protocol.job_views import AppliedJob, JobView, Submitted
from cress.protocol.lease_views import LicenceView, PlanView, ReservationView, RoundView
from cress.protocol.queries import JobsQuery

R = TypeVar("R")
# For how long a center may be away, in seconds.
PATIENCE = 300.0
MOST_JOBS = 100


class Client:
    """A center, for programs and notebooks. Without arguments the one that the command line speaks to.

    ``url`` and ``token``, or the ``data`` directory of a center on this machine, name another one. A center that was
    there and is away is waited for ``patience`` seconds, wherever it starts again; ``timeout`` is what one answer may
    take. Close it, or use it in a ``with``. Methods raise ``ClientError``, and ``InputError`` for what is wrong before
    it is sent; making one raises ``NoCenter``.

    The one that blocks may be used by several threads. The one for asyncio has the same methods as coroutines, gives
    asynchronous iterators, and may be used by one event loop.
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
        self.http = Http(place.url, place.token, timeout, place.advice, place.find, place.socket, place.ca)
        # Calls that are repeated while the center is away.
        self.patient = PatientHttp(self.http, RetryBudget(patience))
        # Parts of nodes for frameworks that bring tasks of their own.
        self.leases = Leases(self.patient)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.http.url}>"

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    # --- jobs ---------------------------------------------------------------------------------------------------------

    @overload
    def submit(self, jobs: JobLike, *, key: str = "", strict: bool = False) -> JobHandle: ...
    @overload
    def submit(self, jobs: Sequence[JobLike], *, key: str = "", strict: bool = False) -> list[JobHandle]: ...
    def submit(
        self, jobs: JobLike | Sequence[JobLike], *, key: str = "", strict: bool = False
    ) -> JobHandle | list[JobHandle]:
        """Submit a job, or several together or not at all; they are stored when this returns.

        As with ``cress submit`` they start in the current directory unless they name one. A submit with the ``key`` of
        an earlier one is the same one, for a day. ``strict``: jobs whose deadlines cannot be met are refused. Raises
        ``Refused``, whose ``faults`` say where a mistake is.
        """
        made = operations.submit(several(jobs), key, self.patient, strict=strict)
        handles = [JobHandle(self.patient, submitted.id, submitted.name, submitted.note) for submitted in made]
        return handles[0] if isinstance(jobs, (JobFile, Mapping)) else handles

    def check(self, jobs: JobLike | Sequence[JobLike]) -> list[Submitted]:
        """Return the answer that a submit would get, with a ``note`` for each job and ids 0; store nothing.

        Raises ``Refused``.
        """
        return operations.check(several(jobs), self.patient)

    def apply(
        self,
        jobs: JobLike | Sequence[JobLike],
        *,
        dry_run: bool = False,
        wait: bool = False,
        timeout: float | None = None,
    ) -> list[AppliedJob]:
        """Create or update services, databases and cron jobs as these say, all or none; return the result for each.

        ``created``, ``updated``, ``scaled`` or ``unchanged``; a dry run says what would. A new version replaces the old
        one after that; with ``wait`` this returns when all tasks are of it and ready, raises ``JobFailed`` when it was
        rolled back or does not become ready, and ``TimeoutError`` after ``timeout`` seconds. The update goes on after
        both.
        """
        return operations.apply(several(jobs), self.patient, dry_run=dry_run, wait=wait, timeout=timeout)

    def job(self, id: int) -> JobHandle:
        """A handle of a job that is there. Raises ``NotFound``."""
        view = self.patient.ask(calls.job(id))
        return JobHandle(self.patient, view.id, view.name)

    def jobs(
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
        query = JobsQuery(group=group, user=user, state=state, name=name, type=type)
        return operations.jobs(query, limit, self.patient)

    def as_completed(
        self,
        jobs: Iterable[JobHandle],
        timeout: float | None = None,
    ) -> Iterator[JobHandle]:
        """The jobs in the order in which they end; ``TimeoutError`` after ``timeout`` seconds."""
        handles = {handle.id: handle for handle in jobs}
        with closing(operations.as_completed(handles, timeout, self.patient)) as over:
            for id in over:
                yield handles[id]

    # --- functions ----------------------------------------------------------------------------------------------------

    def map(
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
    ) -> Results[R]:
        """Call ``function`` for each item on the cluster, as one array job: its results, in order, as they come.

        Of several iterables it gets one item each. ``chunk`` items are done by one task; if it is not given, there are
        a few tasks for each place where one can run. ``spool`` is a folder that all nodes share, or an address that
        fsspec knows; the user's cache if it is not given. ``python`` is what runs the tasks, if not this one. ``keys``
        are those of a job: ``resource=``, ``time_limit=``, ``retries=`` of tasks that die (2)…

        When the job waits for more than five seconds, the logger ``cress`` warns why. A result that is not there
        ``timeout`` seconds after this call is a ``TimeoutError``, and the job is cancelled.
        Raises ``CannotSend`` at once for what cannot be pickled. See ``Results``.
        """
        deadline = Patience.after(timeout)
        rows = list(zip(items, *more, strict=False))
        bundle = mapping.start(function, rows, chunk, python, spool, keys, self.patient)
        job = JobHandle(self.patient, bundle.job) if bundle.job else None
        return Results(self.patient, bundle, job, errors=return_exceptions, deadline=deadline)

    # --- the cluster --------------------------------------------------------------------------------------------------

    def state(self) -> StateView:
        """The cluster in a few numbers."""
        return self.patient.ask(calls.state())

    def nodes(self, where: str = "", rank: str = "") -> list[NodeView]:
        """The nodes, each with how it stands to a requirement and a rank if these are given (docs/constraints.md)."""
        return operations.nodes(where, rank, self.patient)

    def licences(self) -> tuple[LicenceView, ...]:
        """The licences of the cluster: how many there are, which jobs have some, which wait (docs/licences.md)."""
        page = self.patient.ask(calls.licences())
        return page.licences

    def plan_moves(
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
        return self.patient.ask(calls.plan_moves(job, goals, moves, lost))

    def move(self, plan: PlanView) -> RoundView:
        """Begin to carry out a plan, one task after the other; ``moves`` says how far it is.

        Raises ``Refused`` if the cluster has changed.
        """
        return self.patient.ask(calls.begin_moves(plan))

    def moves(self) -> RoundView:
        """Return the round of moves that is under way, or the last one."""
        return self.patient.ask(calls.last_round())

    def stop_moves(self) -> RoundView:
        """End the round that is under way after its present step."""
        return self.patient.ask(calls.stop_moves())

    def reserve(self, name: str, **fields: Unpack[calls.ReservationKeys]) -> ReservationView:
        """Make an advance reservation (docs/reservations.md): of ``nodes`` or a ``count`` of them, from ``start`` (now)
        to ``until`` or for ``length``.

        Raises ``InputError`` for what makes no sense, and ``Refused`` if there is no room for it.
        """
        return self.patient.ask(calls.reserve(name, fields))

    def reservations(self) -> tuple[ReservationView, ...]:
        """Return the advance reservations, by their next starts."""
        page = self.patient.ask(calls.reservations())
        return page.reservations

    def remove_reservation(self, name: str) -> ReservationView:
        """Remove an advance reservation; what runs in it goes on."""
        return self.patient.ask(calls.remove_reservation(name))

    def resolve(self, name: str, *, group: str = "") -> tuple[PlaceView, ...]:
        """Return the places of running (of a service: ready) tasks of the jobs with a name, in one group or in all."""
        page = self.patient.ask(calls.resolve(name, group))
        return page.places
