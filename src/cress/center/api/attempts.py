"""The call about past and running attempts on nodes, for pictures of nodes over time."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import reply
from cress.center.api.context import committer_of, sight_of
from cress.center.api.routes import Routes, query_of
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob, find_all, group_of, spec_of
from cress.center.views.jobs import moment
from cress.lifecycle.tables.rows import LiveAttempt
from cress.model.errors import InputError
from cress.model.records import AttemptRecord
from cress.model.times import HOUR, NEVER, SECOND
from cress.protocol.calls import cluster_calls
from cress.protocol.cluster_views import NodeAttempt, NodeAttemptsPage
from cress.protocol.queries import AttemptsQuery

# Most nodes of one question.
MOST_NODES = 200
RUNNING = "running"

router = Routes()


@router.answers(cluster_calls.NODE_ATTEMPTS)
async def node_attempts(request: Request) -> Response:
    """Return attempts on nodes that ran in a span of time, the latest ends first; running ones come first.

    Work moves from the machine to the store and to the history. The places are asked in that order, so none is missed.
    """
    query, committer = query_of(request, AttemptsQuery), committer_of(request)
    names = _names(query.nodes)
    now = committer.clock.utc()
    until = now if query.until is None else round(query.until * SECOND)
    since = until - HOUR if query.since is None else round(query.since * SECOND)
    live = [
        attempt
        for name in names
        for attempt in committer.machine.attempts_on.get(name, {}).values()
        if attempt.placed < until and since <= now
    ]
    ended = {
        record.attempt: record
        for records in list(committer.uncommitted.attempts.values())
        for record in records
        if record.node in names and record.ended >= since and record.placed < until
    }
    # One more than wanted, to know whether there are more.
    limit = query.limit + 1
    for place in (committer.finished, committer.history):
        for record in await place.attempts_on(names, since=since, until=until, limit=limit):
            ended.setdefault(record.attempt, record)
    running = {attempt.id: attempt for attempt in live if attempt.id not in ended}
    latest = sorted(ended.values(), key=lambda record: (-record.ended, record.attempt))
    found: list[LiveAttempt | AttemptRecord] = [*running.values(), *latest]
    page, sight = found[: query.limit], sight_of(request)
    jobs = await find_all(committer, sorted({attempt.job for attempt in page}))
    return reply(
        NodeAttemptsPage(
            attempts=tuple(
                _view(committer, attempt, job)
                for attempt in page
                if (job := jobs.get(attempt.job)) is not None and sight.has(spec_of(job).user, group_of(job))
            ),
            more=len(found) > query.limit,
        )
    )


def _names(text: str) -> list[str]:
    """Return the names of a question; nodes that left the cluster have attempts too. Raises InputError."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InputError("no node is named", hint="names separated by commas, such as n1,n2", field="nodes")
    if len(names) > MOST_NODES:
        raise InputError(f"{len(names)} nodes are too many", hint=f"at most {MOST_NODES}", field="nodes")
    return names


def _view(committer: Committer, attempt: LiveAttempt | AttemptRecord, job: AnyJob) -> NodeAttempt:
    expected = ended = None
    if isinstance(attempt, AttemptRecord):
        number, outcome, ended = attempt.attempt, attempt.outcome.value, attempt.ended / SECOND
    else:
        number, outcome = attempt.id, RUNNING
        length = _lasts(committer, job)
        expected = None if length is None else ((attempt.started or attempt.placed) + length) / SECOND
    return NodeAttempt(
        node=attempt.node,
        job=attempt.job,
        task=attempt.task,
        attempt=number,
        name=spec_of(job).name,
        group=group_of(job),
        outcome=outcome,
        placed=attempt.placed / SECOND,
        started=moment(attempt.started),
        ended=ended,
        expected=expected,
    )


def _lasts(committer: Committer, job: AnyJob) -> int | None:
    """Return the expected run time of a task in µs: by the estimate, else its time limit."""
    spec = spec_of(job)
    estimate = committer.machine.core.estimate_of(spec.id)
    return spec.time_limit if estimate is None or estimate.pessimistic >= NEVER else estimate.run
