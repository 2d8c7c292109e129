"""Reports of simulations and replays: those in the folder of the portal, compared, and each as a whole."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from cress.model.access import Role, role_of
from cress.model.errors import InputError
from cress.portal.sessions import BrowserSession
from cress.portal.web import FormError, page, signed_in

REPORT, SUMMARY = "report.html", "summary.json"
# Depth of the folders that are searched, reports and runs that are shown, and the most bytes of a summary.
DEPTH, MOST_REPORTS, MOST_RUNS, MOST_BYTES = 3, 100, 40, 4 * 2**20
# A report has scripts of its own. In a sandbox they reach neither the portal nor its cookies, and no network.
SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; frame-ancestors 'none'"
)


class ReportSummary(msgspec.Struct, frozen=True):
    """The summary of a run; docs/simulate.md has its fields."""

    policy: str
    trace: str = ""
    options: dict[str, str] = {}
    jobs_finished: int = 0
    wait_mean_s: float | None = None
    wait_p95_s: float | None = None
    bounded_slowdown_mean: float | None = None
    utilisation_mean: float | None = None
    preemptions: int = 0


class Report(NamedTuple):
    """A report: the path of its folder below the folder of all, its time in seconds since the epoch, and its runs."""

    name: str
    made: float
    runs: list[ReportSummary]


_decode = msgspec.json.Decoder(ReportSummary).decode


def reports_in(folder: Path) -> list[Report]:
    """Return the reports in a folder and the folders below it, the latest first."""
    found = [(file.stat().st_mtime, file.parent) for file in _files(folder)]
    found.sort(key=lambda one: (-one[0], one[1]))
    return [Report(str(place.relative_to(folder)), made, [*_runs(place)]) for made, place in found[:MOST_REPORTS]]


def _files(folder: Path) -> Iterator[Path]:
    for place, below, files in os.walk(folder):
        if REPORT in files:
            yield Path(place) / REPORT
        if len(Path(place).relative_to(folder).parts) >= DEPTH:
            below.clear()


def _runs(folder: Path) -> Iterator[ReportSummary]:
    for file in sorted(folder.glob(f"*/{SUMMARY}"))[:MOST_RUNS]:
        try:
            with file.open("rb") as content:
                yield _decode(content.read(MOST_BYTES))
        except (OSError, msgspec.MsgspecError):
            continue  # a run that is being written


def _folder(request: Request, session_role: str) -> Path | None:
    """Return the folder of the reports. Raises FormError for users who may not see the work of all."""
    if role_of(session_role).rank < Role.OPERATOR.rank:
        raise FormError("reports show the work of all users: they need the role operator or admin", 403)
    folder: Path | None = request.app.state.settings.reports
    return folder


@signed_in
async def reports(request: Request, session: BrowserSession) -> Response:
    """Show the reports."""
    caller = await session.viewer.caller()
    folder = _folder(request, caller.role)
    found = [] if folder is None else await asyncio.to_thread(reports_in, folder)
    return await page(request, session, "reports.html", reports=found, folder=folder)


@signed_in
async def report(request: Request, session: BrowserSession) -> Response:
    """Show one report as a whole, apart from the portal."""
    caller = await session.viewer.caller()
    folder, name = _folder(request, caller.role), request.query_params.get("name", "")
    # Only what was found is sent, whatever the name looks like.
    names = [] if folder is None else [one.name for one in await asyncio.to_thread(reports_in, folder)]
    if folder is None or name not in names:
        raise InputError(f"there is no report {name[:100]!r}", hint="/reports lists them", field="name")
    headers = {"content-security-policy": SANDBOX, "cross-origin-opener-policy": "unsafe-none"}
    return FileResponse(folder / name / REPORT, media_type="text/html; charset=utf-8", headers=headers)


ROUTES = [Route("/reports", reports, methods=["GET"]), Route("/reports/whole", report, methods=["GET"])]
