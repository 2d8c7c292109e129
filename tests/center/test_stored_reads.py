"""Reads with ``?stale=no`` show what is stored, never what is only on its way there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cress.store.base import Batch, StoreError
from tests.center.inside import Inside, inside


class Gate:
    """Commits wait until it opens, and fail then if ``error`` is set."""

    def __init__(self) -> None:
        self.error = ""
        self._open = threading.Event()

    def open(self, error: str = "") -> None:
        self.error = error
        self._open.set()

    def commit(self, store: Any, batch: Batch, epoch: int) -> None:
        assert self._open.wait(20)
        if self.error:
            raise StoreError(self.error)
        type(store).commit(store, batch, epoch)


@contextmanager
def gate_of(center: Inside) -> Iterator[Gate]:
    gate = Gate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(center.store, "commit", lambda batch, epoch: gate.commit(center.store, batch, epoch))
        yield gate


async def cancelled_before_it_is_stored(center: Inside, job: int) -> asyncio.Task[Any]:
    """Cancel a job; return when readers see that, though it is not stored."""
    cancel = asyncio.create_task(center.http.post(f"/v1/jobs/{job}/cancel", json={}))
    for _ in range(100):
        await asyncio.sleep(0.01)
        if (await center.get(f"/v1/jobs/{job}"))["state"] == "cancelled":
            break
    assert not cancel.done()
    return cancel


async def cancelled_and_read(center: Inside, job: int) -> tuple[asyncio.Task[Any], asyncio.Task[Any]]:
    """Cancel a job, and read it while that is being stored; return both calls, which wait."""
    cancel = await cancelled_before_it_is_stored(center, job)
    read = asyncio.create_task(center.http.get(f"/v1/jobs/{job}?stale=no"))
    await asyncio.sleep(0.1)
    return cancel, read


def test_a_read_waits_until_what_it_shows_is_stored(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        job = await center.submit()
        with gate_of(center) as gate:
            cancel = await cancelled_before_it_is_stored(center, job)
            reads = [asyncio.create_task(center.get(f"/v1/jobs{path}?stale=no")) for path in (f"/{job}", "")]
            assert not (await asyncio.wait(reads, timeout=0.2))[0]
            gate.open()
            one, all_of_them = await asyncio.gather(*reads)
            assert one["state"] == "cancelled"
            assert [each["state"] for each in all_of_them["jobs"]] == ["cancelled"]
            assert (await cancel).status_code == 200
        assert (await center.get(f"/v1/jobs/{job}?stale=no"))["state"] == "cancelled"

    inside(tmp_path, story)


def test_a_read_that_saw_what_is_never_stored_is_refused(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        job = await center.submit()
        with gate_of(center) as gate:
            cancel, read = await cancelled_and_read(center, job)
            gate.open("the disk is full")
            assert (await cancel).status_code == 503
            answer = await read
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "1"
        assert answer.json()["message"] == "what this would have shown was not stored: the disk is full"
        for _ in range(200):
            answer = await center.http.get(f"/v1/jobs/{job}?stale=no")
            if answer.status_code == 200:
                break
            await asyncio.sleep(0.05)
        assert answer.json()["state"] == "waiting"

    inside(tmp_path, story)


def test_a_read_of_what_is_given_up_is_refused_at_once(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        job = await center.submit()
        with gate_of(center) as gate:
            cancel, read = await cancelled_and_read(center, job)
            center.committer.lapsed()  # another center may lead: what is under way is given up
            assert (await read).status_code == 503
            assert (await center.http.get(f"/v1/jobs/{job}?stale=no")).status_code == 503
            gate.open()
            assert (await cancel).status_code == 503

    inside(tmp_path, story)


def test_a_wish_that_is_none_is_refused_by_any_center(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        error = await center.get("/v1/jobs?stale=maybe", 422)
        assert error["message"].startswith("stale: 'maybe' is not ok or no")

    inside(tmp_path, story)
