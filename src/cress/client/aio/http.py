"""The center's API as methods, one for each call, with the views of ``protocol`` as types."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from cress.client import calls, wire
from cress.client.aio.runtime import in_thread, sleep
from cress.client.answers import answer_in, refusal_of, told
from cress.client.calls import PreparedCall
from cress.client.errors import Broken, Elsewhere, Unreachable
from cress.client.found import found
from cress.client.leader import LeaderClient, elsewhere, no_leader, pauses
from cress.protocol.calls import job_calls
from cress.protocol.centers import CentersPage, HandedOver
from cress.protocol.cluster_views import (
    Applied,
    ConfiguredView,
    ConfigView,
    EventView,
    GroupsPage,
    NodeSettingsPage,
    NodesPage,
    NodeView,
    PlaceView,
    RevisionView,
    StateView,
    UsagePage,
)
from cress.protocol.job_views import (
    AppliedJobs,
    CancelledJobs,
    HeldJobs,
    JobsPage,
    JobView,
    SubmittedPage,
    TasksPage,
    TaskView,
)
from cress.protocol.lease_views import (
    LeasesPage,
    LicencesPage,
    PlanView,
    ReservationsPage,
    ReservationView,
    RoundView,
)
from cress.protocol.logs import Piece
from cress.protocol.queries import JOBS_OF_A_PAGE, TASKS_OF_A_PAGE, JobsQuery, TasksQuery, UsageQuery
from cress.protocol.views import Value

if TYPE_CHECKING:
    import httpx

    from cress.client.execution import Command

CONNECT_SECONDS = 5.0
# Longest silence in seconds: the center sends readers of events a sign of life every 15 s.
EVENT_SECONDS = 45.0
# And followers of a log one every 5 s.
LOG_SECONDS = 20.0
# More concurrent connections would only wait for each other.
CONNECTIONS = 100

_T = TypeVar("_T")


class AsyncHttp(LeaderClient):
    """A connection to a center; close it, or use it in a ``with``. Several threads, or one event loop, may use it.

    A requested wait is added to ``timeout``. Every method raises ``ClientError``: ``Unreachable``, ``Unauthorized``,
    ``NotFound``, ``Refused`` or ``Unavailable``.
    """

    _opened: tuple[httpx.AsyncClient, ...] = ()

    def _open(self) -> None:
        import httpx  # imported here, since it takes 0.1 s, which a call for help need not pay

        route = self._open_route()
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        self._http = httpx.AsyncClient(
            base_url=route.url,
            headers=route.headers,
            auth=route.auth,
            timeout=_time_limits(self.timeout),
            # The environment's proxy is for external addresses, so a center on this machine is reached without it.
            trust_env=False,
            transport=httpx.AsyncHTTPTransport(
                verify=route.tls, uds=route.socket or None, limits=limits, trust_env=False
            ),
        )
        self._opened += (self._http,)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        for http in self._opened:
            await http.aclose()
        self._closing.close()

    # --- jobs ---------------------------------------------------------------------------------------------------------

    async def submit(
        self,
        jobs: Sequence[Mapping[str, object]],
        *,
        key: str = "",
        dry_run: bool = False,
        strict: bool = False,
        starts: bool = False,
    ) -> SubmittedPage:
        """Submit jobs, as in job files, all or none; return their ids in the same order.

        For a day, a submit with the ``key`` of an earlier one is the same submit; without one it gets a new key. It is
        therefore sent again if the connection breaks off, and the jobs exist once. A dry run stores nothing and returns
        ids 0. ``strict`` refuses jobs whose deadlines cannot be met. ``starts`` asks for the expected starts of the
        first ten.
        """
        call = calls.submit(jobs, key, dry_run=dry_run, strict=strict, starts=starts)
        try:
            return await self.ask(call)
        except Broken:
            return await self.ask(call)

    async def job(self, id: int, wait: float = 0.0) -> JobView:
        """Return one job; with ``wait`` the answer comes when it has ended, or after that many seconds."""
        return await self.ask(calls.job(id, wait))

    async def jobs(
        self,
        *,
        limit: int = JOBS_OF_A_PAGE,
        before: int | None = None,
        group: str = "",
        user: str = "",
        state: str = "",
        name: str = "",
        type: str = "",  # noqa: A002 (as the API calls it)
        family: int | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> JobsPage:
        """Return jobs, newest first; ``before`` is the ``next`` of the previous page.

        ``since`` (included) and ``until`` (excluded) bound their submission, in seconds since the epoch. ``family``
        lists the runs of a cron job, the steps of a dag, or the members of a service or database; the latter are listed
        only there.
        """
        query = JobsQuery(
            limit=limit,
            before=before,
            group=group,
            user=user,
            state=state,
            name=name,
            type=type,
            family=family,
            since=since,
            until=until,
        )
        return await self.ask(calls.jobs(query))

    async def tasks(
        self, id: int, *, limit: int = TASKS_OF_A_PAGE, after: int | None = None, state: str = ""
    ) -> TasksPage:
        """Return tasks of a job by index; ``after`` is the ``next`` of the previous page."""
        return await self.ask(calls.tasks(id, TasksQuery(limit=limit, after=after, state=state)))

    async def task(self, id: int, task: int) -> TaskView:
        """Return one task of a job."""
        return await self.ask(calls.task(id, task))

    async def hold(self, id: int) -> JobView:
        """Hold a job: none of its tasks starts until it is released; running tasks go on."""
        return await self.ask(calls.hold(id))

    async def release(self, id: int) -> JobView:
        """Release a held job."""
        return await self.ask(calls.release(id))

    async def cancel(self, id: int) -> JobView:
        """Cancel a job and all its tasks; a finished job stays as it is."""
        return await self.ask(calls.cancel(id))

    async def hold_jobs(self, ids: Sequence[int]) -> HeldJobs:
        """Hold several jobs, or none if an id is unknown or its job has ended."""
        return await self.ask(calls.hold_jobs(ids))

    async def release_jobs(self, ids: Sequence[int]) -> HeldJobs:
        """Release several jobs, or none if an id is unknown or its job has ended."""
        return await self.ask(calls.release_jobs(ids))

    async def cancel_jobs(self, ids: Sequence[int]) -> CancelledJobs:
        """Cancel several jobs in order, or none if one does not exist."""
        return await self.ask(calls.cancel_jobs(ids))

    async def apply(self, jobs: Sequence[Mapping[str, object]], *, dry_run: bool = False) -> AppliedJobs:
        """Create or update services, databases and cron jobs, all or none; return the results in the same order."""
        return await self.ask(calls.apply(jobs, dry_run=dry_run))

    async def scale(self, id: int, tasks: int) -> JobView:
        """Set the number of tasks of a service or database."""
        return await self.ask(calls.scale(id, tasks))

    async def resume(self, id: int) -> SubmittedPage:
        """Submit the unsuccessful steps of a finished dag as a new dag."""
        return await self.ask(calls.resume(id))

    async def signal(self, id: int, signal: str, task: int | None = None) -> JobView:
        """Send a signal, such as ``INT``, to the processes of a running task; ``None``: of all running tasks."""
        return await self.ask(calls.signal(id, signal, task))

    def logs(
        self,
        id: int,
        task: int = 0,
        stream: str = "stdout",
        offset: int = 0,
        *,
        follow: bool = False,
        attempt: int | None = None,
        since: int | None = None,
    ) -> AsyncIterator[Piece]:
        """Yield the output of a task to ``stdout`` or ``stderr`` from byte ``offset`` on.

        It is that of the last attempt, or of ``attempt``. With ``follow`` it goes on until the task ends, through all
        further attempts. To resume a broken connection, pass the ``end`` of the last piece as ``offset``, and its
        ``attempt`` as ``since``. A piece says which bytes the log has not kept; an empty piece is a sign of life.
        """
        call = calls.logs(id, task, stream, offset, follow=follow, attempt=attempt, since=since)
        return self.read(call, follow=follow)

    async def exec(
        self,
        id: int,
        command: Sequence[str],
        task: int = 0,
        *,
        environment: Mapping[str, str] | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> Command:
        """Run a command in a running task, with a ``terminal`` of (rows, columns) or with pipes; see ``Command``."""
        from cress.client.execution import run_inside

        path = job_calls.EXEC.at(id, task)
        given = dict(environment or {})

        def begin() -> Command:
            with told(self.url, self.timeout, self._advice):
                return run_inside(self._route, path, command, environment=given, terminal=terminal, advice=self._advice)

        for pause in pauses():
            await sleep(pause)
            try:
                return await in_thread(begin)
            except Elsewhere as moved:
                self._follow(moved)
        raise no_leader()

    # --- groups, nodes, the cluster -----------------------------------------------------------------------------------

    async def groups(self) -> GroupsPage:
        """Return the groups, and all of them as a text that can be applied again."""
        return await self.ask(calls.groups())

    async def apply_groups(
        self, text: str, *, file: str = "", moves: Mapping[str, str] | None = None, dry_run: bool = False
    ) -> Applied:
        """Replace all groups by ``text``; ``moves`` are the new groups for jobs of removed ones.

        A dry run changes nothing.
        """
        return await self.ask(calls.apply_groups(text, file=file, moves=moves, dry_run=dry_run))

    async def set_group(self, name: str, values: Mapping[str, str | None], *, dry_run: bool = False) -> Applied:
        """Change keywords of one group (``MaxRunningJobs``, ``Submit``); ``None`` removes a keyword.

        A dry run changes nothing.
        """
        return await self.ask(calls.set_group(name, values, dry_run=dry_run))

    async def config(self) -> ConfigView:
        """Return the configuration of the cluster."""
        return await self.ask(calls.config())

    async def change_config(
        self,
        text: str | None = None,
        *,
        options: Mapping[str, str | None] | None = None,
        licences: Mapping[str, int | None] | None = None,
        revision: int = 0,
        what: str = "",
        file: str = "",
        moves: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> ConfiguredView:
        """Replace the configuration by a document, or change single options and licences (None: the default, none).

        It is refused unless ``revision`` is the present one (0: any). ``what`` is its description in the history,
        ``file`` the document's name in messages.
        """
        body = {
            "text": text,
            "options": dict(options or {}),
            "licences": dict(licences or {}),
            "revision": revision,
            "what": what,
            "file": file,
            "moves": dict(moves or {}),
        }
        return await self.ask(calls.change_config(body, dry_run=dry_run))

    async def config_history(self) -> tuple[RevisionView, ...]:
        """Return the stored revisions of the configuration, newest first, without their documents."""
        page = await self.ask(calls.config_history())
        return page.revisions

    async def config_revision(self, number: int) -> RevisionView:
        """Return a revision of the configuration with its document."""
        return await self.ask(calls.config_revision(number))

    async def nodes(self) -> tuple[NodeView, ...]:
        """Return the nodes in the order of their registration."""
        page = await self.match_nodes()
        return page.nodes

    async def match_nodes(self, where: str = "", rank: str = "") -> NodesPage:
        """Return all nodes in the same order, matched with a requirement and a rank, and notes on these."""
        page = await self.ask(calls.nodes(where, rank))
        found = [*page.nodes]
        while page.next is not None:
            page = await self.ask(calls.nodes(where, rank, page.next))
            found += page.nodes
        return NodesPage(nodes=tuple(found), notes=page.notes)

    async def node(self, name: str) -> NodeView:
        """Return one node."""
        return await self.ask(calls.node(name))

    async def cordon(self, name: str, reason: str = "") -> NodeView:
        """Exclude a node from new tasks; running tasks go on."""
        return await self.ask(calls.cordon(name, reason))

    async def uncordon(self, name: str) -> NodeView:
        """Let tasks start on a node again."""
        return await self.ask(calls.uncordon(name))

    async def forget(self, name: str) -> NodeView:
        """Declare a node dead: its tasks are lost and run elsewhere. Return its last view."""
        return await self.ask(calls.forget(name))

    async def drain(self, name: str, deadline: float | None = None, reason: str = "") -> NodeView:
        """Drain a node: no new tasks; tasks still running after ``deadline`` seconds, if given, run elsewhere."""
        return await self.ask(calls.drain(name, deadline, reason))

    async def node_settings(self, name: str) -> NodeSettingsPage:
        """Return the settings of a node in the center, the values that its executor reports, and the revisions."""
        return await self.ask(calls.node_settings(name))

    async def set_node(
        self,
        name: str,
        *,
        labels: Mapping[str, Value | None] | None = None,
        revert: int | None = None,
        revision: int | None = None,
        **values: str | bool | None,
    ) -> NodeSettingsPage:
        """Set ``labels`` (None removes one) and ``values`` of a node, or return to a revision. Running tasks go on.

        ``values`` are ``rack``, ``reserve``, ``judged``, ``note``, ``accepts`` and ``repels`` (separated by commas);
        None restores the executor's value. The change is refused if ``revision`` is given and is not the present one.
        """
        body = {"labels": dict(labels or {}), "revert": revert, "revision": revision, **values}
        return await self.ask(calls.set_node(name, body))

    async def usage(
        self, *, group: str = "", since: float | None = None, until: float | None = None, by: str = "hour"
    ) -> UsagePage:
        """Return the usage of groups by ``hour`` or ``day``; ``next`` of a page is ``since`` of the following one."""
        return await self.ask(calls.usage(UsageQuery(group=group, since=since, until=until, by=by)))

    async def plan_moves(
        self, job: int | None = None, goals: Sequence[str] = (), moves: int | None = None, lost: float | None = None
    ) -> PlanView:
        """Return the moves that let a waiting job start, or that serve these goals; nothing is moved."""
        return await self.ask(calls.plan_moves(job, goals, moves, lost))

    async def begin_moves(self, plan: PlanView) -> RoundView:
        """Begin a round that carries out a plan."""
        return await self.ask(calls.begin_moves(plan))

    async def stop_moves(self) -> RoundView:
        """End the current round after its present step."""
        return await self.ask(calls.stop_moves())

    async def reserve(self, name: str, fields: calls.ReservationKeys) -> ReservationView:
        """Make an advance reservation."""
        return await self.ask(calls.reserve(name, fields))

    async def reservations(self) -> ReservationsPage:
        """List the advance reservations."""
        return await self.ask(calls.reservations())

    async def remove_reservation(self, name: str) -> ReservationView:
        """Remove an advance reservation."""
        return await self.ask(calls.remove_reservation(name))

    async def last_round(self) -> RoundView:
        """Return the current round of moves, or else the last one."""
        return await self.ask(calls.last_round())

    async def leases(self, workload: str = "", group: str = "", after: int | None = None) -> LeasesPage:
        """Return leases of workloads, with their users and their loans."""
        return await self.ask(calls.leases(workload, group, after=after))

    async def lease(self, id: str) -> LeasesPage:
        """Return one lease (JOB.TASK), or all of one request (JOB)."""
        return await self.ask(calls.lease(id))

    async def request_leases(self, body: Mapping[str, object], key: str = "") -> LeasesPage:
        """Request leases."""
        return await self.ask(calls.request_leases(body, key))

    async def use_lease(self, id: str, amounts: str | Mapping[str, object]) -> LeasesPage:
        """Report the holder's own use of a lease."""
        return await self.ask(calls.use_lease(id, amounts))

    async def submit_in_lease(self, id: str, job: Mapping[str, object], key: str = "") -> SubmittedPage:
        """Submit a job that runs in a lease."""
        return await self.ask(calls.submit_in_lease(id, job, key))

    async def grow_lease(self, id: str, count: int = 1, key: str = "") -> LeasesPage:
        """Request more leases of the same kind."""
        return await self.ask(calls.grow_lease(id, count, key))

    async def shrink_lease(self, id: str, count: int = 1) -> LeasesPage:
        """Release some leases of one request."""
        return await self.ask(calls.shrink_lease(id, count))

    async def renew_lease(self, id: str) -> LeasesPage:
        """Renew the terms of the leases of a workload."""
        return await self.ask(calls.renew_lease(id))

    async def release_lease(self, id: str) -> LeasesPage:
        """Return a lease, or all leases of one request."""
        return await self.ask(calls.release_lease(id))

    async def licences(self) -> LicencesPage:
        """Return the licences of the cluster, and the jobs that have some."""
        return await self.ask(calls.licences())

    async def centers(self) -> CentersPage:
        """Return the centers that share a store, with the leader and the one that answers."""
        return await self.ask(calls.centers())

    async def hand_over(self) -> HandedOver:
        """Make another center the leader; this one must be the leader."""
        return await self.ask(calls.hand_over())

    async def state(self) -> StateView:
        """Return key figures of the cluster."""
        return await self.ask(calls.state())

    def events(
        self,
        *,
        after: int | None = None,
        job: int | None = None,
        group: str = "",
        follow: bool = True,
        last: int | None = None,
    ) -> AsyncIterator[EventView]:
        """Yield events from now on, or after event ``after``; without ``follow`` only stored ones.

        With ``last`` they begin at most so many events before the latest one.

        To resume a broken connection (``Unreachable``), pass the ``number`` of the last event as ``after``.
        """
        return _events(self, calls.events(after, job, group, follow=follow, last=last))

    # --- names --------------------------------------------------------------------------------------------------------

    async def resolve(self, name: str, *, group: str = "") -> tuple[PlaceView, ...]:
        """Return the places of running tasks of the jobs with a name, in one group or all, by job and task."""
        page = await self.ask(calls.resolve(name, group))
        return page.places

    async def watch_names(self, name: str, *, group: str = "") -> AsyncIterator[tuple[PlaceView, ...]]:
        """Yield the places of a name now and after every change.

        After a broken connection (``Unreachable``) call it again: its first answer is complete.
        """
        places: dict[int, PlaceView] = {}
        async for change in _events(self, calls.watch_name(name, group)):
            if change.all:
                places.clear()
            for attempt in change.gone:
                places.pop(attempt, None)
            places |= {place.attempt: place for place in change.places}
            yield tuple(sorted(places.values(), key=lambda place: (place.job, place.task)))

    async def health(self) -> dict[str, Any]:
        """Return the health of the center; no token is needed."""
        return await self.ask(calls.health())

    # --- requests -----------------------------------------------------------------------------------------------------

    async def ask(self, call: PreparedCall[_T]) -> _T:
        """Return the answer to one call."""
        content, headers = wire.content_of(call)
        for pause in pauses():
            await sleep(pause)
            try:
                with told(self.url, self.timeout, self._advice):
                    answer = await self._http.request(
                        call.row.method,
                        call.path,
                        params=wire.query_of(call.query),
                        content=content,
                        headers=headers,
                        timeout=_time_limits(self.timeout + call.wait),
                    )
                return answer_in(answer, call, self.url)
            except Unreachable:
                # If there are several centers, another one may answer.
                if not (call.row.again and await in_thread(self.look)):
                    raise
            except Elsewhere as moved:
                self._follow(moved)
        raise no_leader()

    async def read(self, call: PreparedCall[bytes], *, follow: bool) -> AsyncGenerator[Piece, None]:
        """Yield a log piece by piece; with ``follow``, also signs of life while there is no output."""
        pieces = wire.Pieces()
        async with self.answer(call, LOG_SECONDS if follow else self.timeout) as answer:
            async for data in answer.aiter_bytes():
                for piece in pieces.feed(data):
                    yield piece

    @asynccontextmanager
    async def answer(self, call: PreparedCall[_T], silence: float | None) -> AsyncIterator[httpx.Response]:
        """Yield an answer that arrives in parts; ``silence`` is its longest pause in seconds."""
        import httpx

        budget = httpx.Timeout(self.timeout, connect=CONNECT_SECONDS, read=silence)
        query = wire.query_of(call.query)
        for pause in pauses():
            await sleep(pause)
            with told(self.url, self.timeout, self._advice):
                async with self._http.stream(call.row.method, call.path, params=query, timeout=budget) as answer:
                    moved = elsewhere(answer.status_code, answer.headers)
                    if moved is None:
                        if answer.status_code != httpx.codes.OK:
                            await answer.aread()
                            raise refusal_of(answer)
                        yield answer
                        return
            self._follow(moved)
        raise no_leader()


async def _events(client: AsyncHttp, call: PreparedCall[_T]) -> AsyncIterator[_T]:
    """Yield the center's server-sent events one by one."""
    async with client.answer(call, EVENT_SECONDS) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                yield msgspec.json.decode(line.removeprefix("data: "), type=call.row.answer)


def _time_limits(seconds: float) -> httpx.Timeout:
    import httpx

    return httpx.Timeout(seconds, connect=CONNECT_SECONDS)


def connect(data: Path | None = None) -> AsyncHttp:
    """Return a client of the center named by ``data``, the environment or the user's data directory."""
    place = found(None, None, data)
    return AsyncHttp(place.url, place.token, advice=place.advice, find=place.find, socket=place.socket, ca=place.ca)
