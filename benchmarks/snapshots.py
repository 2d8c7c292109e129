"""How long readers wait while a center takes a snapshot of 100,000 jobs: a real server, a client of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import uvicorn
import uvloop

from benchmarks.result import Result
from cress.center.access.callers import Callers
from cress.center.api.app import make_app
from cress.center.committing.committer import Committer
from cress.center.secrets.key_file import KeyFile
from cress.center.secrets.vault import Vault
from cress.center.settings import CenterSettings
from cress.lifecycle.inputs import Submit
from cress.model.job import Job
from cress.model.run import Run
from cress.store.sqlite import SqliteStore

JOBS, TOGETHER = 100_000, 1_000
CALLS = 400
TOKEN = "x" * 30
# What the server is told: snapshots one after the other, off the loop or (for comparison) on it; or none any more.
OFF, ON, NONE = signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.snapshots", folder]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            name = f"GET /v1/jobs?limit=50 among {JOBS:,} jobs, p99"
            yield Result(name, _p99(port), "ms", 20)
            server.send_signal(OFF)
            yield Result(f"{name}, during snapshots", _p99(port), "ms", 20)
            server.send_signal(NONE)
            told = json.loads(server.stdout.readline())
            yield Result("a snapshot of these jobs, from its beginning to its commit", told["seconds"], "s")
            yield Result("the event loop stands still for its fork", 1000 * told["fork"], "ms")
            server.send_signal(ON)
            yield Result(f"{name}, when the loop encodes them itself", _p99(port), "ms", note="for comparison")
        finally:
            server.kill()
            server.wait()


def _p99(port: int) -> float:
    spent = []
    with httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
        for _ in range(CALLS):
            begin = time.perf_counter()
            client.get(f"http://127.0.0.1:{port}/v1/jobs?limit=50").raise_for_status()
            spent.append(1000 * (time.perf_counter() - begin))
    return sorted(spent)[CALLS * 99 // 100]


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(folder: Path) -> None:
    committer = Committer(SqliteStore(folder / "cress.db"), CenterSettings(data=folder))
    await committer.start()
    job = Job(id=0, group="default", request=(1000, 0, 0, 0, 0, 0, 0), user="u", name="a job")
    run = Run(job=0, command=("true",))
    for _ in range(JOBS // TOGETHER):
        await committer.submit(Submit(jobs=(job,) * TOGETHER), [run] * TOGETHER)
    told = {"seconds": 0.0, "fork": 0.0}
    mode = NONE
    changed = asyncio.Event()

    def tell(number: signal.Signals) -> None:
        nonlocal mode
        mode = number
        changed.set()
        if number is NONE:
            print(json.dumps(told), flush=True)

    for number in (OFF, ON, NONE):
        asyncio.get_running_loop().add_signal_handler(number, tell, number)
    vault = Vault(committer, lambda: KeyFile(folder.with_name("secrets.key"), folder))
    server = _Server(
        uvicorn.Config(
            make_app(committer, token=TOKEN, callers=Callers(committer, "me"), vault=vault, names=("127.0.0.1",)),
            port=0,
            log_config=None,
        )
    )
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 – uvicorn tells in no other way
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    while not serving.done():
        changed.clear()
        if mode is OFF:
            begin = time.perf_counter()
            committer._begin_snapshot(committer.loop.snapshot())  # noqa: SLF001 – at once, instead of when the log is long
            told["fork"] = max(told["fork"], time.perf_counter() - begin)
            assert committer._snapshot is not None  # noqa: SLF001
            await committer._snapshot  # noqa: SLF001
            told["seconds"] = max(told["seconds"], time.perf_counter() - begin)
        elif mode is ON:
            committer.machine.export()
            await asyncio.sleep(0.2)
        else:
            await changed.wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(Path(sys.argv[1])))
