"""The center's API as methods: one for each call, typed by the views of ``protocol``."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

import msgspec

import cress
from cress.client.errors import Broken, ClientError, NotFound, Refused, Unauthorized, Unavailable, Unreachable
from cress.protocol.views import (
    Applied,
    ErrorView,
    EventView,
    Fault,
    GroupsPage,
    JobsPage,
    JobView,
    NodesPage,
    NodeView,
    PlacesChange,
    PlacesPage,
    PlaceView,
    StateView,
    SubmittedPage,
    TasksPage,
    TaskView,
    UsagePage,
)

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
# The center gives a sign of life every 15 s to those who follow its events.
EVENT_SECONDS = 45.0
# More connections than this at once only wait for each other.
CONNECTIONS = 100
# The center reads no more, and hangs up in the middle of it.
MOST_BODY = 16 * 2**20

_T = TypeVar("_T")


class Client:
    """A connection to a center, for use by several threads; close it, or use it in a ``with``.

    ``timeout`` is what an answer may take, in seconds; waiting that was asked for comes on top. ``advice`` is said when
    nothing listens there. Every method raises ``ClientError``: ``Unreachable``, ``Unauthorized``, ``NotFound``,
    ``Refused`` or ``Unavailable``.
    """

    def __init__(self, url: str, token: str, timeout: float = ANSWER_SECONDS, advice: str = "") -> None:
        import httpx  # a tenth of a second, which nobody pays who only asks for help

        self.url = url.rstrip("/")
        self.timeout = timeout
        self._advice = f"; {advice}" if advice else ""
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}", "User-Agent": f"cress/{cress.__version__}"},
            timeout=self._patience(0.0),
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
            # A proxy for the world outside would be asked for a center on this machine.
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def submit(self, jobs: Sequence[Mapping[str, object]], *, key: str = "") -> SubmittedPage:
        """Submit jobs, as in job files, together or not at all; their ids in the same order.

        A submit with the ``key`` of an earlier one is the same one, for a day; without one it gets a key of its own. So
        it is sent again when the connection breaks off, and the jobs are there once.
        """
        body = {"jobs": list(jobs)}
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        try:
            return self._call(SubmittedPage, "POST", "/v1/jobs", body=body, headers=headers)
        except Broken:
            return self._call(SubmittedPage, "POST", "/v1/jobs", body=body, headers=headers)

    def job(self, id: int, wait: float = 0.0) -> JobView:
        """One job; with ``wait`` the answer comes when it is over, or after so many seconds."""
        query = {"wait": f"{wait:g}"} if wait else {}
        return self._call(JobView, "GET", f"/v1/jobs/{id}", query=query, wait=wait)

    def jobs(
        self,
        *,
        limit: int | None = None,
        before: int | None = None,
        group: str = "",
        user: str = "",
        state: str = "",
        name: str = "",
        since: float | None = None,
        until: float | None = None,
    ) -> JobsPage:
        """Jobs, newest first; ``before`` is the ``next`` of the page before.

        Those submitted from ``since`` on and before ``until``, in seconds since the epoch.
        """
        words = {"group": group, "user": user, "state": state, "name": name}
        query = {"limit": limit, "before": before, **words, "since": since, "until": until}
        return self._call(JobsPage, "GET", "/v1/jobs", query=query)

    def tasks(self, id: int, *, limit: int | None = None, after: int | None = None, state: str = "") -> TasksPage:
        """Tasks of a job by index; ``after`` is the ``next`` of the page before."""
        query = {"limit": limit, "after": after, "state": state}
        return self._call(TasksPage, "GET", f"/v1/jobs/{id}/tasks", query=query)

    def task(self, id: int, task: int) -> TaskView:
        """One task of a job."""
        return self._call(TaskView, "GET", f"/v1/jobs/{id}/tasks/{task}")

    def hold(self, id: int) -> JobView:
        """Start nothing more of a job until it is released; what runs of it goes on."""
        return self._call(JobView, "POST", f"/v1/jobs/{id}/hold", body={})

    def release(self, id: int) -> JobView:
        """Let a job that was held start."""
        return self._call(JobView, "POST", f"/v1/jobs/{id}/release", body={})

    def cancel(self, id: int) -> JobView:
        """Stop a job and all its tasks; one that is over already stays as it is."""
        return self._call(JobView, "POST", f"/v1/jobs/{id}/cancel", body={})

    def signal(self, id: int, signal: str, task: int | None = None) -> JobView:
        """Send a signal, such as ``INT``, to the processes of a running task; ``None``: of all that run."""
        return self._call(JobView, "POST", f"/v1/jobs/{id}/signal", body={"signal": signal, "task": task})

    def logs(
        self,
        id: int,
        task: int = 0,
        stream: str = "stdout",
        offset: int = 0,
        *,
        follow: bool = False,
        attempt: int | None = None,
    ) -> Iterator[bytes]:
        """What a task wrote to ``stdout`` or ``stderr`` from byte ``offset`` on, in its last attempt or in ``attempt``.

        With ``follow`` it goes on until the task is over, and with the next attempt when it is tried again.
        """
        import httpx

        query = _query(
            {"task": task, "stream": stream, "offset": offset, "follow": "true" if follow else "", "attempt": attempt}
        )
        # Someone who follows hears nothing for as long as the task says nothing.
        patience = httpx.Timeout(self.timeout, connect=CONNECT_SECONDS, read=None if follow else self.timeout)
        with self._told(), self._http.stream("GET", f"/v1/jobs/{id}/logs", params=query, timeout=patience) as answer:
            if answer.status_code != httpx.codes.OK:
                answer.read()
                raise _refusal(answer)
            yield from answer.iter_bytes()

    # --- groups, nodes, the whole -------------------------------------------------------------------------------------

    def groups(self) -> GroupsPage:
        """The groups, and all of them as a text that can be applied again."""
        return self._call(GroupsPage, "GET", "/v1/groups")

    def apply_groups(
        self, text: str, *, file: str = "", moves: Mapping[str, str] | None = None, dry_run: bool = False
    ) -> Applied:
        """Make ``text`` the groups; ``moves`` says where the jobs of removed groups go; a dry run changes nothing."""
        query = {"dry_run": "true" if dry_run else ""}
        body = {"text": text, "file": file, "moves": dict(moves or {})}
        return self._call(Applied, "PUT", "/v1/groups", query=query, body=body)

    def nodes(self) -> tuple[NodeView, ...]:
        """The nodes, in the order in which they registered."""
        return self.match_nodes().nodes

    def match_nodes(self, where: str = "", rank: str = "") -> NodesPage:
        """All nodes in that order too, each with how it stands to a requirement and a rank; and what is odd about these."""
        query = {"where": where, "rank": rank}
        found: list[NodeView] = []
        page = self._call(NodesPage, "GET", "/v1/nodes", query=query)
        found += page.nodes
        while page.next is not None:
            page = self._call(NodesPage, "GET", "/v1/nodes", query={**query, "after": page.next})
            found += page.nodes
        return NodesPage(nodes=tuple(found), notes=page.notes)

    def node(self, name: str) -> NodeView:
        """One node."""
        return self._call(NodeView, "GET", f"/v1/nodes/{quote(name, safe='')}")

    def cordon(self, name: str, reason: str = "") -> NodeView:
        """Keep new tasks off a node; those that run there go on."""
        return self._call(NodeView, "POST", f"/v1/nodes/{quote(name, safe='')}/cordon", body={"reason": reason})

    def uncordon(self, name: str) -> NodeView:
        """Let tasks start on a node again."""
        return self._call(NodeView, "POST", f"/v1/nodes/{quote(name, safe='')}/uncordon", body={"reason": ""})

    def forget(self, name: str) -> NodeView:
        """Say that a node is dead: what it ran is lost and runs elsewhere. How the node was."""
        return self._call(NodeView, "POST", f"/v1/nodes/{quote(name, safe='')}/forget", body={})

    def drain(self, name: str, deadline: float, reason: str = "") -> NodeView:
        """Keep new tasks off a node; what still runs there after ``deadline`` seconds is stopped and runs elsewhere."""
        body = {"deadline": deadline, "reason": reason}
        return self._call(NodeView, "POST", f"/v1/nodes/{quote(name, safe='')}/drain", body=body)

    def usage(
        self, *, group: str = "", since: float | None = None, until: float | None = None, by: str = "hour"
    ) -> UsagePage:
        """What groups used, by ``hour`` or ``day``; the ``next`` of a page is ``since`` of the following one."""
        query = {"group": group, "since": since, "until": until, "by": by}
        return self._call(UsagePage, "GET", "/v1/usage", query=query)

    def state(self) -> StateView:
        """The cluster in a few numbers."""
        return self._call(StateView, "GET", "/v1/state")

    def events(
        self, *, after: int | None = None, job: int | None = None, group: str = "", follow: bool = True
    ) -> Iterator[EventView]:
        """What happens, from now on or behind event ``after``; without ``follow`` what is kept, and then it ends.

        When the connection breaks off (``Unreachable``), go on with the ``number`` of the last one as ``after``.
        """
        query = {"after": after, "job": job, "group": group, "follow": "true" if follow else "false"}
        return self._stream(EventView, "/v1/events", query)

    # --- names --------------------------------------------------------------------------------------------------------

    def resolve(self, name: str, *, group: str = "") -> tuple[PlaceView, ...]:
        """Where the running tasks of the jobs of a name are, in one group or in all, by job and task."""
        return self._call(PlacesPage, "GET", f"/v1/names/{quote(name, safe='')}", query={"group": group}).places

    def watch_names(self, name: str, *, group: str = "") -> Iterator[tuple[PlaceView, ...]]:
        """The same, now and whenever it is another answer.

        When the connection breaks off (``Unreachable``), begin anew: the first answer is the whole one again.
        """
        places: dict[int, PlaceView] = {}
        for change in self._stream(PlacesChange, f"/v1/names/{quote(name, safe='')}/watch", {"group": group}):
            if change.all:
                places.clear()
            for attempt in change.gone:
                places.pop(attempt, None)
            places |= {place.attempt: place for place in change.places}
            yield tuple(sorted(places.values(), key=lambda place: (place.job, place.task)))

    def health(self) -> dict[str, Any]:
        """Whether the center is well; it answers this without a token too."""
        return self._call(dict[str, Any], "GET", "/v1/health")

    # --- how ----------------------------------------------------------------------------------------------------------

    def _call(
        self,
        kind: type[_T],
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        wait: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> _T:
        answer = self._do(method, path, query=query, body=body, wait=wait, more=headers)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Unreachable(f"what answers at {self.url} does not speak as a center of this version does") from None

    def _do(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        wait: float = 0.0,
        more: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        content, headers = None, dict(more or {})
        if body is not None:
            content = _encode(body)
            headers["Content-Type"] = "application/json"
            if len(content) > MOST_BODY:
                raise Refused(f"what is sent has more than {MOST_BODY // 2**20} MB together", "too_large")
        with self._told():
            answer = self._http.request(
                method,
                path,
                params=_query(query or {}),
                content=content,
                headers=headers,
                timeout=self._patience(wait),
            )
        if not answer.is_success:
            raise _refusal(answer)
        return answer

    def _stream(self, kind: type[_T], path: str, query: Mapping[str, object]) -> Iterator[_T]:
        """What the center says in server-sent events, one by one."""
        import httpx

        patience = httpx.Timeout(self.timeout, connect=CONNECT_SECONDS, read=EVENT_SECONDS)
        with self._told(), self._http.stream("GET", path, params=_query(query), timeout=patience) as answer:
            if answer.status_code != httpx.codes.OK:
                answer.read()
                raise _refusal(answer)
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield msgspec.json.decode(line.removeprefix("data: "), type=kind)

    def _patience(self, wait: float) -> httpx.Timeout:
        import httpx

        return httpx.Timeout(self.timeout + wait, connect=CONNECT_SECONDS)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the connection as sentences."""
        import httpx

        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(f"no center answers at {self.url} ({_cause(error)}){self._advice}") from None
        except httpx.TimeoutException:
            raise Unreachable(f"the center at {self.url} gave no answer within {self.timeout:g} s") from None
        except (httpx.TransportError, httpx.StreamError, httpx.DecodingError) as error:
            raise Broken(f"the connection to the center at {self.url} broke off ({_cause(error)})") from None


