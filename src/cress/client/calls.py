"""Calls of the center's API as values: a row of the table of calls, with its parameters. No connection is needed.

``Http`` and ``AsyncHttp`` carry them out. Method, path, type of the answer, and whether a call may be repeated come
from the table (``protocol/calls``).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Generic, TypedDict, TypeVar

from cress.protocol.access_views import (
    AuditPage,
    AuthorityView,
    CallerView,
    JoinedView,
    JoinTokensPage,
    JoinTokenView,
    KeyRotated,
    LoginView,
    NewJoinToken,
    NewToken,
    SecretsPage,
    SecretView,
    TokensPage,
    TokenView,
    UsersPage,
    UserView,
)
from cress.protocol.calls import access_calls, cluster_calls, file_calls, job_calls, lease_calls
from cress.protocol.calls.row import CallRow
from cress.protocol.centers import CentersPage, HandedOver
from cress.protocol.cluster_views import (
    Applied,
    ConfiguredView,
    ConfigView,
    EfficiencyPage,
    EventView,
    GroupsPage,
    HistoryView,
    NodeAttemptsPage,
    NodeSettingsPage,
    NodesPage,
    NodeView,
    PastUsePage,
    PlacesChange,
    PlacesPage,
    RevisionView,
    StateView,
    UsagePage,
)
from cress.protocol.file_views import FilesPage, UploadsPage, UploadView
from cress.protocol.job_views import (
    AppliedJobs,
    CancelledJobs,
    ExplanationView,
    GroupExplanationView,
    HeldJobs,
    JobFileView,
    JobsPage,
    JobView,
    NodeExplanationView,
    SubmittedPage,
    TasksPage,
    TaskView,
    VersionsPage,
)
from cress.protocol.lease_views import (
    LeasesPage,
    LicencesPage,
    PlanView,
    ReservationsPage,
    ReservationView,
    RoundView,
    WorkloadsPage,
)
from cress.protocol.queries import (
    AttemptsQuery,
    AuditQuery,
    DryRunQuery,
    EfficiencyQuery,
    EventsQuery,
    FileQuery,
    FilesQuery,
    JobQuery,
    JobsQuery,
    LeaseQuery,
    LeasesQuery,
    LogsQuery,
    MovesQuery,
    NodesQuery,
    PastUseQuery,
    PlacesQuery,
    PlacesStreamQuery,
    Query,
    SecretQuery,
    SubmitQuery,
    TasksQuery,
    TokenQuery,
    UsageQuery,
    WorkloadsQuery,
)
from cress.protocol.trial_views import ConsequencesView

# Additional seconds for cancelling many jobs, and for a plan for thousands of nodes.
CANCEL_SECONDS, PLAN_SECONDS = 120.0, 60.0
# Bytes of an upload that a center checks in a second, at least.
UPLOAD_RATE = 30e6

T = TypeVar("T")


@dataclass(frozen=True)
class PreparedCall(Generic[T]):
    """A request: a row of the table with its parameters; ``wait`` is the additional time for the answer in seconds."""

    row: CallRow[T]
    path: str
    query: Mapping[str, object] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    wait: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


def call_of(
    row: CallRow[T],
    *values: object,
    query: Query | None = None,
    body: Mapping[str, object] | None = None,
    wait: float = 0.0,
    key: str = "",
) -> PreparedCall[T]:
    """Return a call with ``values`` for the parameters of its path.

    A keyed row without a key gets a new one, so that the call takes effect once even if it is repeated.
    """
    headers = {"Idempotency-Key": key or token_hex(16)} if row.keyed else {}
    # Calls that change something have a body, since the center requires JSON.
    if body is None and row.method == "POST":
        body = {}
    assert query is None or type(query) is row.query
    return PreparedCall(row, row.at(*values), {} if query is None else query.given(), body, wait, headers)


class ChangeKeys(TypedDict, total=False):
    """The fields of a change, as in ``WhatIfBody``."""

    jobs: Sequence[Mapping[str, object]]
    remove_nodes: Sequence[str]
    add_nodes: Sequence[str]
    drain: Mapping[str, float]
    groups: str
    file: str
    moves: Mapping[str, str]
    options: Mapping[str, str | None]
    licences: Mapping[str, int | None]
    config: str
    set_group: Mapping[str, Mapping[str, str | None]]


def what_if(change: Mapping[str, object], seconds: float = 20.0) -> PreparedCall[ConsequencesView]:
    """Return what a change would do; ``change`` has the fields of ``WhatIfBody``, ``seconds`` bound its computation."""
    return call_of(cluster_calls.WHAT_IF, body={**change, "seconds": seconds}, wait=seconds + PLAN_SECONDS)


# --- jobs -------------------------------------------------------------------------------------------------------------


def submit(
    jobs: Sequence[Mapping[str, object]],
    key: str = "",
    *,
    dry_run: bool = False,
    strict: bool = False,
    starts: bool = False,
) -> PreparedCall[SubmittedPage]:
    """Submit jobs together; with its ``Idempotency-Key`` a repeated submit takes effect once.

    A dry run returns the expected answer and stores nothing. ``strict`` refuses jobs whose deadlines cannot be met.
    ``starts`` asks for the expected starts of the first ten.
    """
    query = SubmitQuery(dry_run=dry_run, strict=strict, starts=starts)
    return call_of(job_calls.SUBMIT, query=query, body={"jobs": list(jobs)}, key=key)


def apply(jobs: Sequence[Mapping[str, object]], *, dry_run: bool = False) -> PreparedCall[AppliedJobs]:
    """Create or update services, databases and cron jobs."""
    return call_of(job_calls.APPLY, body={"jobs": list(jobs), "dry_run": dry_run})


def job(id: int, wait: float = 0.0) -> PreparedCall[JobView]:
    """Return one job; with ``wait`` the answer comes when it has ended, or after that many seconds."""
    return call_of(job_calls.JOB, id, query=JobQuery(wait=wait), wait=wait)


def explanation(id: int) -> PreparedCall[ExplanationView]:
    """Explain why a job waits, when it will start, and what would let it start now."""
    return call_of(job_calls.EXPLAIN, id)


def group_explanation(name: str) -> PreparedCall[GroupExplanationView]:
    """Explain why a group does not get more."""
    return call_of(cluster_calls.EXPLAIN_GROUP, name)


def node_explanation(name: str) -> PreparedCall[NodeExplanationView]:
    """Explain why a node is empty or not fuller."""
    return call_of(cluster_calls.EXPLAIN_NODE, name)


def jobs(query: JobsQuery) -> PreparedCall[JobsPage]:
    """List jobs, newest first."""
    return call_of(job_calls.JOBS, query=query)


def tasks(id: int, query: TasksQuery) -> PreparedCall[TasksPage]:
    """List tasks of a job by index."""
    return call_of(job_calls.TASKS, id, query=query)


def task(id: int, task: int) -> PreparedCall[TaskView]:
    """Return one task of a job."""
    return call_of(job_calls.TASK, id, task)


def hold(id: int) -> PreparedCall[JobView]:
    """Hold a job."""
    return call_of(job_calls.HOLD, id)


def release(id: int) -> PreparedCall[JobView]:
    """Release a held job."""
    return call_of(job_calls.RELEASE, id)


def hold_jobs(ids: Sequence[int]) -> PreparedCall[HeldJobs]:
    """Hold several jobs, all or none."""
    return call_of(job_calls.HOLD_JOBS, body={"jobs": list(ids)}, wait=CANCEL_SECONDS)


def release_jobs(ids: Sequence[int]) -> PreparedCall[HeldJobs]:
    """Release several held jobs, all or none."""
    return call_of(job_calls.RELEASE_JOBS, body={"jobs": list(ids)}, wait=CANCEL_SECONDS)


def update_jobs(ids: Sequence[int], values: Mapping[str, object]) -> PreparedCall[HeldJobs]:
    """Give several jobs new values of keys of job files, all or none; ``None`` is the default of a key."""
    return call_of(job_calls.UPDATE_JOBS, body={"jobs": list(ids), "values": dict(values)}, wait=CANCEL_SECONDS)


def requeue_jobs(ids: Sequence[int], *, hold: bool = False) -> PreparedCall[HeldJobs]:
    """Stop the running tasks of several jobs, which wait again, all or none; ``hold``: and hold the jobs."""
    return call_of(job_calls.REQUEUE_JOBS, body={"jobs": list(ids), "hold": hold}, wait=CANCEL_SECONDS)


def retry(id: int, *, failed: bool = False) -> PreparedCall[SubmittedPage]:
    """Submit an ended batch job once more; ``failed``: only its tasks that did not succeed."""
    return call_of(job_calls.RETRY, id, body={"failed": failed})


def restart(id: int) -> PreparedCall[JobView]:
    """Replace all tasks of a service or database, as an update does."""
    return call_of(job_calls.RESTART, id)


def job_file(id: int) -> PreparedCall[JobFileView]:
    """Return the job file of a job, which can be submitted again."""
    return call_of(job_calls.JOB_FILE, id)


def versions(id: int) -> PreparedCall[VersionsPage]:
    """Return the last versions of a service or database."""
    return call_of(job_calls.VERSIONS, id)


def revert(id: int, version: int) -> PreparedCall[JobView]:
    """Update a service or database to an earlier version."""
    return call_of(job_calls.REVERT, id, body={"version": version})


def promote(id: int) -> PreparedCall[JobView]:
    """Let an update that waits after its canaries replace all tasks."""
    return call_of(job_calls.PROMOTE, id)


def trigger(
    id: int, at: float | None = None, *, since: float | None = None, until: float | None = None
) -> PreparedCall[SubmittedPage]:
    """Make a run of a cron job for a moment, or a run for each of its moments in a span of time."""
    return call_of(job_calls.TRIGGER, id, body={"at": at, "since": since, "until": until})


def cancel(id: int) -> PreparedCall[JobView]:
    """Cancel a job and all its tasks."""
    return call_of(job_calls.CANCEL, id)


def cancel_jobs(ids: Sequence[int]) -> PreparedCall[CancelledJobs]:
    """Cancel several jobs, or none if one does not exist."""
    return call_of(job_calls.CANCEL_JOBS, body={"jobs": list(ids)}, wait=CANCEL_SECONDS)


def signal(id: int, signal: str, task: int | None = None) -> PreparedCall[JobView]:
    """Send a signal to one running task or to all."""
    body = {"signal": signal, "task": task}
    return call_of(job_calls.SIGNAL, id, body=body)


def scale(id: int, tasks: int) -> PreparedCall[JobView]:
    """Change the task count of a service or database."""
    return call_of(job_calls.SCALE, id, body={"tasks": tasks})


def resume(
    id: int, steps: Sequence[str] = (), *, only: bool = False, job: Mapping[str, object] | None = None
) -> PreparedCall[SubmittedPage]:
    """Submit the unsuccessful steps of a dag as a new dag, and these ``steps`` with all behind them.

    ``only``: nothing but these steps. ``job`` is the dag of a corrected file.
    """
    return call_of(job_calls.RESUME, id, body={"steps": list(steps), "only": only, "job": job})


def logs(
    id: int, task: int, stream: str, offset: int, *, follow: bool, attempt: int | None, since: int | None = None
) -> PreparedCall[bytes]:
    """Read the output of a task as bytes, piece by piece."""
    query = LogsQuery(task=task, stream=stream, offset=offset, follow=follow, attempt=attempt, since=since, framed=True)
    return call_of(job_calls.LOGS, id, query=query)


# --- groups, nodes, the cluster ---------------------------------------------------------------------------------------


def groups() -> PreparedCall[GroupsPage]:
    """Return the groups."""
    return call_of(cluster_calls.GROUPS)


def nodes(where: str = "", rank: str = "", after: str = "", limit: int = 1_000) -> PreparedCall[NodesPage]:
    """Return a page of nodes."""
    return call_of(cluster_calls.NODES, query=NodesQuery(limit=limit, where=where, rank=rank, after=after))


def node(name: str) -> PreparedCall[NodeView]:
    """Return one node."""
    return call_of(cluster_calls.NODE, name)


def node_attempts(
    nodes: Sequence[str], since: float, until: float, limit: int = 1_000
) -> PreparedCall[NodeAttemptsPage]:
    """Return attempts, past and running, on some nodes in a span of time (seconds since the epoch)."""
    query = AttemptsQuery(nodes=",".join(nodes), since=since, until=until, limit=limit)
    return call_of(cluster_calls.NODE_ATTEMPTS, query=query)


def centers() -> PreparedCall[CentersPage]:
    """Return the centers that share a store."""
    return call_of(cluster_calls.CENTERS)


def hand_over() -> PreparedCall[HandedOver]:
    """Make another center the leader."""
    return call_of(cluster_calls.HAND_OVER)


def licences() -> PreparedCall[LicencesPage]:
    """Return the licences of the cluster."""
    return call_of(lease_calls.LICENCES)


def usage(query: UsageQuery) -> PreparedCall[UsagePage]:
    """Read the usage of groups."""
    return call_of(cluster_calls.USAGE, query=query)


def past_use(span: str = "hour", group: str = "") -> PreparedCall[PastUsePage]:
    """Read the use of the cluster and its groups over the past ``hour``, ``day`` or ``week``, or that of one group."""
    return call_of(cluster_calls.PAST_USE, query=PastUseQuery(span=span, group=group))


def efficiency(
    *, by: str = "name", name: str = "", user: str = "", group: str = "", since: float | None = None
) -> PreparedCall[EfficiencyPage]:
    """Read what finished jobs asked for and used, by ``name``, ``user``, ``group`` or ``label:NAME``."""
    query = EfficiencyQuery(by=by, name=name, user=user, group=group, since=since)
    return call_of(cluster_calls.EFFICIENCY, query=query)


def state() -> PreparedCall[StateView]:
    """Return key figures of the cluster."""
    return call_of(cluster_calls.STATE)


def events(
    after: int | None, job: int | None, group: str, *, follow: bool, last: int | None = None
) -> PreparedCall[EventView]:
    """Read events as server-sent events."""
    query = EventsQuery(after=after, job=job, group=group, follow=follow, last=last)
    return call_of(cluster_calls.EVENTS, query=query)


def resolve(name: str, group: str = "") -> PreparedCall[PlacesPage]:
    """Look up the places of running tasks of the jobs with a name."""
    return call_of(cluster_calls.RESOLVE, name, query=PlacesQuery(group=group))


def apply_groups(
    text: str, *, file: str = "", moves: Mapping[str, str] | None = None, dry_run: bool = False
) -> PreparedCall[Applied]:
    """Replace all groups by a text."""
    body = {"text": text, "file": file, "moves": dict(moves or {})}
    return call_of(cluster_calls.APPLY_GROUPS, query=DryRunQuery(dry_run=dry_run), body=body)


def set_group(name: str, values: Mapping[str, str | None], *, dry_run: bool = False) -> PreparedCall[Applied]:
    """Change keywords of one group."""
    return call_of(cluster_calls.SET_GROUP, name, query=DryRunQuery(dry_run=dry_run), body={"values": dict(values)})


def config() -> PreparedCall[ConfigView]:
    """Return the configuration of the cluster."""
    return call_of(cluster_calls.CONFIG)


def change_config(body: Mapping[str, object], *, dry_run: bool = False) -> PreparedCall[ConfiguredView]:
    """Change the configuration of the cluster."""
    return call_of(cluster_calls.CHANGE_CONFIG, query=DryRunQuery(dry_run=dry_run), body=body)


def config_history() -> PreparedCall[HistoryView]:
    """List the revisions of the configuration."""
    return call_of(cluster_calls.CONFIG_HISTORY)


def config_revision(number: int) -> PreparedCall[RevisionView]:
    """Return a revision of the configuration."""
    return call_of(cluster_calls.CONFIG_REVISION, number)


def cordon(name: str, reason: str = "") -> PreparedCall[NodeView]:
    """Exclude a node from new tasks."""
    return call_of(cluster_calls.CORDON, name, body={"reason": reason})


def uncordon(name: str) -> PreparedCall[NodeView]:
    """Let tasks start on a node again."""
    return call_of(cluster_calls.UNCORDON, name, body={"reason": ""})


def forget(name: str) -> PreparedCall[NodeView]:
    """Declare a node dead."""
    return call_of(cluster_calls.FORGET, name)


def drain(name: str, deadline: float | None = None, reason: str = "") -> PreparedCall[NodeView]:
    """Drain a node: no new tasks; tasks still running after ``deadline`` seconds (``None``: never) are stopped."""
    return call_of(cluster_calls.DRAIN, name, body={"deadline": deadline, "reason": reason})


def node_settings(name: str) -> PreparedCall[NodeSettingsPage]:
    """Return the settings of a node."""
    return call_of(cluster_calls.NODE_SETTINGS, name)


def set_node(name: str, body: Mapping[str, object]) -> PreparedCall[NodeSettingsPage]:
    """Change the settings of a node."""
    return call_of(cluster_calls.SET_NODE, name, body=body)


def watch_name(name: str, group: str = "") -> PreparedCall[PlacesChange]:
    """Read the changes of the places of a name as server-sent events."""
    return call_of(cluster_calls.WATCH_NAME, name, query=PlacesStreamQuery(group=group))


def health() -> PreparedCall[dict[str, Any]]:
    """Check that the center answers."""
    return call_of(cluster_calls.HEALTH)


# --- leases ----------------------------------------------------------------------------------------------------


def request_leases(body: Mapping[str, object], key: str = "", *, dry_run: bool = False) -> PreparedCall[LeasesPage]:
    """Request leases; with its ``Idempotency-Key`` a repeated request takes effect once."""
    return call_of(lease_calls.REQUEST, query=DryRunQuery(dry_run=dry_run), body=body, key=key)


def leases(
    workload: str = "", group: str = "", *, after: int | None = None, stamp: str = "", wait: float = 0.0
) -> PreparedCall[LeasesPage]:
    """List leases; with ``wait`` the answer comes when their ``stamp`` has changed."""
    query = LeasesQuery(workload=workload, group=group, after=after, stamp=stamp, wait=wait)
    return call_of(lease_calls.LEASES, query=query, wait=wait)


def workloads(workload: str = "", group: str = "") -> PreparedCall[WorkloadsPage]:
    """Show what each workload holds in all."""
    return call_of(lease_calls.WORKLOADS, query=WorkloadsQuery(workload=workload, group=group))


def lease(id: str, *, stamp: str = "", wait: float = 0.0) -> PreparedCall[LeasesPage]:
    """Return one lease, or all leases of one request."""
    return call_of(lease_calls.LEASE, id, query=LeaseQuery(stamp=stamp, wait=wait), wait=wait)


def use_lease(id: str, amounts: str | Mapping[str, object]) -> PreparedCall[LeasesPage]:
    """Report the holder's own use of a lease."""
    return call_of(lease_calls.USE, id, body={"amounts": amounts})


