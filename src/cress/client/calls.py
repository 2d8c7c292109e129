"""Calls of the center's API as values: the request and the type of the answer. No connection is needed.

Whoever has one carries them out, waiting or not: ``http.Client`` and ``asynchttp.AsyncHttp``.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from cress.client.errors import ClientError, NotFound, Refused, Unauthorized, Unavailable, Unreachable
from cress.protocol.leadership import CentersPage, HandedOver
from cress.protocol.licenceviews import LicencesPage
from cress.protocol.logs import Parts, Piece, Shown
from cress.protocol.views import (
    AppliedJobs,
    CancelledJobs,
    ErrorView,
    EventView,
    Fault,
    GroupsPage,
    HeldJobs,
    JobsPage,
    JobView,
    NodesPage,
    NodeView,
    PlacesPage,
    StateView,
    SubmittedPage,
    TasksPage,
    TaskView,
    UsagePage,
)

# The center reads no more, and hangs up in the middle of it.
MOST_BODY = 16 * 2**20

# A cancel of many jobs may take so much longer than other calls.
CANCEL_SECONDS = 120.0

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request whose answer is read as ``kind``; ``wait`` is what the center may take longer, in seconds.

    A call that is ``again`` may be sent a second time when nobody knows whether the first one arrived.
    """

    kind: type[T]
    method: str
    path: str
    query: Mapping[str, object] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    wait: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)
    again: bool = True


# --- jobs -------------------------------------------------------------------------------------------------------------


def submit(
    jobs: Sequence[Mapping[str, object]], key: str = "", *, dry_run: bool = False, strict: bool = False
) -> Call[SubmittedPage]:
    """Submit jobs together; with its ``Idempotency-Key`` the same submit is taken once, however often it is sent.

    A dry run asks what would be said, and stores nothing. ``strict``: jobs whose deadlines cannot be met are refused.
    """
    query = {name: "true" for name, wanted in (("dry_run", dry_run), ("strict", strict)) if wanted}
    headers = {"Idempotency-Key": key or secrets.token_hex(16)}
    return Call(SubmittedPage, "POST", "/v1/jobs", query, body={"jobs": list(jobs)}, headers=headers)


def apply(jobs: Sequence[Mapping[str, object]], *, dry_run: bool = False) -> Call[AppliedJobs]:
    """Create or update services, databases and cron jobs."""
    return Call(AppliedJobs, "POST", "/v1/apply", body={"jobs": list(jobs), "dry_run": dry_run})


def job(id: int, wait: float = 0.0) -> Call[JobView]:
    """One job; with ``wait`` the answer comes when it is over, or after so many seconds."""
    return Call(JobView, "GET", f"/v1/jobs/{id}", {"wait": f"{wait:g}"} if wait else {}, wait=wait)


def jobs(**query: object) -> Call[JobsPage]:
    """Jobs, newest first."""
    return Call(JobsPage, "GET", "/v1/jobs", query)


def tasks(id: int, **query: object) -> Call[TasksPage]:
    """Tasks of a job by index."""
    return Call(TasksPage, "GET", f"/v1/jobs/{id}/tasks", query)


def task(id: int, task: int) -> Call[TaskView]:
    """One task of a job."""
    return Call(TaskView, "GET", f"/v1/jobs/{id}/tasks/{task}")


def hold(id: int) -> Call[JobView]:
    """Start nothing more of a job."""
    return Call(JobView, "POST", f"/v1/jobs/{id}/hold", body={})


def release(id: int) -> Call[JobView]:
    """Let a job that was held start."""
    return Call(JobView, "POST", f"/v1/jobs/{id}/release", body={})


def hold_jobs(ids: Sequence[int]) -> Call[HeldJobs]:
    """Hold several jobs, all or none."""
    return Call(HeldJobs, "POST", "/v1/jobs/hold", body={"jobs": list(ids)}, wait=CANCEL_SECONDS)


def release_jobs(ids: Sequence[int]) -> Call[HeldJobs]:
    """Release several jobs that were held, all or none."""
    return Call(HeldJobs, "POST", "/v1/jobs/release", body={"jobs": list(ids)}, wait=CANCEL_SECONDS)


def cancel(id: int) -> Call[JobView]:
    """Stop a job and all its tasks."""
    return Call(JobView, "POST", f"/v1/jobs/{id}/cancel", body={})


def cancel_jobs(ids: Sequence[int]) -> Call[CancelledJobs]:
    """Stop several jobs; none of them if one does not exist."""
    return Call(CancelledJobs, "POST", "/v1/jobs/cancel", body={"jobs": list(ids)}, wait=CANCEL_SECONDS)


def signal(id: int, signal: str, task: int | None = None) -> Call[JobView]:
    """Send a signal to one running task or to all."""
    body = {"signal": signal, "task": task}
    return Call(JobView, "POST", f"/v1/jobs/{id}/signal", body=body, again=False)


