"""Explanations: why a job waits, runs here or ended early, why a group gets no more, why a node is not fuller.

They hold no place for long answers: a fork computes them, one question at a time, and lists need not wait for it.
"""

from __future__ import annotations

from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.access.redaction import redacted
from cress.center.api.bodies import reply
from cress.center.api.context import committer_of, seen_job, sees_number
from cress.center.api.nodes import known_node
from cress.center.api.routes import Routes
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob
from cress.center.leader.explaining import Explainer
from cress.center.views.explanation import explanation_view, findings, late_by, starting
from cress.center.views.families import reason_of, reason_of_job
from cress.center.views.history_of_attempts import ended_views
from cress.center.views.jobs import why_chosen
from cress.center.views.members import attempts_of
from cress.lifecycle.explaining import waiting_job
from cress.lifecycle.jobs.reasons import Told
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.errors import InputError
from cress.model.explanation import NodeScore
from cress.model.job import JobType
from cress.model.units import one_of
from cress.protocol.calls import cluster_calls, job_calls
from cress.protocol.job_views import ExplanationView, GroupExplanationView, NodeExplanationView

router = Routes()

# Families whose tasks are jobs with numbers of their own.
_WITHOUT_TASKS = (JobType.CRON.value, JobType.DAG.value)


@router.answers(job_calls.EXPLAIN)
async def job(request: Request, id: str) -> Response:
    """Explain why a job waits and what would change that, why it runs where it runs, and why attempts ended early."""
    committer, found = committer_of(request), await seen_job(request, id)
    explainer: Explainer = request.app.state.explainer
    waiting = waiting_job(committer.machine, found) if isinstance(found, (LiveJob, Family)) else None
    told = None if waiting is None else await explainer.explain(waiting)
    if told is not None:
        start = await explainer.start(told.job)
        told = told if start is None else msgspec.structs.replace(told, start=start)
    view = (
        _without_waiting_task(committer, int(id), found)
        if told is None
        else explanation_view(told, partial(sees_number, request))
    )
    return reply(await _with_tasks(committer, explainer, found, view))


def _without_waiting_task(committer: Committer, number: int, job: AnyJob) -> ExplanationView:
    """Return the explanation of a job of which no task waits for the scheduler: why it does not run nevertheless."""
    if isinstance(job, LiveJob):
        why = reason_of_job(committer, job)
    elif isinstance(job, Family):
        why = reason_of(committer, job)
    else:
        why = Told()
    # Without a kind it is a remark: on an update, or on the end.
    return ExplanationView(job=number, reason=redacted(why.text) if why.kind else "", kind=why.kind)


async def _with_tasks(
    committer: Committer, explainer: Explainer, job: AnyJob, view: ExplanationView
) -> ExplanationView:
    """Return the view with what is to be said about running and ended attempts."""
    kind = job.job.type.value if isinstance(job, (LiveJob, Family)) else job.type
    if kind in _WITHOUT_TASKS and not isinstance(job, LiveJob):
        return view
    running = _running(committer, job)
    chosen, best = "", tuple[NodeScore, ...]()
    if running:
        chosen = why_chosen(running[0].chosen, running[0].kept)
        best = await explainer.placed(running[0].id)
    ended = await ended_views(committer, job)
    # Once more, since an attempt may have ended meanwhile, and starts no longer.
    waits = starting(committer, _running(committer, job))
    return msgspec.structs.replace(
        view, chosen=chosen, best=best, ended=ended, late=late_by(committer, job), starting=waits
    )


def _running(committer: Committer, job: AnyJob) -> list[LiveAttempt]:
    return [attempt for attempt in attempts_of(committer, job, None) if not attempt.halted]


@router.answers(cluster_calls.EXPLAIN_GROUP)
async def group(request: Request, name: str) -> Response:
    """Explain why a group does not get more: bounds, cooling-off, quota, and what its waiting jobs wait for."""
    committer = committer_of(request)
    found = await request.app.state.explainer.group(name)
    if found is None:
        groups = committer.machine.core.groups
        known = (*groups.by_name, *groups.tree.inner)
        raise InputError(f"there is no group {name[:40]!r}", hint=one_of(name, known))
    return reply(GroupExplanationView(group=found.group, uses=found.uses, reasons=findings(found.reasons)))


@router.answers(cluster_calls.EXPLAIN_NODE)
async def node(request: Request, name: str) -> Response:
    """Explain why a node is empty or not fuller."""
    committer = committer_of(request)
    known_node(committer, name)
    found = await request.app.state.explainer.node(name)
    view = NodeExplanationView(node=name, tasks=found.tasks, free=found.free, reasons=findings(found.reasons))
    return reply(view)