def submit_in_lease(id: str, job: Mapping[str, object], key: str = "") -> PreparedCall[SubmittedPage]:
    """Submit a job that runs in a lease."""
    return call_of(lease_calls.SUBMIT_INSIDE, id, body=job, key=key)


def grow_lease(id: str, count: int, key: str = "") -> PreparedCall[LeasesPage]:
    """Request more leases of the same kind."""
    return call_of(lease_calls.GROW, id, body={"count": count}, key=key)


def shrink_lease(id: str, count: int) -> PreparedCall[LeasesPage]:
    """Release some leases of one request."""
    return call_of(lease_calls.SHRINK, id, body={"count": count})


def release_lease(id: str) -> PreparedCall[LeasesPage]:
    """Return a lease, or all leases of one request, to the cluster."""
    return call_of(lease_calls.GIVE_BACK, id)


def renew_lease(id: str) -> PreparedCall[LeasesPage]:
    """Renew the terms of the leases of a workload."""
    return call_of(lease_calls.RENEW, id, body={})


# --- moves of running tasks ------------------------------------------------------------------------------------


def plan_moves(
    job: int | None = None, goals: Sequence[str] = (), moves: int | None = None, lost: float | None = None
) -> PreparedCall[PlanView]:
    """Return moves that let a waiting job start, or that serve these goals.

    At most ``moves`` tasks move, and lose at most ``lost`` hours of cores and devices together.
    """
    query = MovesQuery(job="" if job is None else str(job), goal=",".join(goals), moves=moves, lost=lost)
    return call_of(lease_calls.PLAN_MOVES, query=query, wait=PLAN_SECONDS)


