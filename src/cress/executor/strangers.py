"""The ports that strangers listen on: what the machine shows without what tasks were given, as the center knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from cress.executor import ports
from cress.model.reports import Cause, Ended, Report
from cress.protocol.messages import Launch


class Strangers:
    """Follows which ports belong to attempts. ``told`` is what the center knows; ``None``: it is to be told in any case."""

    def __init__(self) -> None:
        self.told: tuple[int, ...] | None = None
        self._given: dict[int, tuple[int, ...]] = {}

    def begin(self, given: Mapping[int, tuple[int, ...]]) -> None:
        """These attempts have these ports, and no others have any."""
        self._given = dict(given)

    def launched(self, launches: Iterable[Launch]) -> None:
        """These attempts are about to start."""
        self._given |= {launch.attempt: launch.ports for launch in launches if launch.ports}

    def ended(self, attempt: int) -> None:
        """The attempt is over: what is heard on its ports from now on is a stranger."""
        self._given.pop(attempt, None)

    async def look(self) -> tuple[int, ...]:
        """Who is there now."""
        # An attempt may begin or end meanwhile.
        own = self._own()
        found = await asyncio.to_thread(ports.listening)
        return tuple(sorted(found - own - self._own()))

    async def news(self) -> tuple[int, ...] | None:
        """Who is there now, if the center does not know it."""
        found = await self.look()
        if found == self.told:
            return None
        self.told = found
        return found

    def _own(self) -> set[int]:
        return {port for given in self._given.values() for port in given}


def stood_in_the_way(reports: Iterable[Report]) -> bool:
    """Whether an attempt could not be started because somebody else has its port."""
    return any(isinstance(each, Ended) and each.cause is Cause.PORT for each in reports)
