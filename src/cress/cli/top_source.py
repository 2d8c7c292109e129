"""The data of ``cress top``: one look at a center, in small calls whose answers do not grow with the cluster."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from cress.client import Client, EventView, GroupView, JobView, NodeView, StateView

# Most jobs and nodes of one look, and events that are kept.
MOST_JOBS, MOST_NODES, MOST_EVENTS = 100, 100, 200


@dataclass
class Look:
    """One look at a center. ``nodes`` is ``None`` unless they were asked for; ``problem`` says why it is old."""

    state: StateView
    groups: tuple[GroupView, ...] = ()
    waiting: tuple[JobView, ...] = ()
    nodes: tuple[NodeView, ...] | None = None
    events: tuple[EventView, ...] = ()
    problem: str = ""


class Source(Protocol):
    """The origin of looks and stories; its methods may block."""

    def look(self, *, nodes: bool, word: str) -> Look:
        """Look at the center; ``nodes``: with the nodes, of those whose names match ``word``."""

    def story(self, kind: str, name: str) -> list[tuple[float, str]]:
        """Return what the center knows of a job, a node or a group: times and lines, the oldest first."""


@dataclass
class ClientSource:
    """Looks at the center of a client."""

    client: Client
    _last: int = 0
    _events: deque[EventView] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))

    def look(self, *, nodes: bool, word: str) -> Look:
        """Look at the center."""
        from cress.client import calls

        client = self.client
        state = client.state()
        for event in client.events(after=self._last, follow=False, last=MOST_EVENTS):
            self._last = max(self._last, event.number)
            if event.kind != "gap":
                self._events.append(event)
        return Look(
            state=state,
            groups=client.groups().groups,
            waiting=client.jobs(state="waiting", limit=MOST_JOBS).jobs if state.jobs_waiting else (),
            nodes=client.ask(calls.nodes(limit=MOST_NODES)).nodes if nodes else None,
            events=tuple(self._events),
        )

    def story(self, kind: str, name: str) -> list[tuple[float, str]]:
        """Return the story of a job, a node or a group."""
        from cress.cli.story import told_by_center

        return told_by_center(self.client, kind, name)