def begin_moves(found: PlanView) -> PreparedCall[RoundView]:
    """Carry out a plan."""
    body: dict[str, object] = {
        "moves": [{"attempt": move.attempt, "to": move.to, "goal": move.goal} for move in found.moves],
        "job": found.job or 0,
        "place": found.place,
    }
    return call_of(lease_calls.BEGIN_MOVES, body=body)


def stop_moves() -> PreparedCall[RoundView]:
    """End the current round after its present step."""
    return call_of(lease_calls.STOP_MOVES)


def last_round() -> PreparedCall[RoundView]:
    """Return the current round, or else the last one."""
    return call_of(lease_calls.LAST_ROUND)


# --- advance reservations --------------------------------------------------------------------------------------


# Fields whose names in a request are Python keywords.
_NAMES = {"start": "from", "length": "for"}


class ReservationKeys(TypedDict, total=False):
    """An advance reservation: texts as on the command line; ``start`` is ``--from``, ``length`` is ``--for``."""

    group: str
    nodes: Sequence[str]
    count: int
    resource: str | Mapping[str, object]
    requirement: str
    start: str
    until: str
    length: str
    every: str
    at_end: str
    replace: bool
    dry_run: bool


def reserve(name: str, fields: ReservationKeys) -> PreparedCall[ReservationView]:
    """Make a reservation with these fields."""
    body = {"name": name, **{_NAMES.get(key, key): value for key, value in fields.items()}}
    return call_of(lease_calls.RESERVE, body=body)


