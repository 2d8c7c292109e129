"""Addresses of the jobs that a task uses, as start material: ``CRESS_SERVICE_DB=HOST:PORT`` (docs/names.md)."""

from __future__ import annotations

import time

from cress.center.connections.start_materials import Starting
from cress.center.keeping.name_feed import NameFeed
from cress.lifecycle.name_service import Place
from cress.model.errors import InputError
from cress.model.group import DEFAULT_GROUP
from cress.model.run import used_variable
from cress.model.start_material import StartMaterial

# Seconds for which a start waits for a ready task: less than an executor waits for start material.
PATIENCE = 90.0


class UsedJobs:
    """Waits for ready tasks of the jobs that a task uses, and gives it their addresses.

    ``waits`` has what the start of an attempt waits for, as a sentence, while it does.
    """

    def __init__(self, names: NameFeed, waits: dict[int, str], patience: float = PATIENCE) -> None:
        self._names = names
        self._waits = waits
        self._patience = patience

    async def provide(self, starting: Starting) -> StartMaterial:
        """Return the addresses. Raises InputError if no task is ready in time."""
        until = time.monotonic() + self._patience
        try:
            return await self._addresses(starting, until)
        finally:
            self._waits.pop(starting.attempt.id, None)

    async def _addresses(self, starting: Starting, until: float) -> StartMaterial:
        group = starting.job.job.group or DEFAULT_GROUP
        environment: dict[str, bytes] = {}
        for name in starting.run.uses:
            self._waits[starting.attempt.id] = (
                f"task {starting.attempt.task} has its place on {starting.attempt.node} and starts when a task of "
                f"{name} is ready; if none is within {self._patience:g} s, the start fails and is tried again"
            )
            places = await self._ready(name, group, until)
            variable = used_variable(name)
            environment[variable] = _address(places[0]).encode()
            environment[f"{variable}_ALL"] = ",".join(map(_address, places)).encode()
        return StartMaterial(environment=environment)

    async def _ready(self, name: str, group: str, until: float) -> list[Place]:
        while True:
            table = self._names.table
            revision = table.revision
            places = table.places(name, group)
            if places:
                return places
            left = until - time.monotonic()
            if left <= 0:
                raise InputError(
                    f"no task of {name} in group {group} was ready within {self._patience:g} s",
                    hint="submit it first; `cress resolve` shows the places of a name",
                    field="uses",
                )
            await self._names.wait(name, revision, left)


def _address(place: Place) -> str:
    """Return host and first port of a place; the host alone if it has no port."""
    host = f"[{place.address}]" if ":" in place.address else place.address
    return f"{host}:{place.ports[0][1]}" if place.ports else host
