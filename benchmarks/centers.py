"""Centers that share three ZooKeeper servers: what a commit costs there, and how long nothing starts when another
center takes over.

Beside each change of leader stands the change of a plain lock of the same servers in the same seconds: one client gives
it away, another one waits for that and takes it. Everything runs on this machine. A stream of short tasks notes when
each starts; the figures are the pauses of that stream. ``BENCHMARK_TIMES=20 BENCHMARK_ONLY_CHANGES=1`` measures many
changes of leader, and nothing else.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from benchmarks.live import CRESS, live_cluster, tasks
from benchmarks.result import Result
from cress.client import Client
from cress.client.errors import ClientError
from tests.ports import free_ports
from tests.servers.zookeeper import Ensemble, is_missing

SESSION = 2
# Milliseconds: servers end sessions at whole numbers of it.
TICK = 200
# Changes of leader of each kind.
TIMES = int(os.environ.get("BENCHMARK_TIMES", "3"))
# True if only changes of leader are measured.
ONLY_CHANGES = bool(os.environ.get("BENCHMARK_ONLY_CHANGES"))
MULTIS = 200
# Changes of a plain lock beside each change of leader.
LOCKS = 5


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    if why := is_missing():
        print(why, file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(prefix="cress-") as name, closing(Ensemble(Path(name) / "zk", 3, TICK)) as servers:
        if ONLY_CHANGES:
            yield from _fail_over(Path(name), servers.hosts)
            return
        yield Result("ZooKeeper: one multi (check and create), three servers, median", _multi(servers.hosts), "ms")
        yield from _named("file: ", _live(""))
        yield from _named("ZooKeeper: ", _live(f"zookeeper://{servers.hosts}/live"))
        yield from _fail_over(Path(name), servers.hosts)


def _multi(hosts: str) -> float:
    client = KazooClient(hosts)
    client.start()
    client.create("/multi")
    spent = []
    for number in range(MULTIS):
        begin = time.perf_counter()
        change = client.transaction()
        change.check("/multi", 0)
        change.create(f"/multi/{number}", b"x" * 1000)
        change.commit()
        spent.append(1000 * (time.perf_counter() - begin))
    client.delete("/multi", recursive=True)
    client.stop()
    client.close()
    return sorted(spent)[MULTIS // 2]


def _lock(hosts: str) -> float:
    """Return the median time of a change of a plain lock, in ms."""
    spent = []
    with ExitStack() as stack:
        former, successor = (stack.enter_context(_connected(hosts)) for _ in range(2))
        for _ in range(LOCKS):
            gone = threading.Event()
            former.create("/lock", ephemeral=True)
            successor.exists("/lock", lambda _, gone=gone: gone.set())
            begin = time.perf_counter()
            former.delete("/lock")
            gone.wait()
            successor.create("/lock", ephemeral=True)
            spent.append(1000 * (time.perf_counter() - begin))
            successor.delete("/lock")
    return statistics.median(spent)


@contextmanager
def _connected(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def _named(prefix: str, found: Iterator[Result]) -> Iterator[Result]:
    for each in found:
        yield Result(prefix + each.name, each.value, each.unit, each.goal, each.at_least, each.note)


def _live(store: str) -> Iterator[Result]:
    """The figures of a live cluster with this store."""
    with live_cluster(store) as (_, client):
        yield from tasks(client)


class _Cluster:
    """Two centers, and an executor that runs a stream of tasks."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.store = folder, store
        self.ports = free_ports(4)
        self.centers: list[subprocess.Popen[bytes] | None] = [None, None]
        self.starts = folder / "starts"
        self.starts.touch()
        self.start(0)
        self.until(0, leads=True)
        self.start(1)
        self.until(1, leads=False)
        (folder / "executor").mkdir(mode=0o700)
        urls = ",".join(f"ws://127.0.0.1:{port}" for port in self.ports[1::2])
        self.executor = subprocess.Popen(
            [
                *(*CRESS, "executor", "--name", "n1", "--center", urls, "--token-file", str(folder / "0" / "token")),
                *("--resource", "<8, 8G>", "--no-overload", "--no-discovery", "--data", str(folder / "executor")),
            ],
            env={**os.environ, "CRESS_DATA": str(folder / "0")},
        )

    def start(self, number: int) -> None:
        """Start a center."""
        data = self.folder / str(number)
        data.mkdir(mode=0o700, exist_ok=True)
        if number:
            shutil.copy(self.folder / "0" / "token", data / "token")
        api, executors = self.ports[2 * number : 2 * number + 2]
        words = ("center", "--data", str(data), "--port", str(api), "--executor-port", str(executors))
        self.centers[number] = subprocess.Popen([*CRESS, *words, "--store", self.store])

    def client(self, number: int) -> Client:
        """A client of one of the centers."""
        return Client(f"http://127.0.0.1:{self.ports[2 * number]}", (self.folder / "0" / "token").read_text().strip())

    def leads(self, number: int) -> bool:
        """Whether a center leads."""
        try:
            with self.client(number) as client:
                page = client.centers()
        except (ClientError, OSError):
            return False
        return any(each.leads and each.here for each in page.centers)

    def until(self, number: int, *, leads: bool) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                with self.client(number) as client:
                    client.health()
                if self.leads(number) or not leads:
                    return
            except (ClientError, OSError):
                pass
            time.sleep(0.05)
        raise SystemExit("a center did not start")

    def stream(self) -> None:
        """Submit tasks that note when they start."""
        note = f"date +%s.%N >> {self.starts}; sleep 0.05"
        job = {"command": ["sh", "-c", note], "resource": "<1, 64M>", "tasks": 100_000}
        with self.client(0) as client:
            client.submit([job])

    def times(self) -> list[float]:
        """When tasks started, in seconds since the epoch."""
        return sorted(float(line) for line in self.starts.read_text().split())

    def running(self) -> None:
        """Wait until tasks start in a stream."""
        before = len(self.times())
        while len(self.times()) < before + 50:
            time.sleep(0.1)

    def goes_on(self) -> None:
        """Wait until tasks start again."""
        end = time.monotonic() + 60
        while not (times := self.times()) or times[-1] < time.time() - 1:
            if time.monotonic() > end:
                raise SystemExit("no task starts any more")
            time.sleep(0.1)

    def close(self) -> None:
        """End everything."""
        for each in (*self.centers, self.executor):
            if each is not None:
                each.send_signal(signal.SIGCONT)
                each.terminate()
        for each in (*self.centers, self.executor):
            if each is not None:
                each.wait()