def reservations() -> PreparedCall[ReservationsPage]:
    """List the reservations."""
    return call_of(lease_calls.RESERVATIONS)


def remove_reservation(name: str) -> PreparedCall[ReservationView]:
    """Remove a reservation."""
    return call_of(lease_calls.UNRESERVE, name)


# --- users, tokens, sign-ins, the audit log --------------------------------------------------------------------


def whoami() -> PreparedCall[CallerView]:
    """Return the user as the center knows the caller."""
    return call_of(access_calls.WHOAMI)


def users() -> PreparedCall[UsersPage]:
    """List the users whose role was set."""
    return call_of(access_calls.USERS)


def set_user(name: str, role: str, administers: Sequence[str] = ()) -> PreparedCall[UserView]:
    """Set the role of a user, and the groups that the user administers."""
    body = {"role": role, "administers": list(administers)}
    return call_of(access_calls.SET_USER, name, body=body)


def tokens() -> PreparedCall[TokensPage]:
    """List tokens."""
    return call_of(access_calls.TOKENS)


def create_token(
    name: str, *, user: str = "", role: str = "", expires: float | None = None, rotate: bool = False
) -> PreparedCall[NewToken]:
    """Create a token, or replace the one with that name by a new one."""
    body: dict[str, object] = {"name": name, "user": user, "role": role, "rotate": rotate}
    if expires is not None:
        body["expires"] = expires
    return call_of(access_calls.CREATE_TOKEN, body=body)


