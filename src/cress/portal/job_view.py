"""Parts of the page of a job: its members and their attempts, its explanation, and remedies as buttons."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from cress.client import calls
from cress.client.errors import ClientError
from cress.model.access import Role, role_of
from cress.model.explanation import Remedy
from cress.portal.drawings import TimelineRow
from cress.portal.texts import segment, tone
from cress.portal.viewers import LARGE, Viewer
from cress.protocol.access_views import CallerView
from cress.protocol.job_views import ExplanationView, JobsPage, JobView, TasksPage
from cress.protocol.queries import MOST_JOBS, JobsQuery, TasksQuery

OVER = frozenset({"succeeded", "failed", "timed out", "out of memory", "lost", "cancelled"})
FAMILIES = frozenset({"cron", "dag", "service", "database"})
# Members of a family that are listed, and those whose attempts are drawn; most attempts of one of them.
MEMBERS, DRAWN, ATTEMPTS = 100, 40, 50
# Seconds for which the attempts of a member that has ended are kept.
KEPT = 600.0
# Seconds for which the list of waiting jobs is kept.
WAITING_FRESH = 3.0
# Remedies that change keys of the job.
OF_THE_JOB = frozenset({"priority", "amount", "tasks", "clause", "time_limit", "group", "max_running"})
# The call that changes keys of submitted jobs, where the center has one, and the remedies for which it does.
UPDATE: Any = getattr(calls, "update_jobs", None)
UPDATED = OF_THE_JOB - {"tasks"}
UPDATED_KEYS = frozenset({"priority", "requirement", "time_limit", "group", "max_running"})


class RemedyAction(NamedTuple):
    """A remedy as a sentence, with what its user can do: a button that sends ``fields`` to ``post``, or a link."""

    text: str
    label: str = ""
    post: str = ""
    href: str = ""
    fields: tuple[tuple[str, str], ...] = ()


def actions_of(
    job: JobView, explanation: ExplanationView, caller: CallerView, *, own: bool, update: Any = UPDATE
) -> list[RemedyAction]:
    """Return the remedies of a waiting job with what the caller may do about each; the center decides anyway."""
    role = role_of(caller.role)
    return [_action(job, explanation.job, remedy, role, own=own, update=update) for remedy in explanation.remedies]


def _action(job: JobView, waiting: int, remedy: Remedy, role: Role, *, own: bool, update: Any) -> RemedyAction:
    change = remedy.change
    if remedy.kind == "release" and own:
        return RemedyAction(remedy.text, "Release", post=f"/jobs/{waiting}/release")
    if remedy.kind == "uncordon" and role.rank >= Role.OPERATOR.rank and "node" in change:
        return RemedyAction(remedy.text, "Uncordon", post=f"/nodes/{segment(change['node'])}/uncordon")
    if remedy.kind == "quota" and role is Role.ADMIN and change:
        asked = urlencode({"ResourceQuota": change["ResourceQuota"]})
        return RemedyAction(remedy.text, "Edit the quota", href=f"/groups/{segment(change['group'])}?{asked}#edit")
    single = own and waiting == job.id and job.family is None and bool(change)
    if remedy.kind in UPDATED and single and update is not None:
        return RemedyAction(remedy.text, "Change it", post=f"/jobs/{job.id}/update", fields=tuple(change.items()))
    if remedy.kind in OF_THE_JOB and single and job.type == "batch" and not job.parts:
        return RemedyAction(remedy.text, "Change and submit", href=f"/submit?{urlencode({'from': job.id, **change})}")
    return RemedyAction(remedy.text)


class Explained(NamedTuple):
    """The explanation of a job. ``pending``: it is being made; ``problem``: why it is not known."""

    explanation: ExplanationView | None = None
    pending: bool = False
    problem: str = ""


async def explained(viewer: Viewer, job: JobView, *, whole: bool = False) -> Explained:
    """Return the explanation of a job if it is there in a moment; ``whole`` waits for it.

    The center runs a trial for it, which takes long in a large cluster. So events do not make it old.
    """
    if job.state in ("succeeded", "cancelled"):
        return Explained()
    # A node is chosen once; what a job waits for changes.
    fresh = 5.0 if job.reason and job.state not in OVER else 60.0
    key = LARGE, f"explanation {job.id} {job.state} {job.reason} {job.held}"

    async def make() -> ExplanationView:
        return await viewer.client.ask(calls.explanation(job.id))

    try:
        found = await (viewer.keep(key, make, fresh) if whole else viewer.soon(key, make, fresh, "explanation"))
    except ClientError as error:
        return Explained(problem=str(error))
    return Explained(found, pending=found is None)


async def waiting_jobs(viewer: Viewer, limit: int, *, whole: bool) -> JobsPage | None:
    """Return the latest waiting jobs, or None if they are not there in a moment; ``whole`` waits for them."""
    call = calls.jobs(JobsQuery(limit=limit, state="waiting"))
    key = "waiting", str(limit)

    async def make() -> JobsPage:
        return await viewer.client.ask(call)

    return await (viewer.keep(key, make, WAITING_FRESH) if whole else viewer.soon(key, make, WAITING_FRESH, "waiting"))


async def members_of(viewer: Viewer, job: JobView) -> tuple[JobView, ...]:
    """Return the latest members of a family: runs, tasks of a service with those of earlier versions; of a dag those
    whose attempts are drawn, since its steps are told by the dag itself.
    """
    if job.type not in FAMILIES:
        return ()
    steps = () if job.dag is None else job.dag.steps
    asked = JobsQuery(limit=min(MOST_JOBS, max(MEMBERS, len(steps))), family=job.id)
    found = (await viewer.ask(calls.jobs(asked))).jobs
    if job.dag is None:
        return found
    # A step that never started has no attempt to draw.
    begun = (member for member in found if member.started is not None or tone(member.state) == "run")
    return tuple(sorted(begun, key=_urgent)[:DRAWN])


def _urgent(member: JobView) -> tuple[int, int]:
    """Return a key that puts what failed first, then what runs, then the latest."""
    tones = ("bad", "run")
    kind = tone(member.state)
    return tones.index(kind) if kind in tones else len(tones), -member.id


async def rows_of_members(viewer: Viewer, job: JobView, members: Sequence[JobView]) -> list[TimelineRow]:
    """Return a row for each of the latest members that has an attempt, oldest first."""
    drawn = sorted(members[:DRAWN], key=lambda member: member.id)
    # A run of a cron job may be a dag, which has steps and no tasks: it is drawn as a whole.
    pages = await asyncio.gather(*(_attempts_of(viewer, member) for member in drawn))
    names = {step.id: step.name for step in job.dag.steps} if job.dag is not None else {}
    return [
        TimelineRow(
            names.get(member.id) or _name(job, member),
            tuple((task.index, attempt) for task in page.tasks for attempt in task.attempts),
            f"/jobs/{member.id}",
            whole=member if member.type in FAMILIES else None,
        )
        for member, page in zip(drawn, pages, strict=True)
        if member.type in FAMILIES or any(task.attempts for task in page.tasks)
    ]


async def _attempts_of(viewer: Viewer, member: JobView) -> TasksPage:
    if member.type in FAMILIES:
        return TasksPage(tasks=())
    fresh = KEPT if member.state in OVER else 1.0
    query = TasksQuery(limit=ATTEMPTS)
    return await viewer.keep(
        ("member", f"{member.id} {member.state}"), lambda: viewer.client.ask(calls.tasks(member.id, query)), fresh
    )


def _name(job: JobView, member: JobView) -> str:
    return f"task {member.index}" if job.type in ("service", "database") else f"run {member.id}"


def values_of(job: JobView, change: Mapping[str, str]) -> dict[str, object]:
    """Return the keys of a job file with their new values, for a change as in ``Remedy``; ``None``: not given."""
    values: dict[str, object] = {}
    for key, value in change.items():
        if key in job.resource:
            values["resource"] = {**job.resource, key: value}
        else:
            values[key] = int(value) if key == "priority" else value or None
    return values


def lasts(job: JobView) -> float | None:
    """Return how long a task is expected to run: by the estimate, else at most its time limit."""
    return job.estimate.median if job.estimate is not None else job.time_limit


def running_tasks(tasks: TasksPage) -> Iterable[int]:
    """Return the tasks that run, in which a terminal can be opened."""
    return (task.index for task in tasks.tasks if task.state == "running")
