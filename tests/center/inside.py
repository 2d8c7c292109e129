"""A center inside the test: the real committer on a real store, the real API without a socket, executors by their
inputs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from cress.center.access.callers import Callers
from cress.center.api.app import make_app
from cress.center.committing.committer import Committer
from cress.center.leader.mover import Mover
from cress.center.process.clock import Clock
from cress.center.secrets.key_file import KeyFile
from cress.center.secrets.vault import Vault
from cress.center.settings import CenterSettings
from cress.lifecycle.inputs import NodeJoined, Reported
from cress.model.node import Node
from cress.model.reports import Cause, Ended, Started, Usage
from cress.model.times import SECOND
from cress.store.base import Batch, StoreError
from cress.store.sqlite import SqliteStore

TOKEN = "x" * 30


class Store(SqliteStore):
    """A store whose commits fail while ``failing``."""

    failing = False

    def take_over(self, epoch: int, number: int, cluster: str) -> int:
        if self.failing:
            raise StoreError("the disk is full")
        return super().take_over(epoch, number, cluster)

    def commit(self, batch: Batch, epoch: int) -> None:
        if self.failing:
            raise StoreError("the disk is full")
        super().commit(batch, epoch)


class Inside:
    """A running committer, its mover (which works when it is told to), and a client of its API."""

    def __init__(self, data: Path, user: str = "ann", clock: Clock | None = None, **settings: Any) -> None:
        self.store = Store(data / "cress.db")
        self.committer = Committer(self.store, CenterSettings(data=data, **settings), clock)
        self.mover = Mover(self.committer)
        keys = KeyFile(data.with_name(f"{data.name}-keys") / "secrets.key", data)
        self.vault = Vault(self.committer, lambda: keys)
        callers = Callers(self.committer, user)
        app = make_app(self.committer, token=TOKEN, callers=callers, vault=self.vault, names=("localhost",))
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app, raise_app_exceptions=False),
            base_url="http://localhost",
            headers={"Authorization": f"Bearer {TOKEN}"},
        )

    async def __aenter__(self) -> Self:
        await self.committer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.failing = False
        await self.http.aclose()
        await self.committer.stop()

    async def call(self, method: str, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        answer = await self.http.request(method, path, json=body, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def get(self, path: str, status: int = 200) -> Any:
        return await self.call("GET", path, status=status)

    async def submit(self, **job: Any) -> int:
        answer = await self.call("POST", "/v1/jobs", {"jobs": [{"command": ["true"]} | job]}, 201)
        return int(answer["jobs"][0]["id"])

    async def join(self, name: str = "n1", cores: int = 64) -> None:
        node = Node(name=name, capacity=(cores * 1000, 2**40, 2**30, 2**30, 2**30, 2**20, 2**20))
        await self.committer.submit(NodeJoined(node=node, boot="b"))

    @asynccontextmanager
    async def moving(self) -> AsyncIterator[None]:
        """Move finished work into the history, again and again."""
        over = asyncio.Event()

        async def move() -> None:
            while not over.is_set():
                await self.mover.move()

        moving = asyncio.create_task(move())
        try:
            yield
        finally:
            over.set()
            await moving

    async def started(self, job: int) -> None:
        for attempt in list(self.committer.machine.jobs[job].attempts.values()):
            report = Started(attempt=attempt.id, at=self.committer.clock.utc(), pid=7)
            await self.committer.submit(Reported(node=attempt.node, reports=(report,)))

    async def end(self, job: int, *, code: int = 0, cpu: int = SECOND, later: int = 0) -> None:
        """All running tasks of a job end, by the wall clock ``later`` microseconds from now."""
        utc = self.committer.clock.utc()
        for attempt in list(self.committer.machine.jobs[job].attempts.values()):
            ended = Ended(
                attempt=attempt.id, cause=Cause.EXITED, code=code, started=utc, at=utc + later, usage=Usage(cpu, 2**20)
            )
            await self.committer.submit(Reported(node=attempt.node, reports=(ended,)))


def inside(data: Path, story: Callable[[Inside], Awaitable[None]], **settings: Any) -> None:
    """Tell a story with a center that starts before and stops after it."""

    async def told() -> None:
        async with Inside(data, **settings) as center:
            await story(center)

    asyncio.run(told())


async def until(what: Callable[[], bool]) -> None:
    """Return when it is so."""
    async with asyncio.timeout(60):
        while not what():  # noqa: ASYNC110 – nobody tells
            await asyncio.sleep(0.01)
