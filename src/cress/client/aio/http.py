"""The center's API as methods, one for each call, typed by the views of ``protocol``."""

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
from cress.protocol.lease_views import LeasesPage, LicencesPage, PlanView, ReservationsPage, ReservationView, RoundView
from cress.protocol.logs import Piece
from cress.protocol.queries import JOBS_OF_A_PAGE, TASKS_OF_A_PAGE, JobsQuery, TasksQuery, UsageQuery
from cress.protocol.views import Value

if TYPE_CHECKING:
    import httpx

    from cress.client.execution import Command

CONNECT_SECONDS = 5.0
# The center gives a sign of life every 15 s to those who follow its events.
EVENT_SECONDS = 45.0
# And every 5 s to those who follow a log.
LOG_SECONDS = 20.0
# More connections than this at once only wait for each other.
CONNECTIONS = 100

_T = TypeVar("_T")


class AsyncHttp(LeaderClient):
    """A connection to a center; close it, or use it in a ``with``. Several threads, or one event loop, may use it.

    Waiting that was asked for comes on top of ``timeout``. Every method raises ``ClientError``: ``Unreachable``,
    ``Unauthorized``, ``NotFound``, ``Refused`` or ``Unavailable``.
    """

    _opened: tuple[httpx.AsyncClient, ...] = ()

    def _open(self) -> None:
        import httpx  # a tenth of a second, which nobody pays who only asks for help

        route = self._open_route()
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        self._http = httpx.AsyncClient(
            base_url=route.url,
            headers=route.headers,
            auth=route.auth,
            timeout=self._timeouts(0.0),
            # A proxy for the world outside would be asked for a center on this machine.
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
        self, jobs: Sequence[Mapping[str, object]], *, key: str = "", dry_run: bool = False, strict: bool = False
    ) -> SubmittedPage:
        """Submit jobs, as in job files, together or not at all; their ids in the same order.

        A submit with the ``key`` of an earlier one is the same one, for a day; without one it gets a key of its own. So
        it is sent again when the connection breaks off, and the jobs are there once. A dry run stores nothing: ids are
        0. ``strict``: jobs whose deadlines cannot be met are refused.
        """
        call = calls.submit(jobs, key, dry_run=dry_run, strict=strict)
        try:
            return await self.ask(call)
        except Broken:
            return await self.ask(call)

    async def job(self, id: int, wait: float = 0.0) -> JobView:
        """One job; with ``wait`` the answer comes when it is over, or after so many seconds."""
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
        """Jobs, newest first; ``before`` is the ``next`` of the page before.

        Those submitted from ``since`` on and before ``until``, in seconds since the epoch. Those of a ``family``: runs
        of a cron job, steps of a dag, members of a service or database, which are not there otherwise.
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
        """Tasks of a job by index; ``after`` is the ``next`` of the page before."""
        return await self.ask(calls.tasks(id, TasksQuery(limit=limit, after=after, state=state)))

    async def task(self, id: int, task: int) -> TaskView:
        """One task of a job."""
        return await self.ask(calls.task(id, task))

    async def hold(self, id: int) -> JobView:
        """Start nothing more of a job until it is released; what runs of it goes on."""
        return await self.ask(calls.hold(id))

    async def release(self, id: int) -> JobView:
        """Let a job that was held start."""
        return await self.ask(calls.release(id))

    async def cancel(self, id: int) -> JobView:
        """Stop a job and all its tasks; one that is over already stays as it is."""
        return await self.ask(calls.cancel(id))

    async def hold_jobs(self, ids: Sequence[int]) -> HeldJobs:
        """Hold several jobs; if one of the ids is not a job, or its job is over, none is held."""
        return await self.ask(calls.hold_jobs(ids))

    async def release_jobs(self, ids: Sequence[int]) -> HeldJobs:
        """Release several jobs; if one of the ids is not a job, or its job is over, none is released."""
        return await self.ask(calls.release_jobs(ids))

    async def cancel_jobs(self, ids: Sequence[int]) -> CancelledJobs:
        """Stop several jobs, in their order; none of them if one does not exist."""
        return await self.ask(calls.cancel_jobs(ids))

    async def apply(self, jobs: Sequence[Mapping[str, object]], *, dry_run: bool = False) -> AppliedJobs:
        """Create or update services, databases and cron jobs as these say, all or none; return the results in the same
        order.
        """
        return await self.ask(calls.apply(jobs, dry_run=dry_run))

    async def scale(self, id: int, tasks: int) -> JobView:
        """Give a service or database so many tasks."""
        return await self.ask(calls.scale(id, tasks))

    async def resume(self, id: int) -> SubmittedPage:
        """Submit what is left to do of a dag that is over, as a new dag."""
        return await self.ask(calls.resume(id))

    async def signal(self, id: int, signal: str, task: int | None = None) -> JobView:
        """Send a signal, such as ``INT``, to the processes of a running task; ``None``: of all that run."""
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
        """Read what a task wrote to ``stdout`` or ``stderr`` from byte ``offset`` on, in its last attempt or in
        ``attempt``.

        With ``follow`` it goes on until the task is over, and with the next attempt when it is tried again. When the
        connection breaks off, go on with the ``end`` of the last piece as ``offset``, and its ``attempt`` as ``since``.
        What the log has not kept is a piece that says so, and an empty one is a sign of life.
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
        """Run a command in a task that runs, with a ``terminal`` of (rows, columns) or with pipes; see ``Command``."""
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

    # --- groups, nodes, the whole -------------------------------------------------------------------------------------

    async def groups(self) -> GroupsPage:
        """The groups, and all of them as a text that can be applied again."""
        return await self.ask(calls.groups())

    async def apply_groups(
        self, text: str, *, file: str = "", moves: Mapping[str, str] | None = None, dry_run: bool = False
    ) -> Applied:
        """Make ``text`` the groups; ``moves`` says where the jobs of removed groups go; a dry run changes nothing."""
        return await self.ask(calls.apply_groups(text, file=file, moves=moves, dry_run=dry_run))

    async def set_group(self, name: str, values: Mapping[str, str | None], *, dry_run: bool = False) -> Applied:
        """Change keywords of one group (``MaxRunningJobs``, ``Submit``); ``None``: it is not given any more.

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
        """Make a document the configuration of the cluster, or change single options and licences (None: the default,
        none).

        Refused unless ``revision`` is the present one (0: any). ``what`` is told in the history, ``file`` in messages.
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
        """Return the revisions of the configuration that are kept, newest first, without their documents."""
        page = await self.ask(calls.config_history())
        return page.revisions

    async def config_revision(self, number: int) -> RevisionView:
        """Return a revision of the configuration with its document."""
        return await self.ask(calls.config_revision(number))

    async def nodes(self) -> tuple[NodeView, ...]:
        """The nodes, in the order in which they registered."""
        page = await self.match_nodes()
        return page.nodes

    async def match_nodes(self, where: str = "", rank: str = "") -> NodesPage:
        """All nodes in that order too, each with how it stands to a requirement and a rank; and what is odd about
        these.
        """
        page = await self.ask(calls.nodes(where, rank))
        found = [*page.nodes]
        while page.next is not None:
            page = await self.ask(calls.nodes(where, rank, page.next))
            found += page.nodes
        return NodesPage(nodes=tuple(found), notes=page.notes)

    async def node(self, name: str) -> NodeView:
        """One node."""
        return await self.ask(calls.node(name))

    async def cordon(self, name: str, reason: str = "") -> NodeView:
        """Exclude a node from new tasks; running tasks go on."""
        return await self.ask(calls.cordon(name, reason))

    async def uncordon(self, name: str) -> NodeView:
        """Let tasks start on a node again."""
        return await self.ask(calls.uncordon(name))

    async def forget(self, name: str) -> NodeView:
        """Declare a node dead: its tasks are lost and run elsewhere. How the node was."""
        return await self.ask(calls.forget(name))

    async def drain(self, name: str, deadline: float, reason: str = "") -> NodeView:
        """Keep new tasks off a node; what still runs there after ``deadline`` seconds is stopped and runs elsewhere."""
        return await self.ask(calls.drain(name, deadline, reason))

    async def node_settings(self, name: str) -> NodeSettingsPage:
        """Return what is set of a node in the center, what its executor reports, and the revisions."""
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
        """Set ``labels`` of a node (None: remove it), and of the ``values`` ``rack``, ``reserve``, ``judged``,
        ``note``, ``accepts`` and ``repels`` (with commas between) those that are given (None: what its executor
        reports); or go back to a revision. Tasks that run there go on.

        It is refused unless ``revision`` is the present one, if it is given.
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
        """End the round that is under way after its present step."""
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
        """Return the round of moves that is under way, or the last one."""
        return await self.ask(calls.last_round())

    async def leases(self, workload: str = "", group: str = "", after: int | None = None) -> LeasesPage:
        """Leases of workloads, who uses them and to whom they are lent."""
        return await self.ask(calls.leases(workload, group, after=after))

    async def lease(self, id: str) -> LeasesPage:
        """One lease (JOB.TASK), or all of one request (JOB)."""
        return await self.ask(calls.lease(id))

    async def request_leases(self, body: Mapping[str, object], key: str = "") -> LeasesPage:
        """Ask for leases."""
        return await self.ask(calls.request_leases(body, key))

    async def use_lease(self, id: str, amounts: str | Mapping[str, object]) -> LeasesPage:
        """Say what the holder of a lease uses by itself."""
        return await self.ask(calls.use_lease(id, amounts))

    async def submit_in_lease(self, id: str, job: Mapping[str, object], key: str = "") -> SubmittedPage:
        """Submit a job that runs in a lease."""
        return await self.ask(calls.submit_in_lease(id, job, key))

    async def grow_lease(self, id: str, count: int = 1, key: str = "") -> LeasesPage:
        """Ask for more leases of the same kind."""
        return await self.ask(calls.grow_lease(id, count, key))

    async def shrink_lease(self, id: str, count: int = 1) -> LeasesPage:
        """Release some leases of one request."""
        return await self.ask(calls.shrink_lease(id, count))

    async def renew_lease(self, id: str) -> LeasesPage:
        """Begin the terms of the leases of a workload anew."""
        return await self.ask(calls.renew_lease(id))

    async def release_lease(self, id: str) -> LeasesPage:
        """Give a lease back, or all of one request."""
        return await self.ask(calls.release_lease(id))

    async def licences(self) -> LicencesPage:
        """The licences of the cluster, and who has some."""
        return await self.ask(calls.licences())

    async def centers(self) -> CentersPage:
        """The centers that share a store: which one leads, which one answers."""
        return await self.ask(calls.centers())

    async def hand_over(self) -> HandedOver:
        """Have another center lead; this one must lead itself."""
        return await self.ask(calls.hand_over())

    async def state(self) -> StateView:
        """The cluster in a few numbers."""
        return await self.ask(calls.state())

    def events(
        self, *, after: int | None = None, job: int | None = None, group: str = "", follow: bool = True
    ) -> AsyncIterator[EventView]:
        """Yield events from now on or after event ``after``; without ``follow`` only those that are kept.

        When the connection breaks off (``Unreachable``), go on with the ``number`` of the last one as ``after``.
        """
        return self._events(calls.events(after, job, group, follow=follow))

    # --- names --------------------------------------------------------------------------------------------------------

    async def resolve(self, name: str, *, group: str = "") -> tuple[PlaceView, ...]:
        """Return the places of the running tasks of the jobs with a name, in one group or in all, by job and task."""
        page = await self.ask(calls.resolve(name, group))
        return page.places

    async def watch_names(self, name: str, *, group: str = "") -> AsyncIterator[tuple[PlaceView, ...]]:
        """Yield the places of a name now and after every change.

        When the connection breaks off (``Unreachable``), begin anew: the first answer is the whole one again.
        """
        places: dict[int, PlaceView] = {}
        async for change in self._events(calls.watch_name(name, group)):
            if change.all:
                places.clear()
            for attempt in change.gone:
                places.pop(attempt, None)
            places |= {place.attempt: place for place in change.places}
            yield tuple(sorted(places.values(), key=lambda place: (place.job, place.task)))

    async def health(self) -> dict[str, Any]:
        """Return whether the center is healthy; no token is needed."""
        return await self.ask(calls.health())

    # --- how ----------------------------------------------------------------------------------------------------------

    async def ask(self, call: PreparedCall[_T]) -> _T:
        """The answer to one call."""
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
                        timeout=self._timeouts(call.wait),
                    )
                return answer_in(answer, call, self.url)
            except Unreachable:
                # Of several centers another one may answer.
                if not (call.row.again and await in_thread(self.look)):
                    raise
            except Elsewhere as moved:
                self._follow(moved)
        raise no_leader()

    async def read(self, call: PreparedCall[bytes], *, follow: bool) -> AsyncGenerator[Piece, None]:
        """A log piece by piece; ``follow``: with signs of life while there is nothing to say."""
        pieces = wire.Pieces()
        async with self._answer(call, LOG_SECONDS if follow else self.timeout) as answer:
            async for data in answer.aiter_bytes():
                for piece in pieces.feed(data):
                    yield piece

    async def _events(self, call: PreparedCall[_T]) -> AsyncIterator[_T]:
        """Yield the center's server-sent events one by one."""
        async with self._answer(call, EVENT_SECONDS) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield msgspec.json.decode(line.removeprefix("data: "), type=call.row.answer)

    @asynccontextmanager
    async def _answer(self, call: PreparedCall[_T], silence: float | None) -> AsyncIterator[httpx.Response]:
        """An answer that comes bit by bit; ``silence`` is how long it may pause, in seconds."""
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

    def _timeouts(self, wait: float) -> httpx.Timeout:
        import httpx

        return httpx.Timeout(self.timeout + wait, connect=CONNECT_SECONDS)


def connect(data: Path | None = None) -> AsyncHttp:
    """A client of the center that ``data``, the environment or the user's data directory names."""
    place = found(None, None, data)
    return AsyncHttp(place.url, place.token, advice=place.advice, find=place.find, socket=place.socket, ca=place.ca)
