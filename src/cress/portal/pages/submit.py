"""Submitting a job: a text, checked while it is typed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cress.client import calls
from cress.client.errors import ClientError, Refused
from cress.model.access import Role, role_of
from cress.model.errors import InputError, InputErrors
from cress.portal.job_texts import job_file_of
from cress.portal.job_view import OVER
from cress.portal.pages.jobs import number_of
from cress.portal.sessions import BrowserSession
from cress.portal.settings import WrittenJob
from cress.portal.trials import TrialResult, tried
from cress.portal.web import back_to, changing, page, sentences, signed_in, status_of

EXAMPLE = """\
name: hello
command: [sh, -c, 'for i in 1 2 3; do echo step $i; sleep 1; done']
tasks: 1
resource: <1, 256M>
time_limit: 10min
"""
PLACE = re.compile(r"jobs\[(\d+)\]\.?")
# Most jobs whose names an answer to a check lists.
LISTED = 20


class Mistake(NamedTuple):
    """A mistake in a text: its line (0: none), its key, what it is, and what would be right."""

    line: int
    field: str
    what: str
    hint: str


def mistakes_of(error: Exception, written: Sequence[WrittenJob]) -> list[Mistake]:
    """Return the mistakes of an error, with the lines of the text."""
    if isinstance(error, Refused):
        return [
            Mistake(_line(fault.field, written), PLACE.sub("", fault.field), fault.what, fault.hint)
            for fault in error.faults
        ] or [Mistake(0, "", str(error), "")]
    if isinstance(error, InputErrors):
        return [Mistake(one.line or 0, one.field or "", one.what, one.hint or "") for one in error.errors]
    if isinstance(error, InputError):
        return [Mistake(error.line or 0, error.field or "", error.what, error.hint or "")]
    return [Mistake(0, "", sentence, "") for sentence in sentences(error)]


def _line(field: str, written: Sequence[WrittenJob]) -> int:
    found = PLACE.match(field)
    number = int(found[1]) if found else 0
    return written[number].line_of(PLACE.sub("", field)) if number < len(written) else 0


async def read(request: Request, text: str) -> Sequence[WrittenJob]:
    """Return the jobs of a text, read in a thread. Raises InputError."""
    jobs: Sequence[WrittenJob] = await asyncio.to_thread(request.app.state.settings.read_jobs, text)
    return jobs


@signed_in
async def submit_page(request: Request, session: BrowserSession) -> Response:
    """Show the form; with ``?from=12`` it has the text of that job, in which further parameters replace keys."""
    change = dict(request.query_params)
    earlier = change.pop("from", "")
    if not earlier:
        return await _form(request, session, EXAMPLE, [], 200)
    view = await session.viewer.ask(calls.job(number_of(earlier, "from"), 0.0))
    if view.type != "batch" or view.parts or not (view.command or view.image):
        raise InputError(f"job {view.id} cannot be written as a job file from here", hint="submit its own file again")
    replaces = "" if view.state in OVER else str(view.id)
    return await _form(request, session, job_file_of(view, change), [], 200, replaces)


@changing
async def check(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Check a text without submitting it; answer as JSON for the script."""
    written: Sequence[WrittenJob] = ()
    try:
        written = await read(request, form.get("text", ""))
        found = await session.viewer.client.ask(calls.submit([job.mapping for job in written], dry_run=True))
    except (InputError, ClientError) as error:
        mistakes = [mistake._asdict() for mistake in mistakes_of(error, written)]
        return JSONResponse({"good": False, "away": status_of(error) == 503, "mistakes": mistakes})
    notes = [f"{job.name}: {job.note}" for job in found.jobs if job.note]
    names = [job.name for job in found.jobs]
    return JSONResponse({"good": True, "names": names[:LISTED], "count": len(names), "notes": notes[:LISTED]})


@changing
async def submit(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Submit the jobs of a text; the form carries a key, so that a second click submits nothing twice."""
    text, written = form.get("text", ""), []
    try:
        written = [*await read(request, text)]
        key = form.get("key", "")[:100]
        found = await session.viewer.change(calls.submit([job.mapping for job in written], key))
    except (InputError, ClientError) as error:
        given = form.get("replaced", form.get("replaces", ""))
        return await _form(request, session, text, mistakes_of(error, written), status_of(error), given)
    more = await _cancelled(session, form.get("replaces", ""))
    ids = [job.id for job in found.jobs]
    if len(ids) == 1:
        return back_to(f"/jobs/{ids[0]}", session, f"job {ids[0]} is submitted{more}")
    return back_to("/jobs", session, f"{len(ids):,} jobs are submitted, from {ids[0]} to {ids[-1]}{more}")


@changing
async def plan(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Show where and when the jobs of a text would start, and what they would do to others; nothing is submitted."""
    text, written = form.get("text", ""), []
    given = form.get("replaced", form.get("replaces", ""))
    try:
        written = [*await read(request, text)]
        found = await tried(session.viewer, {"jobs": [job.mapping for job in written]})
    except (InputError, ClientError) as error:
        return await _form(request, session, text, mistakes_of(error, written), status_of(error), given)
    return await _form(request, session, text, [], 200, given, found)


async def _cancelled(session: BrowserSession, replaced: str) -> str:
    """Cancel the job that the new one replaces, if any; return what to say about it."""
    if not replaced:
        return ""
    number = number_of(replaced, "replaces")
    try:
        await session.viewer.change(calls.cancel(number))
    except ClientError as error:
        return f"; job {number} could not be cancelled: {error}"
    return f", and job {number} is being cancelled"


async def _form(
    request: Request,
    session: BrowserSession,
    text: str,
    mistakes: Sequence[Mistake],
    status: int,
    replaces: str = "",
    trial: TrialResult | None = None,
) -> Response:
    caller = await session.viewer.caller()
    may = role_of(caller.role).rank >= Role.USER.rank
    key = calls.submit([]).headers["Idempotency-Key"]
    groups = (await session.viewer.ask(calls.groups(), fresh=5.0)).groups
    names = [group.name for group in groups if not group.inner]
    return await page(
        request,
        session,
        "submit.html",
        status,
        text=text,
        mistakes=mistakes,
        may=may,
        key=key,
        groups=names,
        replaces=replaces,
        trial=trial,
    )


ROUTES = [
    Route("/submit", submit_page, methods=["GET"]),
    Route("/submit", submit, methods=["POST"]),
    Route("/submit/check", check, methods=["POST"]),
    Route("/submit/plan", plan, methods=["POST"]),
]
