"""Leases of workloads: who holds what, what is idle, and what is lent to whom."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.portal.sessions import BrowserSession
from cress.portal.web import back_to, changing, page, signed_in


@signed_in
async def leases(request: Request, session: BrowserSession) -> Response:
    """Show workloads, their leases, and loans."""
    given = request.query_params
    group, workload = given.get("group", "").strip(), given.get("workload", "").strip()
    viewer = session.viewer
    sums = await viewer.ask(calls.workloads(workload, group))
    found = await viewer.ask(calls.leases(workload, group))
    return await page(
        request,
        session,
        "leases.html",
        workloads=sums.workloads,
        leases=found.leases,
        more=found.next is not None,
        chosen={"group": group, "workload": workload},
        own=(await viewer.caller()),
        about="",
    )


@changing
async def release(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Give a lease back to the cluster."""
    id = request.path_params["id"]
    await session.viewer.change(calls.release_lease(id))
    return back_to("/leases", session, f"lease {id} is given back")


ROUTES = [
    Route("/leases", leases, methods=["GET"]),
    Route("/leases/{id}/release", release, methods=["POST"]),
]
