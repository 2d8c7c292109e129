"""A real center whose nodes join by inputs, not over connections: for large clusters on a machine that others use.

``python -m benchmarks.nodes_by_input DATA NODES`` runs a center in ``DATA``. The programs of its tasks are said to run
as soon as they are placed, and end never. What connections and beats cost is left out.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from cress.center import run
from cress.center.committing import committer as committing
from cress.center.committing.committer import Committer
from cress.center.connections.connection_table import Connections
from cress.center.settings import CenterSettings
from cress.lifecycle.inputs import NodeJoined, Reported
from cress.lifecycle.machine import Machine
from cress.model.node import Load, Node
from cress.model.reports import Started

NODES = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
TOGETHER, RACK = 500, 40
CAPACITY = (8_000, 8 * 2**30, 2**30, 2**30, 2**30, 2**20, 2**20)


class _Everybody(Connections):
    """Connections among which every node is."""

    def __contains__(self, node: str) -> bool:
        return True


class _WithNodes(Committer):
    """A committer whose nodes join when it starts."""

    async def start(self, check: Callable[[Machine], None] | None = None) -> None:
        """Start, and have the nodes join."""
        await super().start(check)
        for first in range(0, NODES, TOGETHER):
            numbers = range(first, min(NODES, first + TOGETHER))
            await asyncio.gather(*(self.submit(NodeJoined(node=_node(number), boot="b")) for number in numbers))
        for number in range(NODES):
            self.sessions.loads[f"x{number}"] = Load(number * 37 % 1000, number * 11 % 1000, 10, 20, 2**30)
        self.starting = asyncio.create_task(self._start_programs())

    async def _start_programs(self) -> None:
        while True:
            placed = [attempt for attempt in self.machine.attempts.values() if not attempt.started]
            for first in range(0, len(placed), TOGETHER):
                utc = self.clock.utc()
                words = (
                    Reported(node=attempt.node, reports=(Started(attempt=attempt.id, at=utc, pid=7),))
                    for attempt in placed[first : first + TOGETHER]
                )
                await asyncio.gather(*map(self.submit, words))
            await asyncio.sleep(1)


def _node(number: int) -> Node:
    attributes = (("os", "debian"), ("zone", ("east", "west")[number % 2]))
    return Node(name=f"x{number}", capacity=CAPACITY, rack=f"r{number // RACK}", attributes=attributes)


if __name__ == "__main__":
    vars(committing)["Connections"] = _Everybody
    vars(run)["Committer"] = _WithNodes
    sys.exit(run.run_center(CenterSettings(data=Path(sys.argv[1]), port=0, executor_port=0)))
