"""The committer alone, on a real store: order of things, the log and its snapshots, failing commits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from cress.center.committing.committer import Committer, NotStored
from cress.center.keeping.recovery import load_machine
from cress.center.process.clock import Clock
from cress.center.settings import CenterSettings
from cress.core.scheduler import Scheduler
from cress.lifecycle.inputs import Cancel, NodeJoined, Submit
from cress.model.errors import InputError
from cress.model.events import NodeCordoned
from cress.model.job import Job
from cress.model.node import Node
from cress.model.run import Run
from cress.shell.center.commit import CommitLimits
from cress.store.base import Batch
from cress.store.sqlite import SqliteStore
from tests.center.inside import Store

_T = TypeVar("_T")


class Flaky(Store):
    """A store whose commits fail while ``failing``; ``committed`` is how many did not."""

    committed = 0

    def commit(self, batch: Batch, epoch: int) -> None:
        super().commit(batch, epoch)
        self.committed += 1


def run(tmp_path: Path, story: Callable[[Committer, Flaky], Awaitable[_T]], limits: CommitLimits | None = None) -> _T:
    """Tell a story with a committer that starts before and stops after it."""

    async def told() -> _T:
        store = Flaky(tmp_path / "cress.db")
        committer = Committer(store, CenterSettings(data=tmp_path), limits=limits)
        await committer.start()
        try:
            return await story(committer, store)
        finally:
            store.failing = False
            await committer.stop()

    return asyncio.run(told())


async def _until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not what():  # noqa: ASYNC110 – the committer tells nobody
            await asyncio.sleep(0.01)


def _submit(name: str = "") -> tuple[Submit, list[Run]]:
    job = Job(id=0, group="default", request=(1000, 0, 0, 0, 0, 0, 0), name=name, user="u")
    return Submit(jobs=(job,)), [Run(job=0, command=("true",), name=name)]


def test_inputs_that_come_together_are_stored_together(tmp_path: Path) -> None:
    async def story(committer: Committer, store: Flaky) -> tuple[list[tuple[int, ...]], int]:
        before = store.committed
        replies = await asyncio.gather(*(committer.submit(*_submit()) for _ in range(100)))
        return replies, store.committed - before

    replies, commits = run(tmp_path, story)
    assert replies == [(number,) for number in range(1, 101)]
    assert commits <= 3


def test_an_input_that_is_refused_harms_none_beside_it(tmp_path: Path) -> None:
    async def story(committer: Committer, _: Flaky) -> list[object]:
        given = [
            committer.submit(*_submit()),
            committer.submit(NodeCordoned(name="n9", cordoned=True)),
            committer.submit(*_submit()),
        ]
        return await asyncio.gather(*given, return_exceptions=True)

    first, refused, second = run(tmp_path, story)
    assert (first, second) == ((1,), (2,))
    assert isinstance(refused, InputError)


def test_runs_are_kept_with_the_id_that_the_job_got(tmp_path: Path) -> None:
    async def story(committer: Committer, _: Flaky) -> list[str]:
        await asyncio.gather(committer.submit(*_submit("a")), committer.submit(Cancel(job=99)), return_exceptions=True)
        await committer.submit(*_submit("b"))
        found = [committer.run(1), committer.run(2)]
        return [each.name for each in found if each is not None]

    async def again(committer: Committer, _: Flaky) -> list[str]:
        found = [committer.run(1), committer.run(2), committer.run(3)]
        return [each.name if each else "none" for each in found]

    assert run(tmp_path, story) == ["a", "b"]
    assert run(tmp_path, again) == ["a", "b", "none"]


def test_the_log_becomes_a_snapshot_before_it_is_long(tmp_path: Path) -> None:
    lengths: list[int] = []

    async def story(committer: Committer, store: Flaky) -> None:
        for number in range(1, 36):
            await committer.submit(*_submit())
            if number % 10 == 0:
                # It is begun by the next step and written beside it, and covers the steps before it began.
                await committer.submit(*_submit())
                await _until(lambda: len(store.load().records) < 10)
            lengths.append(len(store.load().records))

    run(tmp_path, story, CommitLimits(most_records=10))
    assert max(lengths) <= 12

    async def again(committer: Committer, store: Flaky) -> tuple[int, int, int]:
        return len(committer.machine.jobs), committer.epoch, len(store.load().records)

    # A clean stop leaves a snapshot only; the next start adds its epoch.
    assert run(tmp_path, again) == (38, 2, 1)


def test_a_failed_commit_is_told_and_undone_and_the_next_one_counts(tmp_path: Path) -> None:
    async def story(committer: Committer, store: Flaky) -> None:
        assert await committer.submit(*_submit("first")) == (1,)
        store.failing = True
        refused = await asyncio.gather(*(committer.submit(*_submit()) for _ in range(3)), return_exceptions=True)
        assert [str(error) for error in refused if isinstance(error, NotStored)] == ["the disk is full"] * 3
        with pytest.raises(NotStored, match="the disk is full"):
            await committer.submit(*_submit())
        await _until(lambda: len(committer.machine.jobs) == 1)
        assert committer.problem == "the disk is full"
        store.failing = False
        await _until(lambda: not committer.problem)
        assert await committer.submit(*_submit("second")) == (2,)
        assert committer.epoch == 2
        run = committer.run(2)
        assert run is not None
        assert run.name == "second"

    run(tmp_path, story)


def test_a_step_that_fails_once_is_made_again_from_the_stored_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(committer: Committer, _: Flaky) -> None:
        await committer.submit(*_submit())
        monkeypatch.setattr(committer.machine, "stepping", lambda *_: 1 // 0)
        both = await asyncio.gather(committer.submit(*_submit()), committer.submit(*_submit()))
        assert list(both) == [(2,), (3,)]
        assert (committer.epoch, committer.problem) == (1, "")

    run(tmp_path, story)
    assert "ZeroDivisionError" in caplog.text


def test_who_watches_a_job_hears_of_it_alone(tmp_path: Path) -> None:
    async def story(committer: Committer, _: Flaky) -> None:
        await committer.submit(*_submit())
        await committer.submit(*_submit())
        mine, other = committer.watch(1), committer.watch(2)
        await committer.submit(Cancel(job=1))
        async with asyncio.timeout(30):
            await mine
        assert not other.done()
        committer.leave()
        assert other.done()

    run(tmp_path, story)


def test_a_center_that_was_replaced_stores_nothing_and_serves_readers(tmp_path: Path) -> None:
    async def story(committer: Committer, _: Flaky) -> None:
        assert await committer.submit(*_submit("first")) == (1,)
        other = SqliteStore(tmp_path / "cress.db")
        saved = other.load()
        other.take_over(saved.epoch, saved.number, saved.cluster)
        with pytest.raises(NotStored, match=r"\(epoch 1\) does not lead any more: .* \(epoch 2\)"):
            await committer.submit(*_submit("second"))
        await _until(lambda: not committer.loop.loading)
        assert list(committer.machine.jobs) == [1]
        assert "does not lead" in committer.problem
        assert (other.load().epoch, other.load().number) == (2, saved.number)
        other.close()

    run(tmp_path, story)


def test_a_snapshot_is_taken_of_one_moment_and_what_comes_then_stays_in_the_log(tmp_path: Path) -> None:
    async def story(committer: Committer, store: Flaky) -> None:
        for _ in range(5):
            await committer.submit(*_submit())
        number = store.load().number
        committer._begin_snapshot(committer.loop.snapshot())
        later = [await committer.submit(*_submit()) for _ in range(3)]
        assert later == [(6,), (7,), (8,)]
        await _until(lambda: len(store.load().records) < number)
        assert store.load().number - number == len(store.load().records) == 3
        committer._task = None  # as after kill -9: no snapshot at the end

    async def again(committer: Committer, _: Flaky) -> list[int]:
        return list(committer.machine.jobs)

    run(tmp_path, story)
    assert run(tmp_path, again) == list(range(1, 9))


def test_recovery_applies_facts_and_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(name="n1", capacity=(64_000, 2**40, 2**30, 2**30, 2**30, 2**20, 2**20))

    async def story(committer: Committer, _: Flaky) -> tuple[list[int], int]:
        await committer.submit(NodeJoined(node=node, boot="b"))
        for _each in range(3):
            await committer.submit(*_submit())
        await committer.submit(Cancel(job=2))
        committer._task = None  # as after kill -9: no snapshot at the end
        return list(committer.machine.attempts), committer.events.last

    attempts, last = run(tmp_path, story)
    assert len(attempts) == 3
    monkeypatch.setattr(Scheduler, "decide", lambda *_: 1 // 0)
    store = SqliteStore(tmp_path / "cress.db")
    opened = load_machine(store, CenterSettings(data=tmp_path), Clock())
    store.close()
    assert list(opened.machine.attempts) == attempts
    assert opened.machine.jobs[2].ending
    assert opened.machine.validate() == []
    assert opened.events.last == last
    assert not opened.stepped
