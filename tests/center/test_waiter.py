"""Looks for what jobs wait for: each user has turns, whatever others wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from cress.center.committing.committer import NotStored
from cress.center.waiting import looker as looker_module
from cress.center.waiting.looker import AT_ONE_FOLDER, AT_ONE_USER, Looker
from cress.center.waiting.looks import LookOrder, LookResult, encode
from cress.center.waiting.waiter import MOST_OF_USER, MOST_OPEN, LooksInProgress, Waiter
from cress.lifecycle.inputs import Awaited
from cress.model.waits import PATH, URL, WaitFor
from tests.waiting import PATIENCE


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
        task = asyncio.create_task(Waiter(committer)._ask(pipe))
        # Many more turns than it needs; a time would be too short on a busy machine.
        for _ in range(20 * MOST_OPEN):
            await asyncio.sleep(0)
        task.cancel()

    monkeypatch.setattr(LooksInProgress, "begin", noted)
    asyncio.run(ask())
    assert len(tried) == MOST_OPEN


def test_what_is_found_is_told_to_each_job_that_waits_for_it() -> None:
    thing, other = WaitFor(URL, "http://a/", every=1), WaitFor(PATH, "/b")
    told: list[Awaited] = []

    async def submit(awaited: Awaited) -> None:
        told.append(awaited)
        if awaited.job == 3:
            raise NotStored("the disk is full")

    # Job 4 has ended while others were told.
    jobs = {
        number: SimpleNamespace(awaits=awaits) for number, awaits in ((1, (other, thing)), (2, (other,)), (3, (thing,)))
    }
    committer: Any = SimpleNamespace(
        settings=SimpleNamespace(wait_hosts=(), wait_folders=()),
        machine=SimpleNamespace(awaiting=[*jobs, 4], jobs=jobs),
        submit=submit,
    )

    async def story(found: bool, problem: str) -> bool:
        waiter, key = Waiter(committer), (thing.kind, thing.name)
        waiter._due[key] = 100
        order = waiter._open.begin(key, {"ann"})
        assert order is not None
        await waiter._take(encode(LookResult(order.id, found, problem)))
        assert waiter._open.things() == set()
        # An answer from the process before: the look is over.
        await waiter._take(encode(LookResult(order.id, True)))
        return key in waiter._due

    assert asyncio.run(story(False, "")), "looked for again, when it is due"
    assert told == []
    assert not asyncio.run(story(True, "")), "looked for at once, since job 3 does not know it"
    assert told == [Awaited(job=number, what=thing) for number in (1, 3)]
    told.clear()
    asyncio.run(story(False, "refused"))
    assert [each.problem for each in told] == ["refused"] * 2


def test_a_folder_that_hangs_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path.resolve() / name for name in ("hangs", "works")]
    for folder in folders:
        folder.mkdir()
        (folder / "x").touch()
    free, entered = threading.Event(), []

    def file(_: Looker, order: LookOrder) -> LookResult:
        entered.append(order.id)
        return LookResult(order.id, "works" in order.name or free.wait(2 * PATIENCE))

    async def run() -> tuple[list[bool], bool, bool]:
        async with httpx.AsyncClient() as client:
            looker = Looker(folders, client)
            orders = [LookOrder(number, PATH, f"{folders[0]}/x", f"user{number % 9}") for number in range(64)]
            hung = await asyncio.gather(*map(looker.look, orders))
            monkeypatch.setattr(looker_module, "PATIENCE", 2 * PATIENCE)
            # Nobody waits for a folder of which it is known that it hangs.
            late = await asyncio.wait_for(looker.look(LookOrder(99, PATH, f"{folders[0]}/x", "user1")), PATIENCE)
            assert not late.found
            # It also leaves the threads that find the addresses of hosts.
            await asyncio.wait_for(asyncio.to_thread(int), PATIENCE)
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
            found = await asyncio.wait_for(looker.look(LookOrder(100, URL, "http://quick/", "bob")), PATIENCE)
            under_way = len(asked) - 1
            free.set()
            await asyncio.gather(*slow)
        return found.found, under_way

    assert asyncio.run(run()) == (True, AT_ONE_USER)
