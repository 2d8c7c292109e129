"""Looks for what jobs wait for: each user has turns, whatever others wait for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from cress.center.waiting import looker as looker_module
from cress.center.waiting.looker import AT_ONE_FOLDER, AT_ONE_USER, Looker
from cress.center.waiting.looks import LookOrder, LookResult
from cress.center.waiting.waiter import MOST_OF_USER, MOST_OPEN, LooksInProgress, Waiter
from cress.model.waits import PATH, URL, WaitFor


def test_one_user_leaves_places_for_others() -> None:
    looks = LooksInProgress()
    anns = [looks.begin((URL, f"http://slow{number}/"), {"ann"}) for number in range(MOST_OPEN)]
    assert [order is not None for order in anns] == [number < MOST_OF_USER for number in range(MOST_OPEN)]
    # Nor does she use up the places of bob by waiting for the same thing.
    both = looks.begin((URL, "http://quick/"), {"ann", "bob"})
    assert both is not None
    assert both.user == "bob"
    assert anns[0] is not None
    assert looks.end(anns[0].id) == (URL, "http://slow0/")
    assert looks.end(anns[0].id) is None
    assert looks.begin((URL, "http://slow0/"), {"ann"}) is not None
    assert looks.begin((URL, "http://slow1/"), {"ann"}) is None
    others = [looks.begin((URL, f"http://{name}/"), {f"user{name}"}) for name in range(MOST_OPEN)]
    assert sum(order is not None for order in others) == MOST_OPEN - MOST_OF_USER - 1


def test_the_rest_of_many_things_costs_nothing_while_no_look_can_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = {
        number: SimpleNamespace(
            job=SimpleNamespace(user=f"user{number}"), awaits=(WaitFor(URL, f"http://{number}/", every=1),), held=False
        )
        for number in range(2 * MOST_OPEN)
    }
    committer: Any = SimpleNamespace(
        settings=SimpleNamespace(wait_hosts=(), wait_folders=()),
        clock=SimpleNamespace(now=lambda: 0),
        machine=SimpleNamespace(awaiting=list(jobs), jobs=jobs),
    )
    tried, begin = [], LooksInProgress.begin

    def noted(looks: LooksInProgress, key: tuple[str, str], users: Collection[str]) -> LookOrder | None:
        tried.append(key)
        return begin(looks, key, users)

    async def ask() -> None:
        async def drain() -> None:
            pass

        pipe: Any = SimpleNamespace(write=len, drain=drain)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(Waiter(committer)._ask(pipe), 0.3)

    monkeypatch.setattr(LooksInProgress, "begin", noted)
    asyncio.run(ask())
    assert len(tried) == MOST_OPEN


def test_a_folder_that_hangs_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path.resolve() / name for name in ("hangs", "works")]
    for folder in folders:
        folder.mkdir()
        (folder / "x").touch()
    free, entered = threading.Event(), []

    def file(_: Looker, order: LookOrder) -> LookResult:
        entered.append(order.id)
        return LookResult(order.id, "works" in order.name or free.wait(20))

    async def run() -> tuple[list[bool], bool, bool]:
        async with httpx.AsyncClient() as client:
            looker = Looker(folders, client)
            orders = [LookOrder(number, PATH, f"{folders[0]}/x", f"user{number % 9}") for number in range(64)]
            hung = await asyncio.gather(*map(looker.look, orders))
            # It also leaves the threads that find the addresses of hosts.
            await asyncio.wait_for(asyncio.to_thread(int), 10)
            other = await looker.look(LookOrder(100, PATH, f"{folders[1]}/x", "user1"))
            free.set()
            looker._threads[folders[0]]._pool.shutdown()
            looker._threads[folders[0]]._pool = ThreadPoolExecutor(1)
            again = await looker.look(LookOrder(101, PATH, f"{folders[0]}/x", "user1"))
            return [result.found for result in hung], other.found, again.found

    monkeypatch.setattr(looker_module, "PATIENCE", 0.2)
    monkeypatch.setattr(Looker, "_file", file)
    assert asyncio.run(run()) == ([False] * 64, True, True)
    assert len(entered) == AT_ONE_FOLDER + 2


def test_hosts_that_hang_hold_up_their_user_alone() -> None:
    async def run() -> tuple[bool, int]:
        free, asked = asyncio.Event(), []

        async def answer(request: httpx.Request) -> httpx.Response:
            asked.append(request.url.host)
            if request.url.host.startswith("slow"):
                await free.wait()
            return httpx.Response(200)

        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            looker = Looker([], client)
            slow = [
                asyncio.create_task(looker.look(LookOrder(number, URL, f"http://slow{number}/", "ann")))
                for number in range(100)
            ]
            found = await asyncio.wait_for(looker.look(LookOrder(100, URL, "http://quick/", "bob")), 30)
            under_way = len(asked) - 1
            free.set()
            await asyncio.gather(*slow)
        return found.found, under_way

    assert asyncio.run(run()) == (True, AT_ONE_USER)
