"""What pages cost the center: the number of its calls, for one open page and for many."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace

import httpx
import pytest

from cress.client.aio.http import AsyncHttp
from cress.client.calls import PreparedCall
from cress.portal.server import app_of
from cress.portal.sessions import BrowserSessions
from cress.portal.settings import PortalSettings, WrittenJob
from tests.system.cluster import Cluster

# Most calls of the center for one page, when nothing is kept yet. Who asks more, asks for all open pages.
MOST_CALLS = {
    "/": 9,
    "/jobs": 3,
    "/jobs/{job}": 4,
    "/nodes": 3,
    "/nodes/n1": 3,
    "/map": 2,
    "/groups": 3,
    "/groups/default": 4,
    "/reservations": 3,
    "/leases": 3,
    "/usage": 2,
    "/efficiency": 2,
    "/timeline": 6,
    "/events": 1,
    "/submit": 2,
    "/what-if": 1,
}
PAGES = 6


def _no_jobs(_: str) -> Sequence[WrittenJob]:
    return []


def test_many_open_pages_cost_the_center_no_more_calls_than_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster.client() as client:
        job = client.submit([{"name": "counted", "command": "true", "tasks": 3, "resource": "<10m, 1M>"}]).jobs[0].id
    bounds = {path.format(job=job): most for path, most in MOST_CALLS.items()}
    asked: list[str] = []
    ask = AsyncHttp.ask

    async def counted(self: AsyncHttp, call: PreparedCall[object]) -> object:
        asked.append(call.path)
        return await ask(self, call)

    monkeypatch.setattr(AsyncHttp, "ask", counted)
    # However slow this machine is, no answer becomes old while the pages are made.
    monkeypatch.setattr("cress.portal.viewers.time", SimpleNamespace(monotonic=lambda: 1000.0))

    async def story() -> dict[str, tuple[list[str], list[str]]]:
        settings = PortalSettings(folder=cluster.folder, read_jobs=_no_jobs, data=cluster.data)
        sessions = BrowserSessions(settings)
        app = app_of(settings, sessions, 80, "secret")
        found = {}
        transport = httpx.ASGITransport(app)
        url = "http://127.0.0.1:80"
        async with sessions.running(), httpx.AsyncClient(transport=transport, base_url=url) as browser:
            await browser.get(f"/enter/{sessions.new_code()}")
            (session,) = sessions._sessions.values()

            async def calls(path: str, pages: int) -> list[str]:
                session.viewer.forget()
                asked.clear()
                answers = await asyncio.gather(*(browser.get(path) for _ in range(pages)))
                assert {answer.status_code for answer in answers} == {200}, path
                # What a page does not wait for is made meanwhile.
                await asyncio.gather(
                    *(kept.future for kept in session.viewer._answers.values()), return_exceptions=True
                )
                return sorted(asked)

            for path in bounds:
                found[path] = await calls(path, 1), await calls(path, PAGES)
        return found

    found = asyncio.run(story())
    assert {path: one for path, (one, _) in found.items() if len(one) > bounds[path]} == {}
    assert {path: (one, many) for path, (one, many) in found.items() if one != many} == {}
