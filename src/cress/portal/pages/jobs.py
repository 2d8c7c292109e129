"""The list of jobs, and the page of one job."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.model.access import Role, role_of
from cress.model.errors import InputError
from cress.portal.drawings import rows_of_tasks, timeline_of
from cress.portal.job_texts import program_of, reason_of_step, requests_of
from cress.portal.job_view import (
    FAMILIES,
    OVER,
    UPDATE,
    UPDATED_KEYS,
    actions_of,
    explained,
    lasts,
    members_of,
    rows_of_members,
    running_tasks,
    values_of,
)
from cress.portal.sessions import BrowserSession
from cress.portal.viewers import Viewer
from cress.portal.web import FormError, back_to, changing, page, signed_in
from cress.protocol.access_views import CallerView
from cress.protocol.job_views import JobView, StepView, TasksPage
from cress.protocol.queries import JobsQuery, TasksQuery

# Jobs of one page, tasks of a job's page.
JOBS, TASKS = 50, 50
# Steps that are seen without scrolling.
FEW_STEPS = 10
FILTERS = ("state", "group", "user", "name", "type")
STATES = ("waiting", "running", "succeeded", "failed", "cancelled")
TYPES = ("batch", "service", "cron", "dag", "database", "lease")


def number_of(text: str, what: str, least: int = 0) -> int:
    """Return a whole number of an address. Raises InputError."""
    if not text.isascii() or not text.isdigit() or len(text) > 16 or int(text) < least:
        raise InputError(f"{text[:40]!r} is not a number", hint="a whole number such as 12", field=what)
    return int(text)


def may_change(caller: CallerView, job: JobView) -> bool:
    """Return whether the buttons of a job are shown; the center decides anyway."""
    role = role_of(caller.role)
    if role.rank < Role.USER.rank:
        return False
    return role is Role.ADMIN or job.user == caller.user or job.group in caller.administers


@signed_in
async def jobs(request: Request, session: BrowserSession) -> Response:
    """Show jobs, newest first."""
    given = request.query_params
    chosen = {name: given.get(name, "").strip() for name in FILTERS}
    # A number in the search box is a job.
    if chosen["name"].isdigit():
        return back_to(f"/jobs/{number_of(chosen['name'], 'name')}")
    before = given.get("before", "")
    asked = JobsQuery(
        limit=JOBS,
        before=number_of(before, "before") if before else None,
        state=chosen["state"],
        group=chosen["group"],
        user=chosen["user"],
        name=chosen["name"],
        type=chosen["type"],
    )
    viewer = session.viewer
    found, groups, _ = await asyncio.gather(
        viewer.ask(calls.jobs(asked)), viewer.ask(calls.groups(), fresh=5.0), viewer.caller()
    )
    return await page(
        request,
        session,
        "jobs.html",
        jobs=found.jobs,
        next=found.next,
        problem=found.problem,
        chosen=chosen,
        before=before,
        states=STATES,
        types=TYPES,
        groups=[group.name for group in groups.groups if not group.inner],
        now=time.time(),
        about="jobs",
    )


@signed_in
async def job(request: Request, session: BrowserSession) -> Response:
    """Show one job: facts, reason, time line of all its attempts, members of a family."""
    viewer, id = session.viewer, number_of(request.path_params["id"], "job")
    caller, view = await asyncio.gather(viewer.caller(), viewer.ask(calls.job(id, 0.0)))
    state, after = request.query_params.get("tasks", ""), request.query_params.get("after", "")
    asked = TasksQuery(limit=TASKS, after=number_of(after, "after") if after else None, state=state)
    tasks, members = await asyncio.gather(_tasks(viewer, view, asked), members_of(viewer, view))
    # Last: a large center answers nobody while it begins an explanation.
    found = await explained(viewer, view, whole="whole" in request.query_params)
    explanation = found.explanation
    own, now = may_change(caller, view), time.time()
    rows = await rows_of_members(viewer, view, members) if members else rows_of_tasks(tasks.tasks, view.submitted)
    return await page(
        request,
        session,
        "job.html",
        job=view,
        program=program_of(view),
        requests=requests_of(view, members),
        steps=steps_of(view, state),
        step_states=states_of_steps(view, state),
        tasks=tasks,
        task_state=state,
        task_states=STATES,
        members=members,
        explanation=explanation,
        remedies=actions_of(view, explanation, caller, own=own) if explanation else [],
        problem=found.problem,
        pending=found.pending,
        over=view.state in OVER,
        own=own,
        running=list(running_tasks(tasks)),
        timeline=timeline_of(rows, view.ended or now, now, lasts(view)),
        now=now,
        about="" if view.type in FAMILIES else f"job:{id}",
    )


def steps_of(job: JobView, state: str) -> list[tuple[StepView, str]]:
    """Return the steps of a dag, each with its reason: those in a state, or all."""
    steps = () if job.dag is None else job.dag.steps
    names = {step.id: step.name for step in steps}
    return [(step, reason_of_step(step, names)) for step in steps if state in ("", step.state)]


def states_of_steps(job: JobView, chosen: str = "") -> list[tuple[str, int]]:
    """Return the states of the steps of a large dag with their numbers; none if its steps are seen at once anyway.

    While a state is chosen they are needed to choose another one, or all.
    """
    steps = () if job.dag is None else job.dag.steps
    count = Counter(step.state for step in steps)
    if not chosen and (len(steps) <= FEW_STEPS or len(count) < 2):
        return []
    count.update({chosen: 0} if chosen else {})
    return [("", len(steps)), *sorted(count.items())]


async def _tasks(viewer: Viewer, job: JobView, asked: TasksQuery) -> TasksPage:
    """Return tasks of a job; a family has members instead."""
    if job.type in ("cron", "dag"):
        return TasksPage(tasks=())
    return await viewer.ask(calls.tasks(job.id, asked))


async def _cancel(session: BrowserSession, job: int, form: Mapping[str, str]) -> str:
    await session.viewer.change(calls.cancel(job))
    return f"job {job} is being cancelled"


async def _hold(session: BrowserSession, job: int, form: Mapping[str, str]) -> str:
    await session.viewer.change(calls.hold(job))
    return f"job {job} is held: none of its waiting tasks starts until it is released"


async def _release(session: BrowserSession, job: int, form: Mapping[str, str]) -> str:
    await session.viewer.change(calls.release(job))
    return f"job {job} is released"


async def _scale(session: BrowserSession, job: int, form: Mapping[str, str]) -> str:
    tasks = number_of(form.get("tasks", ""), "tasks")
    await session.viewer.change(calls.scale(job, tasks))
    return f"job {job} is scaled to {tasks} tasks"


async def _update(session: BrowserSession, job: int, form: Mapping[str, str]) -> str:
    if UPDATE is None:
        raise FormError("this center does not change submitted jobs; submit the job again", 409)
    view = await session.viewer.ask(calls.job(job, 0.0))
    known = {key: value for key, value in form.items() if key in view.resource or key in UPDATED_KEYS}
    await session.viewer.change(UPDATE([job], values_of(view, known)))
    return f"job {job} is changed: {', '.join(f'{key} {value}'.strip() for key, value in known.items())}"


CHANGES: dict[str, Callable[[BrowserSession, int, Mapping[str, str]], Awaitable[str]]] = {
    "cancel": _cancel,
    "hold": _hold,
    "release": _release,
    "scale": _scale,
    "update": _update,
}


@changing
async def change(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Change a job, then show it."""
    id = number_of(request.path_params["id"], "job")
    wanted = CHANGES.get(request.path_params["change"])
    if wanted is None:
        raise FormError(f"a job has no change {request.path_params['change'][:40]!r}", 404)
    return back_to(f"/jobs/{id}", session, await wanted(session, id, form))


@changing
async def resume(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Submit the steps of a finished dag that did not succeed, and show the new dag."""
    id = number_of(request.path_params["id"], "job")
    made = await session.viewer.change(calls.resume(id))
    return back_to(f"/jobs/{made.jobs[0].id}", session, f"job {id} is resumed as this one")


ROUTES = [
    Route("/jobs", jobs, methods=["GET"]),
    Route("/jobs/{id}", job, methods=["GET"]),
    Route("/jobs/{id}/resume", resume, methods=["POST"]),
    Route("/jobs/{id}/{change}", change, methods=["POST"]),
]
