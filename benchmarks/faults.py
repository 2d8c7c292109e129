"""The drive of faults: three centers on hosts of a small network; leader, store and executors are struck in turn.

``python -m benchmarks.faults --store zookeeper --rounds 15`` (as root). Each round strikes a host or two for some
seconds and heals them. Then all that was acknowledged must have run, once, and succeeded. It prints for how long
nobody's submit was acknowledged in each round, and at the end the median and the worst for each kind of fault. Exit
code 1: something was lost or ran twice, or does not go on.

Several users submit, each at a center of its own, and give it up soon. So a figure is that of the cluster, and not that
of the time-out of one client.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import cress.client.blocking.http
import cress.client.route
from cress.client import ClientError
from tests.system.cluster import wait_until
from tests.system.observers import BEAT, BEATS, Stream
from tests.system.site import CENTERS, MARGIN, SERVERS, TERM, Site

# What is struck, and how; each kind comes once before one comes again.
LEADER, STANDBY, SERVER, EXECUTOR = "the leader", "a standby", "the store's leader", "an executor"
KINDS = (
    ((LEADER, "kill"),),
    ((LEADER, "sleep"),),
    ((SERVER, "kill"),),
    ((EXECUTOR, "crash"),),
    ((LEADER, "both"),),
    ((SERVER, "sleep"),),
    ((LEADER, "in"),),
    ((EXECUTOR, "kill"),),
    ((LEADER, "out"),),
    ((SERVER, "both"),),
    ((LEADER, "lossy"),),
    ((LEADER, "kill"), (SERVER, "kill")),
    ((STANDBY, "kill"),),
    ((EXECUTOR, "both"),),
    ((SERVER, "lossy"),),
    ((LEADER, "kill"), (STANDBY, "kill")),
    ((LEADER, "kill"), (EXECUTOR, "kill")),
    ((EXECUTOR, "freeze"),),
)
WORDS = {
    "kill": "killed",
    "crash": "killed with its tasks",
    "sleep": "stopped (SIGSTOP)",
    "both": "cut off",
    "in": "cut off one way (hears nothing)",
    "out": "cut off one way (is not heard)",
    "lossy": "loses a fifth of all packets",
    "freeze": "frozen as a whole",
}
# Seconds for which a fault lasts; longer than a session, so that another center takes over.
SHORTEST, LONGEST = 4.0, 7.0
# For a frozen node: longer than its term, so that its tasks run elsewhere before it goes on.
FROZEN = TERM + MARGIN + 3.0
# Seconds after which the users give up a center that does not answer, and ask another one.
GIVE_UP = 1.0
# Seconds in which all goes on after a fault, on a busy machine.
PATIENCE = 90.0


class Drive:
    """Strikes a site while users submit; ``stalls`` are the seconds without an acknowledgement, by kind of fault."""

    def __init__(self, site: Site, seed: int) -> None:
        self._site = site
        self._chance = random.Random(seed)
        self.stalls: dict[str, list[float]] = defaultdict(list)
        self._streams = [Stream(site, url) for url in site.urls]
        wait_until(lambda: all(stream.runs() for stream in self._streams), "a first start")

    def round(self, kind: tuple[tuple[str, str], ...]) -> str:
        """Strike, heal and check; return what happened."""
        site = self._site
        # Without a standby nobody could take over, however long a center takes to start.
        wait_until(self._is_whole, "all centers", PATIENCE)
        faults = [(self._host(what), how) for what, how in kind]
        names = " and ".join(f"{what} {WORDS[how]}" for what, how in kind)
        begin = time.time()
        for host, how in faults:
            site.strike(host, how)
        time.sleep(FROZEN if kind == ((EXECUTOR, "freeze"),) else self._chance.uniform(SHORTEST, LONGEST))
        for host, how in faults:
            site.heal(host, how)
        wait_until(lambda: self._last() > time.time() - 0.5, f"submits after {names}", PATIENCE)
        stall = self._stall(begin)
        self._check(names)
        self.stalls[names].append(stall)
        hosts = ", ".join(f"{host} {how}" for host, how in faults)
        return f"{names} ({hosts}): {stall:.2f} s without a submit; {site.leader() or 'nobody'} leads"

    def _is_whole(self) -> bool:
        time.sleep(0.3)
        with contextlib.suppress(ClientError), self._site.client() as client:
            return len(client.centers().centers) == len(CENTERS)
        return False

    def _host(self, what: str) -> str:
        site = self._site
        if what == LEADER:
            return wait_until(site.leader, "a leader")
        if what == SERVER:
            return wait_until(site.servers_leader, "a leader of the store's servers")
        leader = site.leader()
        return self._chance.choice([host for host in CENTERS if host != leader] if what == STANDBY else site.executors)

    def _last(self) -> float:
        return max(stream.times[-1] for stream in self._streams)

    def _stall(self, begin: float) -> float:
        """Return the longest time between two acknowledged submits of any user that ended after ``begin``."""
        times = sorted(itertools.chain.from_iterable(list(stream.times) for stream in self._streams))
        return max(after - before for before, after in itertools.pairwise(times) if after > begin)

    def _check(self, names: str) -> None:
        """Nothing that was acknowledged is lost, and nothing ran twice at the same time."""
        for stream in self._streams:
            stream.check()
            known = set(stream.ids)
            wait_until(partial(_have_run, stream, known), f"starts after {names}", PATIENCE)
            stream.check_overlaps()

    def judge(self) -> int:
        """End the users; return the number of jobs. All have succeeded, and none ran twice."""
        for stream in self._streams:
            stream.end()
        self._check("all")
        time.sleep(BEAT * BEATS)
        wait_until(self._is_over, "the end of all jobs", PATIENCE)
        with self._site.client() as client:
            for stream in self._streams:
                stream.judge(client)
        return sum(len(stream.ids) for stream in self._streams)

    def _is_over(self) -> bool:
        time.sleep(0.3)
        with contextlib.suppress(ClientError), self._site.client() as client:
            return not (client.jobs(state="waiting").jobs or client.jobs(state="running").jobs)
        return False


def _have_run(stream: Stream, known: set[str]) -> bool:
    return known <= stream.runs().keys()


def lines(store: str, rounds: int, seed: int, tick: int, sync_limit: int) -> Iterator[str]:
    """Yield what happened in each round, then the figures. Raises AssertionError if something was lost or ran twice."""
    site = Site(3, store, tick, sync_limit)
    try:
        drive = Drive(site, seed)
        for number, kind in zip(range(1, rounds + 1), itertools.cycle(KINDS)):
            yield f"{number}: {drive.round(kind)}"
        yield f"{drive.judge()} jobs: none lost, none twice"
        for names, stalls in sorted(drive.stalls.items()):
            yield f"{names}: {len(stalls)} rounds, median {statistics.median(stalls):.2f} s, worst {max(stalls):.2f} s"
    except AssertionError:
        sys.stderr.write(site.last_words(30) + "\n")
        raise
    finally:
        site.close()


def main() -> None:
    """Drive, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--store", choices=sorted(SERVERS), default="zookeeper")
    parser.add_argument("--rounds", type=int, default=len(KINDS), help="rounds; each takes 10 to 20 s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tick", type=int, default=250, help="ZooKeeper's tickTime in ms")
    parser.add_argument("--sync-limit", type=int, default=8, help="ZooKeeper's syncLimit in ticks")
    given = parser.parse_args()
    cress.client.blocking.http.CONNECT_SECONDS = cress.client.route.PROOF_SECONDS = GIVE_UP
    for line in lines(given.store, given.rounds, given.seed, given.tick, given.sync_limit):
        print(line, flush=True)


if __name__ == "__main__":
    main()
