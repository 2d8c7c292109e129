"""Three ZooKeeper servers, three centers, executors, each on a host of its own: killed, asleep, cut off or lossy, in
turn and in pairs.

Meanwhile users work: a stream of jobs that write down every tenth of a second that they run, callers that submit,
scale, cancel and read the same services, a service that is probed, a follower of a log. Afterwards everything that was
acknowledged has run, no two attempts of a task at the same time, the calls are linearizable, the service was never
short for longer than term and start, and the log was read once, line by line.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Iterator

import pytest

from cress.client import ClientError
from tests.system.cluster import wait_until
from tests.system.observers import START, Caller, Reader, Stream, Web, judge
from tests.system.site import CENTERS, FAULTS, MARGIN, TERM, Site


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    site = Site(request.param)
    try:
        yield site
    finally:
        site.close()


class Rounds:
    """Strikes hosts in turn while users work; ``told`` are the faults so far."""

    def __init__(self, site: Site, seed: int, callers: int) -> None:
        self._site = site
        self._chance = random.Random(seed)
        self.told: list[str] = []
        # When terms began to be counted anew, or hosts of tasks were struck.
        self._disturbed: list[float] = []
        shared: dict[str, int] = {}
        self._web, self._reader = Web(site, 3), Reader(site)
        self._stream = Stream(site)
        self._callers = [Caller(site, f"u{number}", shared, seed + number) for number in range(callers)]

    def begin(self) -> None:
        wait_until(self._stream.runs, "a first start")
        wait_until(self._web.is_whole, "all tasks of the service")
        self._reader.wait_for_more("at the beginning")

    def strike(self, count: int, longest: float) -> None:
        """Strike so many hosts, for up to ``longest`` seconds."""
        chance, site, stream = self._chance, self._site, self._stream
        # The centers are struck most often.
        names = chance.sample([*site.servers, *CENTERS, *CENTERS, *site.executors], count)
        faults = [(name, chance.choice(FAULTS)) for name in dict.fromkeys(names)]
        self.told.append(f"{faults}")
        self._disturbed.append(time.time())
        for name, how in faults:
            site.strike(name, how)
        time.sleep(chance.uniform(1, longest))
        for name, how in faults:
            site.heal(name, how)
        self._disturbed.append(time.time())
        known = len(stream.ids)
        wait_until(lambda: stream.has(known + 4), f"submits after {self.told}")
        newest = list(stream.ids)[known]
        wait_until(lambda: newest in stream.runs(), f"starts after {self.told}")
        self._reader.wait_for_more(f"after {self.told}")

    def calm(self) -> None:
        """Nothing is struck for as long as it may take until the service has all its tasks again."""
        wait_until(self._web.is_whole, f"all tasks of the service after {self.told}", TERM + MARGIN + START)

    def judge(self) -> str:
        """End all users; return what they did."""
        for caller in self._callers:
            caller.end()
        self._stream.end()
        self.calm()
        self._reader.finish()
        with self._site.client() as client:
            client.cancel(self._web.id)
        wait_until(self._is_over, f"the end of all jobs after {self.told}", 120)
        with self._site.client() as client:
            self._stream.judge(client)
        calls = judge(self._callers)
        shortage = self._web.judge(self._disturbed)
        lines = self._reader.judge()
        return (
            f"{len(self._stream.ids)} jobs, {calls} calls, {lines} lines of a log, a service short for {shortage:.1f} s"
        )

    def _is_over(self) -> bool:
        time.sleep(0.3)
        with contextlib.suppress(ClientError), self._site.client() as client:
            alive = [*client.jobs(state="waiting").jobs, *client.jobs(state="running").jobs]
            # What callers have submitted is held.
            return all(job.held for job in alive)
        return False

    def close(self) -> None:
        for user in (self._stream, *self._callers):
            with contextlib.suppress(BaseException):
                user.end()
        self._reader.close()


@contextlib.contextmanager
def rounds_of(site: Site, seed: int, callers: int) -> Iterator[Rounds]:
    rounds = Rounds(site, seed, callers)
    try:
        rounds.begin()
        yield rounds
        sys.stderr.write(f"{len(rounds.told)} rounds: {rounds.judge()}\n")
    except BaseException as error:
        error.add_note(f"faults: {rounds.told}")
        error.add_note(site.last_words())
        raise
    finally:
        rounds.close()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("site", [2], indirect=True)
def test_whatever_is_struck_nothing_is_lost_and_nothing_runs_twice(site: Site) -> None:
    with rounds_of(site, 3, callers=2) as rounds:
        for _ in range(2):
            rounds.strike(1, 3)


@pytest.mark.long
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("site", [5], indirect=True)
def test_a_hundred_rounds(site: Site) -> None:
    with rounds_of(site, int(os.environ.get("SEED", "100")), callers=3) as rounds:
        for number in range(int(os.environ.get("ROUNDS", "100"))):
            rounds.strike(2 if number % 3 == 2 else 1, 10 if number % 4 == 3 else 5)
            if number % 5 == 4:
                rounds.calm()
