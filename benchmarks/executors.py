"""Thousands of executors at one center: light agents that speak the real protocol over real WebSockets, with tasks that
do nothing.

As a program (``python -m benchmarks.executors ADDRESSES TOKEN COUNT [stay]``) it is the agents; it prints how many are
registered each time that changes by a lot. With ``stay`` their tasks never end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import uvloop
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from benchmarks.centers import TICK
from benchmarks.live import CRESS
from benchmarks.result import Result
from cress.client import Client
from cress.model.reports import Cause, Ended, Started
from cress.protocol import messages
from cress.protocol.messages import Beat, Hello, Launches, Reports, Term, Welcome
from cress.protocol.proof import HEADER, NONCE, ExecutorProof
from tests.ports import free_ports
from tests.servers.zookeeper import Ensemble, is_missing

COUNT = int(os.environ.get("BENCHMARK_EXECUTORS", "5000"))
TASKS, TOGETHER, PER_SECOND = 10_000, 50, 500
# Connections that are opened at a time.
AT_ONCE = 64
QUIET = 15.0


# --- the agents -------------------------------------------------------------------------------------------------------


class Fleet:
    """``count`` agents that look for the center that leads among ``addresses``; ``stays``: their tasks never end."""

    def __init__(self, addresses: list[str], token: str, count: int, *, stays: bool = False) -> None:
        self._addresses, self._token, self._count, self._stays = addresses, token, count, stays
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._registered = 0

    async def run(self) -> None:
        """Connect, and stay connected."""
        await asyncio.gather(self._tell(), *(self._live(f"x{number}") for number in range(self._count)))

    async def _tell(self) -> None:
        told = -1
        while True:
            if self._registered != told:
                told = self._registered
                print(told, flush=True)
            await asyncio.sleep(0.1)

    async def _live(self, name: str) -> None:
        while True:
            for address in self._addresses:
                with contextlib.suppress(OSError, WebSocketException, EOFError, TimeoutError):
                    await self._session(name, address)
            await asyncio.sleep(random.uniform(0.1, 0.4))

    async def _session(self, name: str, address: str) -> None:
        proof = ExecutorProof(self._token, secrets.token_bytes(NONCE))
        async with self._turn:
            wire = await connect(
                address, additional_headers={HEADER: proof.header}, compression=None, proxy=None, ping_interval=None
            )
            try:
                assert wire.response is not None
                own, seals = proof.check(wire.response.headers.get(HEADER))
                await wire.send(own)

                async def send(message: messages.FromAgent) -> None:
                    await wire.send(seals.out.seal(messages.encode(message)))

                hello = Hello(version=messages.VERSION, name=name, resource="<8, 8G>", boot="b", attributes={"os": "x"})
                await send(hello)
                first = messages.decode_from_center(seals.into.open(await wire.recv(decode=False)))
            except BaseException:
                await wire.close()
                raise
        if not isinstance(first, Welcome):
            await wire.close()
            return
        self._registered += 1
        beats = asyncio.create_task(self._beat(send, first.term / 1e6 or 60.0))
        try:
            while True:
                message = messages.decode_from_center(seals.into.open(await wire.recv(decode=False)))
                if isinstance(message, Launches):
                    now = time.time_ns() // 1000
                    attempts = [launch.attempt for launch in message.launches]
                    await send(Reports(reports=tuple(Started(attempt=each, at=now, pid=1) for each in attempts)))
                    if self._stays:
                        continue
                    over = (
                        Ended(attempt=each, cause=Cause.EXITED, code=0, started=now, at=now + 1) for each in attempts
                    )
                    await send(Reports(reports=tuple(over)))
                else:
                    assert not isinstance(message, Term) or message.term > 0
        finally:
            self._registered -= 1
            beats.cancel()
            await wire.close()

    async def _beat(self, send, term: float) -> None:  # type: ignore[no-untyped-def]
        await asyncio.sleep(random.uniform(0, term / 3))
        while True:
            await send(Beat(sent=time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000))
            await asyncio.sleep(term / 3)


# --- the measurements -------------------------------------------------------------------------------------------------


class _Center:
    """A center, as a process that is measured."""

    def __init__(self, folder: Path, number: int, ports: list[int], store: str = "") -> None:
        self.url, self.wire = f"http://127.0.0.1:{ports[2 * number]}", f"ws://127.0.0.1:{ports[2 * number + 1]}"
        data = folder / f"c{number}"
        data.mkdir(mode=0o700)
        token = folder / "c0" / "token"
        if number:
            (data / "token").write_bytes(token.read_bytes())
            (data / "token").chmod(0o600)
        words = ["center", "--data", str(data), "--port", str(ports[2 * number])]
        words += ["--executor-port", str(ports[2 * number + 1]), "--store", store]
        self.process = subprocess.Popen([*CRESS, *words], stderr=subprocess.DEVNULL)
        while not (data / "center.json").exists():
            assert self.process.poll() is None
            time.sleep(0.05)
        self.token = token.read_text().strip()

    def client(self) -> Client:
        """A client of this center."""
        return Client(self.url, self.token)

    def spent(self) -> float:
        """Seconds of processor time."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0]) / 1000


