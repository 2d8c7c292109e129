"""A center that stands by takes over when the lead is certainly its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from cress.center.committing.committer import Committer
from cress.center.committing.leader_election import LeaderElection
from cress.center.committing.lookup import find_job, find_tasks
from cress.center.keeping.history_reader import FILE as HISTORY
from cress.center.leader.leader_work import LeaderWork
from cress.center.leader.mover import Mover
from cress.center.leader.standby import Standby
from cress.center.settings import CenterSettings
from cress.lifecycle.inputs import NodeJoined, Reported, Submit
from cress.model.job import Job
from cress.model.node import Node
from cress.model.records import JobRecord, JobState
from cress.model.reports import Cause, Ended
from cress.model.run import Run
from cress.model.times import SECOND
from cress.store.opening import open_store
from cress.store.replicated import ReplicatedStore
from tests.center.inside import until
from tests.center.leads import Lead
from tests.servers.logs import empty_place
from tests.servers.zookeeper import Ensemble
from tests.waiting import PATIENCE


def test_a_center_whose_lead_is_uncertain_replaces_no_other_one(zookeeper: Ensemble, tmp_path: Path) -> None:
    """Found by a history of three centers: two replaced each other in turns for seconds."""

    async def story() -> None:
        store = open_store(empty_place(zookeeper), tmp_path / "a")
        assert isinstance(store, ReplicatedStore)
        lead = Lead(certain=False)
        election = LeaderElection(lead, "http://a")
        committer = Committer(store, CenterSettings(data=tmp_path), election=election)
        standby = Standby(committer, store, election)

        async def prepare() -> None: ...

        taking_over = asyncio.create_task(standby.until_it_leads(prepare))
        await until(lambda: election.is_mine)
        await asyncio.wait((taking_over,), timeout=0.3)
        assert store.load().epoch == 0
        assert not taking_over.done()
        lead.certain = True
        await asyncio.wait_for(taking_over, PATIENCE)
        assert store.load().epoch == 1
        await committer.stop()

    asyncio.run(story())


class Centers:
    """Centers of one shared store in this process: the first one leads, and each has its own data directory."""

    def __init__(self, place: str, folder: Path) -> None:
        self._place = place
        self._folder = folder

    @asynccontextmanager
    async def center(self, name: str, lead: Lead, **settings: str) -> AsyncIterator[tuple[Committer, Standby]]:
        """Run a center with this lead, which may be none: then it stands by."""
        data = self._folder / name
        data.mkdir(exist_ok=True)
        store = open_store(self._place, data)
        assert isinstance(store, ReplicatedStore)
        election = LeaderElection(lead, f"http://{name}")
        committer = Committer(store, CenterSettings(data=data, store=self._place, **settings), election=election)  # type: ignore[arg-type]
        standby = Standby(committer, store, election)
        await standby.load()
        try:
            yield committer, standby
        finally:
            await committer.stop()


async def leads(committer: Committer, standby: Standby) -> None:
    """Take over, and work."""

    async def prepare() -> None: ...

    await standby.until_it_leads(prepare)
    await committer.work()


async def finished(committer: Committer, name: str) -> int:
    """Run a job to its end."""
    (number,) = await committer.submit(
        Submit(jobs=(Job(id=0, name=name, group="", request=(1000, 0, 0, 0, 0, 0, 0)),)),
        (Run(job=0, command=("true",)),),
    )
    (attempt,) = committer.machine.jobs[number].attempts.values()
    utc = committer.clock.utc()
    end = Ended(attempt=attempt.id, cause=Cause.EXITED, code=0, started=utc, at=utc + SECOND)
    await committer.submit(Reported(node="n1", reports=(end,)))
    return number


NODE = Node(name="n1", capacity=(64_000, 2**40, 2**30, 2**30, 2**30, 2**20, 2**20))


def test_what_the_leader_moves_into_its_history_is_in_that_of_each_center(zookeeper: Ensemble, tmp_path: Path) -> None:
    """Found by a fail-over: a job that had ended 100 s before was not known to the new leader."""
    centers = Centers(empty_place(zookeeper), tmp_path)

    async def story() -> None:
        async with (
            centers.center("a", Lead()) as (first, taking_over),
            centers.center("b", Lead(wanted=False)) as (second, follower),
        ):
            await leads(first, taking_over)
            await first.submit(NodeJoined(node=NODE, boot="b"))
            job = await finished(first, "over")
            # Moved as soon as it had ended, and both come to the other center at once.
            await Mover(first).work()
            assert first.store.job(job) is None
            await follower.load()
            later = await finished(first, "later")
            await follower.follow()
            await Mover(first).work()
            await follower.follow()
            assert (second.store.job(job), second.store.job(later)) == (None, None)
            for number, name in ((job, "over"), (later, "later")):
                found = await find_job(second, number)
                assert isinstance(found, JobRecord)
                assert (found.name, found.state, found.run.command) == (name, JobState.SUCCEEDED, ("true",))  # type: ignore[attr-defined]
                (task,) = await find_tasks(second, number, 0, 0)
                assert [each.node for each in task.finished] == ["n1"]
            used = [await each.history.usage(since=0, until=2**40, group="") for each in (first, second)]
            assert used[0] == used[1]
            assert sum(each.succeeded for each in used[1].values()) == 2

    asyncio.run(story())


def test_a_center_that_was_away_takes_in_what_was_moved_meanwhile(zookeeper: Ensemble, tmp_path: Path) -> None:
    centers = Centers(empty_place(zookeeper), tmp_path)

    async def story() -> None:
        async with centers.center("a", Lead()) as (first, taking_over):
            await leads(first, taking_over)
            await first.submit(NodeJoined(node=NODE, boot="b"))
            before = await finished(first, "before")
            async with centers.center("b", Lead(wanted=False)):
                pass
            away = await finished(first, "away")
            await Mover(first).work()
            async with centers.center("b", Lead(wanted=False)) as (second, _):
                assert [(await find_job(second, each)) is not None for each in (before, away)] == [True, True]

    asyncio.run(story())


def test_what_all_centers_share_is_not_copied_and_a_full_disk_does_not_stop_a_standby(
    zookeeper: Ensemble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    centers = Centers(empty_place(zookeeper), tmp_path)
    shared = f"sqlite:///{tmp_path / 'shared.db'}"

    async def story() -> None:
        async with (
            centers.center("a", Lead(), history=shared) as (first, taking_over),
            centers.center("b", Lead(wanted=False), history=shared) as (second, follower),
            centers.center("c", Lead(wanted=False)) as (third, other),
        ):
            await leads(first, taking_over)
            await first.submit(NodeJoined(node=NODE, boot="b"))
            job = await finished(first, "over")
            (tmp_path / "c" / HISTORY).mkdir()
            await Mover(first).work()
            for each in (follower, other):
                await each.follow()
            assert await find_job(second, job) is not None
            assert not (tmp_path / "b" / HISTORY).exists()
            assert third.store.job(job) is None
            assert third.machine.next_job == job + 1
            assert "finished work is not kept on this machine: the history" in caplog.text

    asyncio.run(story())


@pytest.mark.parametrize("head_start", [0.0, 60.0])
def test_a_background_task_that_cannot_be_made_is_an_error_of_the_begin(
    head_start: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cress.center.leader.leader_work.Mover", MagicMock(side_effect=OSError("no mover")))
    given: list[Any] = [*(MagicMock() for _ in range(7)), iter([[]]), (MagicMock(), None)]
    given[2].start = given[2].stop = AsyncMock()

    async def story() -> None:
        work = LeaderWork(*given)
        with pytest.raises(OSError, match="no mover"):
            await work.begin(head_start)
        await work.end()

    asyncio.run(story())
