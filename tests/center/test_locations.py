"""The center finds out where data lies: at once, again when it is old and waited for, never when nobody wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from cress.center.data_locations import locator as locations
from cress.center.data_locations.hdfs import Hdfs
from cress.center.data_locations.locator import Locator
from cress.center.data_locations.namenodes import Namenodes
from cress.core.tables.data_locations import Locations
from cress.lifecycle.inputs import DataFound
from cress.model.times import HOUR, SECOND
from tests.center.inside import Inside
from tests.center.namenode import Namenode

LOGS = "hdfs://nn:8020/logs"
NEAR = f'DataLocality = "{LOGS}"'
PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again is tried again soon."""
    monkeypatch.setattr(locations, "LOOK", 0.05)
    monkeypatch.setattr(locations, "RETRY", 0.05)


class Located(Inside):
    """A center with nodes n1 and n2 that asks a namenode."""

    def __init__(
        self, data: Path, namenode: Namenode, *, age: int = HOUR, patience: float = 10, **settings: Any
    ) -> None:
        super().__init__(data, **settings)
        hdfs = Hdfs(Namenodes([f"nn:8020={namenode.url}", "any"]), patience=patience)
        self.locator = Locator(self.committer, hdfs, age)
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        for name in ("n1", "n2"):
            if name not in self.committer.machine.nodes or not self.committer.machine.nodes[name].connected:
                await self.join(name, cores=2)
        self.task = asyncio.create_task(self.locator.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.task is not None
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        await super().__aexit__(kind, error, trace)

    @property
    def known(self) -> Locations:
        return self.committer.machine.core.relations.locations

    def nodes_of(self, job: int) -> list[str]:
        return [each.node for each in self.committer.machine.jobs[job].attempts.values()]

    def reason(self, job: int) -> str:
        return self.committer.machine.reason(job)

    async def runs_on(self, job: int, node: str) -> None:
        await until(lambda: self.nodes_of(job) == [node], f"job {job} on {node}")


async def until(look: Callable[[], object], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not look():
        assert asyncio.get_running_loop().time() < deadline, f"{what} did not happen"
        await asyncio.sleep(0.01)


def located(node: str) -> Namenode:
    return Namenode({"/logs": [(100, (node,))]})


def test_a_job_runs_where_its_data_is_and_the_last_one_lets_it_be_forgotten(tmp_path: Path) -> None:
    async def check() -> None:
        with located("n2") as namenode:
            async with Located(tmp_path, namenode) as center:
                one = await center.submit(requirement=NEAR)
                await center.runs_on(one, "n2")
                two = await center.submit(rank=f"2 × ({NEAR})")
                await center.runs_on(two, "n2")
                await center.end(one)
                assert center.known.places == {LOGS: (("n2", 1000),)}
                await center.end(two)
                await until(lambda: not center.known.places, "that it is forgotten")
                assert namenode.questions("GETFILESTATUS") == 1

    asyncio.run(check())


def test_a_namenode_that_is_away_is_the_reason_until_it_is_back(tmp_path: Path) -> None:
    async def check() -> None:
        with located("n1") as namenode:
            pass
        async with Located(tmp_path, namenode) as center:
            job = await center.submit(requirement=NEAR)
            assert center.reason(job).endswith(f"the location of {LOGS} is not known yet")
            why = f"{LOGS}: the namenode at {namenode.url} cannot be reached"
            await until(lambda: center.reason(job).endswith(why), why)
            with namenode:
                await center.runs_on(job, "n1")

    asyncio.run(check())


def test_what_is_old_is_looked_up_again_while_a_job_waits_for_it_and_only_then(tmp_path: Path) -> None:
    async def check() -> None:
        with located("elsewhere") as namenode:
            async with Located(tmp_path, namenode, age=SECOND // 10) as center:
                job = await center.submit(requirement=NEAR)
                await until(lambda: center.reason(job).endswith(f"no node has {LOGS}"), "that no node has it")
                namenode.files = {"/logs": [(100, ("n1",))]}
                await center.runs_on(job, "n1")
                asked = len(namenode.asked)
                await asyncio.sleep(0.5)
                assert len(namenode.asked) == asked, "nobody waits for it"
                namenode.files = {"/logs": [(100, ("n2",))]}
                other = await center.submit(requirement=f'{NEAR} && Name = "n2"')
                await center.runs_on(other, "n2")

    asyncio.run(check())


@pytest.mark.long
def test_what_was_known_counts_while_the_namenode_is_away_but_not_when_the_file_is_gone(tmp_path: Path) -> None:
    async def check() -> None:
        with located("n1") as namenode:
            async with Located(tmp_path, namenode, age=SECOND // 10) as center:
                waits = await center.submit(requirement=f'{NEAR} && Name = "n2"')
                await until(lambda: center.known.places, "the place")
                namenode.how, asked = "broken", len(namenode.asked)
                await until(lambda: len(namenode.asked) > asked + 1, "two tries")
                job = await center.submit(requirement=NEAR)
                await center.runs_on(job, "n1")
                namenode.files, namenode.how = {}, ""
                why = f"{LOGS}: no such file (according to the namenode)"
                await until(lambda: center.reason(waits).endswith(why), why)

    asyncio.run(check())


def test_a_namenode_that_hangs_holds_up_nobody_else(tmp_path: Path) -> None:
    async def check() -> None:
        with located("n1") as namenode, located("n2") as good:
            namenode.how = "hang"
            async with Located(tmp_path, namenode) as center:
                jobs = [await center.submit(requirement=f'DataLocality = "{LOGS}/{n}"') for n in range(20)]
                port = good.port
                other = await center.submit(requirement=f'DataLocality = "webhdfs://127.0.0.1:{port}/logs"')
                plain = await center.submit()
                await center.runs_on(other, "n2")
                await until(lambda: center.nodes_of(plain), "a job without data")
                for job in jobs:
                    await center.call("POST", f"/v1/jobs/{job}/cancel")
                await until(lambda: list(center.locator._entries) == [f"webhdfs://127.0.0.1:{port}/logs"], "the rest")

    asyncio.run(check())


@pytest.mark.long
def test_a_new_center_looks_everything_up_again_and_forgets_what_nobody_names(tmp_path: Path) -> None:
    async def check() -> None:
        with located("elsewhere") as namenode:
            async with Located(tmp_path, namenode) as center:
                job = await center.submit(requirement=NEAR)
                await until(lambda: center.known.places, "the place")
            namenode.files = {"/logs": [(100, ("n1",))]}
            async with Located(tmp_path, namenode) as center:
                await center.runs_on(job, "n1")

    asyncio.run(check())


@pytest.mark.long
def test_what_could_not_be_stored_is_told_again(tmp_path: Path) -> None:
    async def check() -> None:
        with located("n1") as namenode:
            namenode.how = "broken"
            async with Located(tmp_path, namenode) as center:
                job = await center.submit(requirement=NEAR)
                await until(lambda: center.known.problems, "the problem")
                center.store.failing, namenode.how = True, ""
                await until(lambda: center.committer.problem, "the full disk")
                center.store.failing = False
                await until(lambda: not center.committer.problem, "the end of the trouble")
                for name in ("n1", "n2"):
                    await center.join(name, cores=2)
                await center.runs_on(job, "n1")

    asyncio.run(check())


def test_paths_of_a_node_change_while_it_is_connected(tmp_path: Path) -> None:
    async def check() -> None:
        with located("n1") as namenode:
            async with Located(tmp_path, namenode) as center:
                job = await center.submit(requirement='DataLocality = "/data/a/b"')
                assert center.reason(job).endswith("no node has /data/a/b")
                await center.committer.submit(DataFound(name="n2", data=("/data/a",)))
                await center.runs_on(job, "n2")
                assert namenode.asked == []

    asyncio.run(check())
