"""What jobs wait for: one look at a page, an address or a file, and how often things are looked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from cress.center.notifications import sender
from cress.center.waiting import looker, waiter
from cress.center.waiting.looker import Looker
from cress.center.waiting.looks import LookOrder, LookResult, decode_order
from cress.model.times import SECOND
from cress.model.waits import ADDRESS, PATH, URL, WaitFor


def look(kind: str, name: str, folders: tuple[Path, ...] = (), status: int = 200) -> LookResult:
    async def looked() -> LookResult:
        pages = httpx.MockTransport(lambda _: httpx.Response(status))
        async with httpx.AsyncClient(transport=pages) as client:
            return await Looker(folders, client).look(LookOrder(7, kind, name))

    return asyncio.run(looked())


@pytest.mark.parametrize(("status", "found"), [(200, True), (399, True), (400, False), (404, False), (500, False)])
def test_a_page_is_there_unless_the_server_answers_with_an_error(status: int, found: bool) -> None:
    assert look(URL, "http://pages.example.org/a", status=status) == LookResult(7, found)


@pytest.mark.parametrize("opened", [looker.open_client, sender.open_client])
def test_a_server_of_one_user_sets_no_cookie_for_those_of_others(
    opened: Callable[[httpx.AsyncBaseTransport], httpx.AsyncClient],
) -> None:
    sent: list[str] = []

    def page(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("cookie", ""))
        return httpx.Response(200, headers={"set-cookie": f"a={'x' * 4000}; Domain=.example.org; Path=/"})

    async def asked() -> None:
        async with opened(httpx.MockTransport(page)) as client:
            for name in ("ann", "bob"):
                await client.get(f"http://{name}.example.org/")

    asyncio.run(asked())
    assert sent == ["", ""]


def test_a_page_is_looked_for_where_its_address_leads() -> None:
    pages = httpx.MockTransport(
        lambda request: (
            httpx.Response(302, headers={"Location": "/new"})
            if request.url.path == "/old"
            else httpx.Response(404 if request.url.path == "/new" else 200)
        )
    )

    async def looked() -> LookResult:
        async with looker.open_client(pages) as client:
            return await Looker((), client).look(LookOrder(7, URL, "http://server/old"))

    assert not asyncio.run(looked()).found


def test_an_address_is_there_when_somebody_listens() -> None:
    async def looked() -> list[LookResult]:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        order = LookOrder(7, ADDRESS, f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with httpx.AsyncClient() as client:
            found = [await Looker((), client).look(order)]
            server.close()
            await server.wait_closed()
            return [*found, await Looker((), client).look(order)]

    assert asyncio.run(looked()) == [LookResult(7, True), LookResult(7, False)]


def test_a_file_is_looked_for_in_the_folders_only(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "in"
    folder.mkdir()
    for name in ("outside", "in/there"):
        (tmp_path / name).touch()
    (folder / "link").symlink_to(tmp_path / "outside")
    assert look(PATH, str(folder / "there"), (folder,)) == LookResult(7, True)
    assert look(PATH, str(folder / "not yet"), (folder,)) == LookResult(7, False)
    (folder / "loop").symlink_to("loop")
    assert look(PATH, str(folder / "loop"), (folder,)) == LookResult(7, False)
    for path in (folder / "link", tmp_path / "outside", folder / ".." / "outside"):
        result = look(PATH, str(path), (folder,))
        assert not result.found
        assert "not in a folder in which jobs may wait for files (--wait-folder)" in result.problem


def test_each_thing_is_looked_for_once_for_all_jobs_and_again_after_the_shortest_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiter, "STEP", 0)
    seldom, often = (WaitFor(URL, "http://a", every=every * SECOND) for every in (60, 10))
    other = WaitFor(PATH, "/b", every=25 * SECOND)
    ann = SimpleNamespace(user="ann")
    jobs = {
        1: SimpleNamespace(job=ann, awaits=(seldom, other), held=False),
        2: SimpleNamespace(job=ann, awaits=(often,), held=False),
        3: SimpleNamespace(job=ann, awaits=(WaitFor(URL, "http://held"),), held=True),
    }
    now = 1000 * SECOND
    asked: list[tuple[int, str]] = []
    committer: Any = SimpleNamespace(
        settings=SimpleNamespace(wait_hosts=(), wait_folders=()),
        clock=SimpleNamespace(now=lambda: now),
        machine=SimpleNamespace(awaiting=[*jobs, 4], jobs=jobs),
    )

    async def ask() -> None:
        nonlocal now
        it = waiter.Waiter(committer)

        async def drain() -> None:
            it._open = waiter.LooksInProgress()  # as if it was answered at once: it is not there

        def write(line: bytes) -> None:
            asked.append((now // SECOND - 1000, decode_order(line).name))

        pipe: Any = SimpleNamespace(write=write, drain=drain)
        task = asyncio.create_task(it._ask(pipe))
        for _ in range(31):
            for _ in range(3):
                await asyncio.sleep(0)
            now += SECOND
        task.cancel()

    asyncio.run(ask())
    assert asked == [(0, "http://a"), (0, "/b"), (10, "http://a"), (20, "http://a"), (25, "/b"), (30, "http://a")]