def revoke_token(name: str, user: str = "") -> PreparedCall[TokenView]:
    """Revoke a token by name or id."""
    return call_of(access_calls.REVOKE_TOKEN, name, query=TokenQuery(user=user))


def join_tokens() -> PreparedCall[JoinTokensPage]:
    """List the join tokens."""
    return call_of(access_calls.JOIN_TOKENS)


def create_join_token(name: str, *, uses: int, expires: float, nodes: str) -> PreparedCall[NewJoinToken]:
    """Create a join token; ``nodes`` is a pattern for names of nodes, ``expires`` is in seconds."""
    body = {"name": name, "uses": uses, "expires": expires, "nodes": nodes}
    return call_of(access_calls.CREATE_JOIN_TOKEN, body=body)


def revoke_join_token(name: str) -> PreparedCall[JoinTokenView]:
    """Revoke a join token by name or id."""
    return call_of(access_calls.REVOKE_JOIN_TOKEN, name)


def provider() -> PreparedCall[LoginView]:
    """Return the provider of OpenID Connect for sign-in."""
    return call_of(access_calls.PROVIDER)


def login(id_token: str) -> PreparedCall[NewToken]:
    """Sign in with the ID token of the provider."""
    return call_of(access_calls.LOGIN, body={"id_token": id_token})