class Agents:
    """The process of the agents; ``registered`` is their number."""

    def __init__(self, addresses: list[str], token: str, count: int = COUNT, *more: str) -> None:
        words = [sys.executable, "-P", "-m", "benchmarks.executors", ",".join(addresses), token, str(count), *more]
        self.registered = 0
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.registered = int(line)

    def wait(self, count: int, patience: float = 300) -> float:
        """Wait until so many are registered; the seconds that it took."""
        begin = time.monotonic()
        while self.registered < count:
            assert self.process.poll() is None
            assert time.monotonic() - begin < patience, f"{self.registered} of {count} are registered"
            time.sleep(0.02)
        return time.monotonic() - begin

    def close(self) -> None:
        """End all of them."""
        self.process.kill()
        self.process.wait()


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    if why := is_missing():
        print(why, file=sys.stderr)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cress-")))
        servers = stack.enter_context(closing(Ensemble(folder / "zk", 3, TICK)))
        store = f"zookeeper://{servers.hosts}/cress?session=2"
        ports = free_ports(4)
        first = _Center(folder, 0, ports, store)
        stack.callback(_end, first.process)
        second = _Center(folder, 1, ports, store)
        stack.callback(_end, second.process)
        agents = stack.enter_context(closing(Agents([first.wire, second.wire], first.token)))
        before, begin = first.spent(), time.monotonic()
        agents.wait(COUNT)
        spent = time.monotonic() - begin
        yield Result(
            f"{COUNT:,} executors registered in",
            spent,
            "s",
            60,
            note=f"center: {first.spent() - before:.1f} s of one core",
        )
        before = first.spent()
        time.sleep(QUIET)
        yield Result("heartbeats: the center's share of a core", (first.spent() - before) / QUIET, "cores", 1)
        yield from _starts(first)
        yield Result("memory of the center", first.memory(), "MB", 1500)
        begin = time.monotonic()
        first.process.kill()
        while agents.registered:
            time.sleep(0.02)
        agents.wait(COUNT)
        yield Result("leader killed: all executors at the other one after", time.monotonic() - begin, "s", 30)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _starts(center: _Center) -> Iterator[Result]:
    """Tasks that come at a steady rate, while lists are read."""
    asked: list[float] = []
    over = threading.Event()

    def ask() -> None:
        with center.client() as client:
            while not over.is_set():
                begin = time.perf_counter()
                client.jobs(limit=100)
                asked.append(1000 * (time.perf_counter() - begin))
                time.sleep(0.05)

    asking = threading.Thread(target=ask)
    with center.client() as client:
        asking.start()
        before, begin = center.spent(), time.monotonic()
        ids = []
        for number in range(TASKS // TOGETHER):
            job = {"command": ["true"], "resource": "<1, 64M>", "tasks": TOGETHER}
            ids.append(client.submit([job]).jobs[0].id)
            time.sleep(max(0.0, begin + (number + 1) * TOGETHER / PER_SECOND - time.monotonic()))
        last = client.job(ids[-1], wait=60)
        spent = time.monotonic() - begin
        share = (center.spent() - before) / spent
        over.set()
        asking.join()
    assert last.state == "succeeded", last
    asked.sort()
    yield Result("starts a second", TASKS / spent, "starts/s", PER_SECOND * 0.95, at_least=True)
    yield Result("the center's share of a core meanwhile", share, "cores", 1)
    yield Result("list of jobs meanwhile, p99", asked[len(asked) * 99 // 100], "ms", 100)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def main() -> None:
    """Be the agents."""
    # On as many machines as they stand for they would not take the center's processor.
    os.nice(10)
    addresses, token, count, *more = sys.argv[1:]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Fleet(addresses.split(","), token, int(count), stays="stay" in more).run())


if __name__ == "__main__":
    main()
