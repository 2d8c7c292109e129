"""Names of running tasks, with their places, and licences with their users."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.client.errors import ClientError, NotFound
from cress.portal.sessions import BrowserSession
from cress.portal.web import page, signed_in
from cress.protocol.cluster_views import PlaceView
from cress.protocol.queries import JobsQuery

# Names that are offered: those of the latest running jobs.
OFFERED = 200


@signed_in
async def names(request: Request, session: BrowserSession) -> Response:
    """Show the places of a name, and the names that running jobs have."""
    viewer, name = session.viewer, request.query_params.get("name", "").strip()
    running = await viewer.ask(calls.jobs(JobsQuery(limit=OFFERED, state="running")), fresh=3.0)
    places: tuple[PlaceView, ...] = ()
    problem = ""
    if name:
        try:
            places = (await viewer.ask(calls.resolve(name))).places
        except NotFound as error:
            problem = str(error)
        except ClientError as error:
            if "/" in name or len(name) > 128:
                problem = str(error)
            else:
                raise
    return await page(
        request,
        session,
        "names.html",
        name=name,
        places=places,
        problem=problem,
        offered=sorted({job.name for job in running.jobs if job.name}),
        about="",
    )


@signed_in
async def licences(request: Request, session: BrowserSession) -> Response:
    """Show the licences of the cluster."""
    found = await session.viewer.ask(calls.licences())
    return await page(request, session, "licences.html", licences=found.licences, about="")


ROUTES = [Route("/names", names, methods=["GET"]), Route("/licences", licences, methods=["GET"])]
