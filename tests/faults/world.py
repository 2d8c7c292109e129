"""Virtual time, chance from a seed, and the story of what happened."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from cress.model.times import MILLISECOND, SECOND

# The wall clock at the beginning of every history.
WALL = 1_700_000_000_000_000


class Died(Exception):
    """A process was killed in the middle of what it did."""


class Violation(AssertionError):
    """A rule of the cluster was broken."""


class Mortal:
    """A process. What was planned for it does not happen any more when it is ``gone``.

    ``doom``: it is killed when it passes that many more of its points; below zero: it is not.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.gone = False
        self.doom = -1
        # While it is stopped: what waits for it to go on.
        self.held: list[tuple[Callable[..., object], tuple[Any, ...]]] | None = None

    def pause(self, length: int) -> None:
        """The process does nothing for so long, and then goes on as if nothing had been."""
        if self.held is None and not self.gone:
            self.say("is stopped for", length / SECOND)
            self.held = []
            self.world.after(length, None, self.go_on)

    def go_on(self) -> None:
        """End a pause."""
        if self.held is None or self.gone:
            return
        self.say("goes on")
        held, self.held = self.held, None
        for do, arguments in held:
            self.world.after(0, self, do, *arguments)

    def point(self, where: str) -> None:
        """Between two steps of a process: here it may be killed."""
        if self.doom < 0:
            return
        self.doom -= 1
        if self.doom < 0:
            self.world.tell(self.name, "is killed", where)
            raise Died

    def say(self, sentence: str, *more: object) -> None:
        """Add to the story."""
        self.world.tell(self.name, sentence, *more)


class World:
    """What happens when: events in the order of their times, and of their making. Times are microseconds."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.aside = Random(f"aside {seed}")  # for what came later: histories without it stay as they were
        self.now = 0
        self.story: list[tuple[int, str, tuple[object, ...]]] = []
        self._events: list[tuple[int, int, Mortal | None, Callable[..., object], tuple[Any, ...]]] = []
        self._count = 0

    def after(self, delay: int, whom: Mortal | None, do: Callable[..., object], *arguments: object) -> None:
        """Call ``do`` then, unless ``whom`` is gone by then."""
        self._count += 1
        heapq.heappush(self._events, (self.now + max(0, delay), self._count, whom, do, arguments))

    def run(self, until: int, enough: Callable[[], bool] | None = None) -> None:
        """Let everything happen up to this time, or until ``enough`` (asked every quarter of a second)."""
        ask = self.now
        events = self._events
        while events and events[0][0] <= until:
            time, _, whom, do, arguments = heapq.heappop(events)
            if whom is not None and whom.gone:
                continue
            if enough is not None and time >= ask:
                if enough():
                    return
                ask = time + SECOND // 4
            self.now = time
            if whom is not None and whom.held is not None:
                whom.held.append((do, arguments))
            else:
                do(*arguments)
        if enough is None or not enough():
            self.now = max(self.now, until)

    # --- chance ----------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        """Whether it happens this time."""
        return self.random.random() < probability

    def between(self, least: int, most: int) -> int:
        """A time in between; short ones are as likely as long ones, on a scale of ratios."""
        return int(least * (most / least) ** self.random.random())

    def moment(self) -> int:
        """The time that a computer takes for something small."""
        return 20 + int(self.random.random() * MILLISECOND / 2)

    # --- the story -------------------------------------------------------------------------------------------

    def tell(self, who: str, *what: object) -> None:
        """Add to the story."""
        self.story.append((self.now, who, what))

    def lines(self, last: int | None = None) -> list[str]:
        """The story, for reading; the ``last`` so many lines of it."""
        told = self.story if last is None else self.story[-last:]
        return [f"{time / SECOND:12.6f}  {who:<14} {' '.join(map(str, what))}" for time, who, what in told]

    def digest(self) -> str:
        """Two histories with the same digest are the same."""
        return hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()