def _fail_over(folder: Path, hosts: str) -> Iterator[Result]:
    store = f"zookeeper://{hosts}/cress?session={SESSION}"
    with ExitStack() as stack:
        cluster = stack.enter_context(closing(_Cluster(folder, store)))
        cluster.stream()
        cluster.running()
        for how, what in ((signal.SIGKILL, "killed"), (signal.SIGSTOP, "stopped (SIGSTOP)")):
            pauses, locks = [], []
            for _ in range(TIMES):
                locks.append(_lock(hosts))
                old = 0 if cluster.leads(0) else 1
                cluster.running()
                center = cluster.centers[old]
                assert center is not None
                begin = time.time()
                center.send_signal(how)
                time.sleep(SESSION + 4)
                cluster.goes_on()
                # What was ordered before is started by the executor alone.
                pauses.append(_longest(cluster.times(), begin)[1] - begin)
                _tell(f"leader {what}", pauses)
                if how == signal.SIGKILL:
                    center.wait()
                    cluster.start(old)
                else:
                    center.send_signal(signal.SIGCONT)
                # A center that is still starting stands by for nobody.
                cluster.until(old, leads=False)
                time.sleep(5)
            name = f"leader {what}: next start by another one, sessions of {SESSION} s"
            within = sum(1 for pause in pauses if pause <= SESSION + 0.5)
            note = f"the longest of {TIMES}; median {statistics.median(pauses):.2f}, best {min(pauses):.2f}; "
            note += f"{within} within the goal; {_beside(locks)}"
            yield Result(name, max(pauses), "s", SESSION + 0.5, note=note)
        yield from _hand_overs(cluster, hosts)


def _beside(locks: list[float]) -> str:
    return f"a plain lock beside it: median {statistics.median(locks):.0f} ms, longest {max(locks):.0f}"


def _hand_overs(cluster: _Cluster, hosts: str) -> Iterator[Result]:
    pauses, locks, refused, calls = [], [], [], 0
    over = threading.Event()

    def ask() -> None:
        nonlocal calls
        with cluster.client(0) as client:
            while not over.is_set():
                try:
                    client.submit([{"command": ["true"], "resource": "<1, 64M>"}])
                    calls += 1
                except ClientError as error:
                    refused.append(str(error))
                time.sleep(0.02)

    asking = threading.Thread(target=ask)
    asking.start()
    for _ in range(TIMES):
        cluster.running()
        locks.append(_lock(hosts))
        begin = time.time()
        with cluster.client(0 if cluster.leads(0) else 1) as client:
            client.hand_over()
        time.sleep(2)
        first, last = _longest(cluster.times(), begin)
        pauses.append(last - first)
        _tell("lead handed over", pauses)
    over.set()
    asking.join()
    note = f"the longest of {TIMES}; median {statistics.median(pauses):.2f}, best {min(pauses):.2f}; "
    note += f"{len(refused)} of {calls} calls meanwhile refused; {_beside(locks)}"
    yield Result("lead handed over: nothing starts for", max(pauses), "s", 0.3, note=note)


def _tell(what: str, pauses: list[float]) -> None:
    """Show a measured change at once: a run of many takes long, and what it has measured must survive its end."""
    print(f"{what}, {len(pauses)} of {TIMES}: {pauses[-1]:.3f} s", file=sys.stderr, flush=True)


def _longest(times: list[float], since: float) -> tuple[float, float]:
    """The longest pause between two starts that ends after ``since``, as its begin and its end."""
    pairs = [(a, b) for a, b in itertools.pairwise(times) if b > since]
    return max(pairs, key=lambda pair: pair[1] - pair[0])


if __name__ == "__main__":
    for result in results():
        print(f"{result.name:<75} {result.value:>10.3f} {result.unit:<8} {result.note}", flush=True)
