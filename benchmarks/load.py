"""One center under load, and how fast it is back: real processes and sockets; executors are spoken for where noted."""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from benchmarks.result import Result
from cress.client import Client, ClientError
from cress.model.reports import Started
from cress.protocol import messages
from cress.protocol.proof import HEADER, NONCE, ExecutorProof

CRESS = str(Path(sys.executable).parent / "cress")
PATIENCE = 120.0
# Nothing of this is started for real: the executor is spoken for.
JOB = {"command": ["/bin/true"], "resource": "<1, 64M>"}
RUNNING, QUEUED, IDLE, CALLS = 1_000, 10_000, 1_000, 500
JOBS, TASKS = 1_000, 100
KILLS = 5


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with center() as one, executor(one, f"<{RUNNING}, 1T>") as spoken_for:
        yield from _full(one, spoken_for)
    with center() as one:
        yield from _restart(one)
    with center() as one:
        yield from _back(one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _full(center: Center, executor: Executor) -> Iterator[Result]:
    with center.client() as client:
        for _ in range((QUEUED + RUNNING) // 100):
            client.submit([JOB] * 100)
        until(lambda: executor.running >= RUNNING and client.state().tasks_running == RUNNING)
        assert client.state().tasks_waiting == QUEUED
    yield Result(f"center with {QUEUED:,} queued and {RUNNING:,} running tasks", center.memory(), "MB", 250)
    begin = time.perf_counter()
    center.kill()
    center.start()
    yield Result(f"restart with {QUEUED + RUNNING:,} jobs", time.perf_counter() - begin, "s")
    with center.client() as client:
        yield Result("GET /v1/jobs?limit=50 among these, p99", _p99(client), "ms", 100)
        with _mischief(center):
            note = f"{IDLE:,} idle connections, garbage, slow and large bodies, submits"
            yield Result("the same under load, p99", _p99(client), "ms", 100, note=note)
    yield Result("memory of the center behind that", center.memory(), "MB", 250)


def _p99(client: Client) -> float:
    spent = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        client.jobs(limit=50)
        spent.append(1000 * (time.perf_counter() - begin))
    return sorted(spent)[CALLS * 99 // 100]


def _restart(center: Center) -> Iterator[Result]:
    """Single submits, so that the log has a record for nearly every one of them."""
    with center.client() as client:
        for _ in range(JOBS):
            client.submit([{**JOB, "tasks": TASKS}])
    best = float("inf")
    for _ in range(3):
        center.kill()
        begin = time.perf_counter()
        center.start()
        best = min(best, time.perf_counter() - begin)
    with center.client() as client:
        assert client.state().tasks_waiting == JOBS * TASKS
    yield Result(f"restart with {JOBS * TASKS:,} pending tasks in {JOBS:,} jobs", best, "s", 2)


def _back(center: Center) -> Iterator[Result]:
    """From kill -9 to the first start of a real program afterwards, the center started again at once."""
    url = center.address["executor_url"]
    words = ["executor", "--center", url, "--name", "n1", "--resource", "<8, 8G>", "--no-overload", "--no-discovery"]
    with _process(*words, data=center.data, folder=center.folder) as agent:
        with center.client() as client:
            until(lambda: any(node.state == "up" for node in client.nodes()))
        spent = []
        ran = center.folder / "ran"
        job = {"command": f"date +%s.%N >> {ran}", "resource": "<1, 1M>"}
        for _ in range(KILLS):
            with center.client() as client:
                client.job(client.submit([job]).jobs[0].id, wait=30)
            killed = time.time()
            center.kill()
            center.start()
            with center.client() as client:
                client.job(client.submit([job]).jobs[0].id, wait=30)
            spent.append(min(at for at in map(float, ran.read_text().split()) if at > killed) - killed)
        agent.send_signal(signal.SIGTERM)
        agent.wait(PATIENCE)
    yield Result("center killed to next start, median", sorted(spent)[KILLS // 2], "s", 2)
    yield Result("center killed to next start, worst", max(spent), "s", 2)


@contextlib.contextmanager
def _mischief(center: Center) -> Iterator[None]:
    """Idle connections, garbage at both doors, bodies that are too large or never end, and a stream of submits."""
    stop = threading.Event()
    host, port = center.where("url")
    head = f"Host: {host}\r\nAuthorization: Bearer {center.token}\r\nContent-Type: application/json\r\n"

    def again_and_again(each: Callable[[], None], pause: float) -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError, ClientError):
                each()
            time.sleep(pause)

    def garbage() -> None:
        for door in ("url", "executor_url"):
            with socket.create_connection(center.where(door), timeout=2) as wire:
                wire.sendall(os.urandom(4096))

    def too_large() -> None:
        with socket.create_connection((host, port), timeout=2) as wire:
            wire.sendall(f"POST /v1/jobs HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            for _ in range(100):
                wire.sendall(b"100000\r\n" + b" " * 2**20 + b"\r\n")

    def submit() -> None:
        with center.client() as client:
            for _ in range(10):
                client.submit([JOB])

    idle = [socket.create_connection((host, port)) for _ in range(IDLE // 2)]
    slow = [socket.create_connection((host, port)) for _ in range(IDLE // 2)]
    for wire in slow:
        wire.sendall(f"POST /v1/jobs HTTP/1.1\r\n{head}Content-Length: 1000\r\n".encode())
    busy = [
        threading.Thread(target=again_and_again, args=each)
        for each in ((garbage, 0.05), (too_large, 0.2), (submit, 0.05))
    ]
    for thread in busy:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in busy:
            thread.join()
        for wire in (*idle, *slow):
            wire.close()


class Center:
    """``cress center`` as a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.address: dict[str, str] = {}
        self.process = self._start(("--port", "0", "--executor-port", "0"))

    def start(self) -> None:
        """Start it where it was, and wait until it answers."""
        ports = [str(self.where(key)[1]) for key in ("url", "executor_url")]
        self.process = self._start(("--port", ports[0], "--executor-port", ports[1]))

    def _start(self, ports: tuple[str, ...]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([CRESS, "center", "--data", str(self.data), *ports])
        until(lambda: self._listens(process.pid) or process.poll() is not None)
        assert process.poll() is None
        return process

    def _listens(self, pid: int) -> bool:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            self.address = msgspec.json.decode((self.data / "center.json").read_bytes())
            return int(self.address["pid"]) == pid
        return False

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    @property
    def token(self) -> str:
        """What calls carry."""
        return (self.data / "token").read_text().strip()

    def client(self) -> Client:
        """A client of it."""
        return Client(self.address["url"], self.token)

    def where(self, key: str) -> tuple[str, int]:
        """Host and port of one of its doors."""
        host, _, port = self.address[key].rpartition("/")[2].rpartition(":")
        return host, int(port)

    def memory(self) -> float:
        """What it has in memory, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


class Executor:
    """An executor that is spoken for: it says of every attempt that it runs, and connects again."""

    def __init__(self, center: Center, size: str) -> None:
        self.known: dict[int, Started] = {}
        self.stopping = False
        self._center, self._size = center, size
        self.thread = threading.Thread(target=self._live)
        self.thread.start()

    @property
    def running(self) -> int:
        """How many attempts it was told to start."""
        return len(self.known)

    def _live(self) -> None:
        while not self.stopping:
            with contextlib.suppress(OSError, ConnectionClosed):
                self._converse()
            time.sleep(0.05)

    def _converse(self) -> None:
        proof = ExecutorProof(self._center.token, secrets.token_bytes(NONCE))
        url, headers = self._center.address["executor_url"], {HEADER: proof.header}
        with connect(url, additional_headers=headers, compression=None) as wire:
            assert wire.response is not None
            own, seals = proof.check(wire.response.headers.get(HEADER))
            wire.send(own)

            def send(message: messages.FromAgent) -> None:
                wire.send(seals.out.seal(messages.encode(message)))

            hello = messages.Hello(
                version=messages.VERSION,
                name="n1",
                resource=self._size,
                boot="b",
                reports=tuple(self.known.values()),
            )
            send(hello)
            while not self.stopping:
                with contextlib.suppress(TimeoutError):
                    data = wire.recv(0.2)
                    assert isinstance(data, bytes)
                    order = messages.decode_from_center(seals.into.open(data))
                    if isinstance(order, messages.Launches):
                        now = time.time_ns() // 1000
                        fresh = [Started(attempt=each.attempt, at=now, pid=1) for each in order.launches]
                        self.known.update((each.attempt, each) for each in fresh)
                        send(messages.Reports(reports=tuple(fresh)))


@contextlib.contextmanager
def center(kind: type[Center] = Center) -> Iterator[Center]:
    """Run a center, which is a process of its own, in a new directory."""
    folder = Path(tempfile.mkdtemp(prefix="cress-"))
    made = kind(folder)
    try:
        yield made
    finally:
        made.kill()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def executor(center: Center, size: str) -> Iterator[Executor]:
    """Speak for an executor of this size."""
    made = Executor(center, size)
    try:
        yield made
    finally:
        made.stopping = True
        made.thread.join()


@contextlib.contextmanager
def _process(*words: str, data: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("ab") as log:
        environment = {**os.environ, "CRESS_DATA": str(data)}
        process = subprocess.Popen([CRESS, *words], env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(look: Callable[[], bool]) -> None:
    """Return when it is so."""
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.005)
