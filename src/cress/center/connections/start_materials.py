"""Start material: secrets for starting attempts, sent to the executors on request, and stored nowhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, TypeAlias

from cress.center.connections.connection_table import Connection, Connections
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.errors import InputError
from cress.model.run import Run
from cress.model.start_material import StartMaterial
from cress.protocol.messages import Material
from cress.shell.center.commit import CommitLoop
from cress.shell.center.effects import Supply

# Attempts whose material is made before other work has its turn.
AT_ONCE = 32
DEFECT = "the center could not prepare the secrets of the task; see its log"

_log = logging.getLogger("cress.center")


class Starting(NamedTuple):
    """An attempt that is about to start on its node."""

    attempt: LiveAttempt
    job: LiveJob
    run: Run


# Returns a part of an attempt's start material, or raises InputError with the reason why the attempt must not start.
Provider: TypeAlias = Callable[[Starting], Awaitable[StartMaterial]]


class StartMaterials:
    """Makes start material from the parts of its ``providers``, in order; a later part overrides an earlier one."""

    def __init__(self, loop: CommitLoop, connections: Connections) -> None:
        self.providers: list[Provider] = []
        # What the starts of attempts wait for, as sentences.
        self.waits: dict[int, str] = {}
        self._loop = loop
        self._connections = connections
        self._tasks: set[asyncio.Task[None]] = set()

    def supply(self, order: Supply) -> None:
        """Send the material of these attempts to their executor, in the background."""
        connection = self._connections.of(order.session)
        if connection is not None:
            self._begin(self._supply(connection, order))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="start material")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _waits_for_others(self, number: int) -> bool:
        attempt = self._loop.machine.attempts.get(number)
        job = None if attempt is None else self._loop.machine.jobs.get(attempt.job)
        run = None if job is None else self._loop.resolved(job)
        return run is not None and bool(run.uses)

    async def _supply_one(self, connection: Connection, number: int) -> None:
        connection.put(await self._material(number))

    async def _supply(self, connection: Connection, order: Supply) -> None:
        for place, number in enumerate(order.attempts, 1):
            if order.session.closed:
                return
            if self._waits_for_others(number):
                # Others of this order may be those for which it waits.
                self._begin(self._supply_one(connection, number))
            else:
                await self._supply_one(connection, number)
            if place % AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _material(self, number: int) -> Material:
        try:
            made = await self._made(number)
        except InputError as error:
            return Material(epoch=self._loop.epoch, attempt=number, refused=str(error))
        except Exception as error:  # noqa: BLE001 - the attempt must not wait for its deadline
            # Only the type is logged, since the text of an error may contain a secret.
            _log.error("the start material of attempt %d could not be made: %s", number, type(error).__name__)
            return Material(epoch=self._loop.epoch, attempt=number, refused=DEFECT)
        return Material(epoch=self._loop.epoch, attempt=number, material=made)

    async def _made(self, number: int) -> StartMaterial:
        machine = self._loop.machine
        attempt = machine.attempts.get(number)
        job = None if attempt is None else machine.jobs.get(attempt.job)
        run = None if job is None else self._loop.resolved(job)
        if attempt is None or job is None or run is None:
            raise InputError("the attempt is over")
        environment: dict[str, bytes] = {}
        files: dict[str, bytes] = {}
        for provider in self.providers:
            part = await provider(Starting(attempt, job, run))
            environment |= part.environment
            files |= part.files
        missing = {use.name for use in run.secrets} - environment.keys() - files.keys()
        if missing:
            raise InputError(f"this center has no secrets, and the task uses {', '.join(sorted(missing))}")
        return StartMaterial(environment=environment, files=files)