def scale(id: int, tasks: int) -> Call[JobView]:
    """Change the task count of a service or database."""
    return Call(JobView, "POST", f"/v1/jobs/{id}/scale", body={"tasks": tasks})


def resume(id: int) -> Call[SubmittedPage]:
    """A new dag of the steps of one that did not succeed."""
    headers = {"Idempotency-Key": secrets.token_hex(16)}
    return Call(SubmittedPage, "POST", f"/v1/jobs/{id}/resume", body={}, headers=headers, again=False)


def logs(
    id: int, task: int, stream: str, offset: int, *, follow: bool, attempt: int | None, since: int | None = None
) -> Call[bytes]:
    """Read the output of a task, as bytes, piece by piece."""
    query = {"task": task, "stream": stream, "offset": offset, "follow": "true" if follow else "", "attempt": attempt}
    return Call(bytes, "GET", f"/v1/jobs/{id}/logs", {**query, "since": since, "framed": "true"})


class Pieces:
    """Makes pieces of a log of what comes over the wire."""

    def __init__(self) -> None:
        self._parts = Parts()
        self._shown = Shown()

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Return what is shown; a sign of life is an empty piece."""
        for part in self._parts.feed(data):
            if part.data or part.gone:
                yield from self._shown.show(part)
            elif part.attempt:
                yield Piece(b"", part.attempt, part.end)


# --- groups, nodes, the whole -----------------------------------------------------------------------------------------


def groups() -> Call[GroupsPage]:
    """The groups."""
    return Call(GroupsPage, "GET", "/v1/groups")


def nodes(where: str = "", rank: str = "", after: str = "") -> Call[NodesPage]:
    """A page of nodes."""
    return Call(NodesPage, "GET", "/v1/nodes", {"where": where, "rank": rank, "after": after})


def node(name: str) -> Call[NodeView]:
    """One node."""
    return Call(NodeView, "GET", f"/v1/nodes/{quote(name, safe='')}")


def centers() -> Call[CentersPage]:
    """The centers that share a store."""
    return Call(CentersPage, "GET", "/v1/centers")


def hand_over() -> Call[HandedOver]:
    """Have another center lead."""
    return Call(HandedOver, "POST", "/v1/centers/hand-over", body={})


def licences() -> Call[LicencesPage]:
    """The licences of the cluster."""
    return Call(LicencesPage, "GET", "/v1/licences")


def usage(**query: object) -> Call[UsagePage]:
    """Read the usage of groups."""
    return Call(UsagePage, "GET", "/v1/usage", query)


def state() -> Call[StateView]:
    """The cluster in a few numbers."""
    return Call(StateView, "GET", "/v1/state")


def events(after: int | None, job: int | None, group: str, *, follow: bool) -> Call[EventView]:
    """Read events as server-sent events."""
    query = {"after": after, "job": job, "group": group, "follow": "true" if follow else "false"}
    return Call(EventView, "GET", "/v1/events", query)


def resolve(name: str, group: str = "") -> Call[PlacesPage]:
    """Look up the places of the running tasks of the jobs with a name."""
    return Call(PlacesPage, "GET", f"/v1/names/{quote(name, safe='')}", {"group": group})


# --- what goes over the wire ------------------------------------------------------------------------------------------


def content_of(call: Call[Any]) -> tuple[bytes | None, dict[str, str]]:
    """The body and the headers of a call. Raises ``Refused`` when the center would not read so much."""
    if call.body is None:
        return None, dict(call.headers)
    content = _encode(call.body)
    if len(content) > MOST_BODY:
        raise Refused(f"what is sent has more than {MOST_BODY // 2**20} MB together", "too_large")
    return content, {**call.headers, "Content-Type": "application/json"}


def query_of(given: Mapping[str, object]) -> dict[str, str]:
    """The query of an address, without what is not given."""
    return {key: str(value) for key, value in given.items() if value is not None and value != ""}


def answer_of(call: Call[T], content: bytes, url: str) -> T:
    """Decode a good answer. Raises ``Unreachable`` when it cannot come from a center."""
    try:
        return msgspec.json.decode(content, type=call.kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = Unreachable(f"what answers at {url} does not speak as a center of this version does")
        error.passing = False
        raise error from None


def refusal(status: int, content: bytes, url: str) -> ClientError:
    """The error that an answer stands for."""
    code = ""
    faults: tuple[Fault, ...] = ()
    try:
        view = msgspec.json.decode(content, type=ErrorView)
        code, message, faults = view.code, view.message, view.faults
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = f"the server at {url} is not a working center (HTTP {status})"
    if status in {401, 403}:
        return Unauthorized(message)
    if status == 404 and code:
        return NotFound(message)
    if status == 409:
        return Refused(message, "not_accepted", faults)
    if status in {400, 405, 413, 415, 422} and code:
        return Refused(message, code, faults)
    error = Unavailable(message)
    error.passing = status in {429, 502, 503, 504}
    return error


def cause_of(error: BaseException) -> str:
    """Return the system's message about a connection, without numbers and class names."""
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