def authority() -> PreparedCall[AuthorityView]:
    """Return the certificate of the center's authority."""
    return call_of(access_calls.AUTHORITY)


def join(node: str, request: str) -> PreparedCall[JoinedView]:
    """Request the certificate of a new node; ``request`` is its certificate signing request as PEM."""
    return call_of(access_calls.JOIN, body={"node": node, "request": request})


def audit(limit: int, user: str = "", *, refused: bool = False) -> PreparedCall[AuditPage]:
    """Read the latest entries of the audit log."""
    return call_of(access_calls.AUDIT, query=AuditQuery(limit=limit, user=user, refused=refused))


# --- secrets ---------------------------------------------------------------------------------------------------


def secrets(user: str = "", group: str = "") -> PreparedCall[SecretsPage]:
    """List secrets without their values: those of a user or group, or all that the caller may see."""
    return call_of(access_calls.SECRETS, query=SecretQuery(user=user, group=group))


def secret(name: str, user: str = "", group: str = "") -> PreparedCall[SecretView]:
    """Return a secret without its value."""
    return call_of(access_calls.SECRET, name, query=SecretQuery(user=user, group=group))


def set_secret(name: str, value: bytes, user: str = "", group: str = "") -> PreparedCall[SecretView]:
    """Set the value of a secret."""
    body = {"value": base64.b64encode(value).decode(), "user": user, "group": group}
    return call_of(access_calls.SET_SECRET, name, body=body)