def _cause(error: BaseException) -> str:
    """What the system said, without numbers and class names."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror.lower()
        inner = inner.__cause__ or inner.__context__
    return (str(error) or type(error).__name__).rstrip(".").lower()


def _encode(body: Mapping[str, object]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        # Broken characters go on as escapes: the center says in which field they are.
        return json.dumps(body).encode()


def _query(given: Mapping[str, object]) -> dict[str, str]:
    return {key: str(value) for key, value in given.items() if value is not None and value != ""}


def _refusal(answer: httpx.Response) -> ClientError:
    """The error that an answer stands for."""
    code = ""
    faults: tuple[Fault, ...] = ()
    try:
        view = msgspec.json.decode(answer.content, type=ErrorView)
        code, message, faults = view.code, view.message, view.faults
    except (msgspec.DecodeError, UnicodeDecodeError):
        address = answer.url.copy_with(raw_path=b"/")
        message = f"what answers at {address} is no center, or is ill (HTTP {answer.status_code})"
    return _by_status(answer.status_code, code, message, faults)


def _by_status(status: int, code: str, message: str, faults: tuple[Fault, ...]) -> ClientError:
    if status in {401, 403}:
        return Unauthorized(message)
    if status == 404 and code:
        return NotFound(message)
    if status == 409:
        return Refused(message, "not_accepted", faults)
    if status in {400, 405, 413, 415, 422} and code:
        return Refused(message, code, faults)
    return Unavailable(message)
