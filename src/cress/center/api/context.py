"""The context of a call: the committer, the caller, and the jobs that the caller may see or change."""

from __future__ import annotations

from functools import partial

from starlette.requests import HTTPConnection, Request

from cress.center.access.callers import Callers
from cress.center.access.redaction import read_by
from cress.center.access.rights import Caller, Sight, may, steers
from cress.center.api.errors import Forbidden, UnknownResource
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob, find_job, group_of, id_of, recent_job, spec_of
from cress.center.keeping.skipped_ids import skipped_range
from cress.center.web.asgi import App, Receive, Scope, Send
from cress.model.whole_numbers import whole_number
from cress.protocol.rights import Action


def committer_of(request: HTTPConnection) -> Committer:
    """Return the center's committer."""
    committer: Committer = request.app.state.committer
    return committer


def caller_of(request: HTTPConnection) -> Caller:
    """Return the caller."""
    caller: Caller = request.scope["state"]["caller"]
    return caller


def user_of(request: Request) -> str:
    """Return the user of the caller."""
    return caller_of(request).user


def sight_of(request: HTTPConnection) -> Sight:
    """Return the jobs that the caller sees, computed once for each request."""
    state = request.scope["state"]
    if "sight" not in state:
        callers: Callers = request.app.state.callers
        state["sight"] = callers.sight(caller_of(request))
    sight: Sight = state["sight"]
    return sight


class Readers:
    """Redacts the messages of each answer for its reader; ASGI middleware."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        known = scope["type"] in ("http", "websocket") and "caller" in scope.get("state", {})
        read_by(partial(sees_number, HTTPConnection(scope)) if known else None)
        await self._app(scope, receive, send)


def demand(request: HTTPConnection, action: Action) -> None:
    """Raise Forbidden unless the caller's role is enough for an action."""
    caller = caller_of(request)
    if not may(caller, action):
        raise Forbidden(f"{caller.user} has the role {caller.role.value}, which may not {action.value}")


async def seen_job(request: HTTPConnection, id: str) -> AnyJob:
    """Return the job in an address. Raises NotFound, also for a job that the caller does not see."""
    committer = committer_of(request)
    number = whole_number(id) or 0
    found = await find_job(committer, number) if number else None
    if found is not None and sees(request, found):
        return found
    if found is not None:
        note(request, f"job {number} is not visible to the caller")
    last = committer.machine.next_job - 1
    if 0 < number <= last:
        raise UnknownResource(_gone(committer, number))
    known = f"ids are 1 to {last}" if last else "no job has been submitted yet"
    raise UnknownResource(f"there is no job {id[:40]} ({known})")


def _gone(committer: Committer, number: int) -> str:
    """Return why the record of a former job is not available."""
    settings = committer.settings
    if (skipped := skipped_range(committer.store.note, number)) is not None:
        return (
            f"there is no record of job {number}: ids {skipped[0]} to {skipped[1]} were skipped when the cluster went "
            "on with an older copy of its store (`cress store accept-loss` or `restore`); a job with such an id is lost"
        )
    if settings.store and not settings.history:
        return (
            f"the record of job {number} is not on this machine: it is forgotten some time after the end of the job, "
            "or only a center that does not run at the moment has it (`--history` names a database for all)"
        )
    return f"the record of job {number} is no longer kept: jobs are forgotten some time after their end"


async def own_job(request: HTTPConnection, id: str) -> AnyJob:
    """Return a job that the caller may change. Raises NotFound, and Forbidden for one that the caller only sees."""
    found = await seen_job(request, id)
    check_steers(request, found)
    return found


def sees(request: HTTPConnection, job: AnyJob) -> bool:
    """Return whether the caller sees a job; with a job token, only that job."""
    bound = caller_of(request).job
    if bound and id_of(job) != bound:
        return False
    return sight_of(request).has(spec_of(job).user, group_of(job))


def sees_number(request: HTTPConnection, number: int) -> bool:
    """Return whether the caller sees the live or recently ended job with this id."""
    sight = sight_of(request)
    if sight.everything:
        return True
    job = recent_job(committer_of(request), number)
    return job is not None and sight.has(spec_of(job).user, group_of(job))


def may_steer(request: HTTPConnection, job: AnyJob) -> bool:
    """Return whether the caller may change a job and read its output."""
    return steers(caller_of(request), spec_of(job).user, group_of(job))


def check_steers(request: HTTPConnection, job: AnyJob) -> None:
    """Raise Forbidden unless the caller may change a job; note it for the audit log if the job has another user."""
    caller, owner = caller_of(request), spec_of(job).user
    if not may_steer(request, job):
        raise Forbidden(f"job {id_of(job)} belongs to {owner}; {caller.user} may not change it or read its output")
    if owner != caller.user:
        note(request, f"job {id_of(job)} of {owner}")


def note(request: HTTPConnection, what: str) -> None:
    """Have this request written to the audit log, whatever its result."""
    request.scope["state"].setdefault("audited", what)