def delete_secret(name: str, user: str = "", group: str = "") -> PreparedCall[SecretView]:
    """Delete a secret."""
    return call_of(access_calls.DELETE_SECRET, name, query=SecretQuery(user=user, group=group))


def rotate_key(*, keep_old: bool = False) -> PreparedCall[KeyRotated]:
    """Encrypt all secrets with a new key."""
    return call_of(access_calls.ROTATE_KEY, body={"keep_old": keep_old})


# --- files -----------------------------------------------------------------------------------------------------


def uploads() -> PreparedCall[UploadsPage]:
    """List the caller's uploads, with the limits of the center."""
    return call_of(file_calls.UPLOADS)


def upload(digest: str, size: int, offset: int = 0, data: bytes = b"") -> PreparedCall[UploadView]:
    """Send a part of a file; without data, ask how much of it is there."""
    body = {"size": size, "offset": offset, "data": base64.b64encode(data).decode()}
    # With the last part the center reads the whole file again.
    return call_of(file_calls.UPLOAD, digest, body=body, wait=size / UPLOAD_RATE)


def files(id: int, query: FilesQuery) -> PreparedCall[FilesPage]:
    """List the files in the directory of a task."""
    return call_of(file_calls.FILES, id, query=query)


def file(id: int, query: FileQuery) -> PreparedCall[bytes]:
    """Read a file in the directory of a task."""
    return call_of(file_calls.FILE, id, query=query)
