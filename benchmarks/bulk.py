"""Starts beside bulk data: one executor whose log is followed at full speed, and one behind a link of 100 kbit/s.

The slow link is a pair of interfaces with a token bucket (``tc``), its executor in a network namespace: root and
iproute2.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec

from benchmarks.load import CRESS
from benchmarks.result import Result
from cress.client import Client, connect

STARTS, FAR_STARTS = 200, 10
RATE = "100kbit"
SPACE, HERE, THERE = "cress-far", "10.97.53.1", "10.97.53.2"
LINK = ("cress-far0", "cress-far1")
FLOOD = "while :; do head -c 5000000 /dev/zero; sleep 0.05; done"
FOLLOWERS = 2


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    if os.geteuid() or shutil.which("tc") is None:
        print("bulk: left out, since it needs root and iproute2")
        return
    folder = Path(tempfile.mkdtemp(prefix="cress-"))
    with _link(), _process(folder, "center", "--host", HERE, "--insecure", "--port", "0", "--executor-port", "0"):
        data = folder / "data"
        _until((data / "center.json").exists)
        with connect(data) as client, contextlib.ExitStack() as stack:
            url, token = _address(data)["executor_url"], (data / "token").read_text().strip()
            for name in ("near", "loud", "far"):
                space = ("ip", "netns", "exec", SPACE) if name == "far" else ()
                words = ("executor", "--center", url, "--name", name, "--resource", "<8, 8G>", "--no-overload")
                stack.enter_context(
                    _process(folder, *words, "--no-discovery", "--token-file", str(data / "token"), before=space)
                )
            _until(lambda: sum(node.state == "up" for node in client.nodes()) == 3)
            yield from _flood(client, token)
            yield from _slow(client, token)
    shutil.rmtree(folder, ignore_errors=True)


def _flood(client: Client, token: str) -> Iterator[Result]:
    quiet = _p99(_starts(client, "near"))
    yield Result("start, nothing else, p99", quiet, "ms")
    with _followed(client, token, "loud") as read:
        begin, before = time.perf_counter(), read[0]
        near, loud = _starts(client, "near"), _starts(client, "loud")
        rate = (read[0] - before) / (time.perf_counter() - begin) / 1e6
    note = f"{FOLLOWERS} followers read {rate:,.0f} MB/s"
    yield Result("start beside a log flood of another executor, p99", _p99(near), "ms", quiet + 5, note=note)
    yield Result("start on the executor of the flood, p99", _p99(loud), "ms", quiet + 5, note=note)


def _slow(client: Client, token: str) -> Iterator[Result]:
    quiet, alone = _p99(_starts(client, "near")), _told(client)
    yield Result(f"end of a task behind {RATE} known, median", alone, "ms")
    with _followed(client, token, "far") as read:
        time.sleep(5)
        near, told = _starts(client, "near"), _told(client)
        note = f"{read[0] / 1e3:,.0f} kB were read"
    yield Result(f"start beside a log read over {RATE}, p99", _p99(near), "ms", quiet + 5, note=note)
    yield Result("end of a task behind that link known meanwhile, median", told, "ms")


def _starts(client: Client, node: str) -> list[float]:
    """Milliseconds from the call to the program on this node, as its supervisor saw it."""
    spent = []
    for _ in range(STARTS):
        begin = time.time()
        job = client.submit([_job(node, "/bin/true")]).jobs[0].id
        client.job(job, wait=120)
        started = client.tasks(job).tasks[0].attempts[0].started
        assert started is not None
        spent.append(1000 * (started - begin))
    return spent


def _told(client: Client) -> float:
    """Milliseconds from the call until the center knows that the task behind the slow link is over, median."""
    spent = []
    for _ in range(FAR_STARTS):
        begin = time.perf_counter()
        client.job(client.submit([_job("far", "/bin/true")]).jobs[0].id, wait=120)
        spent.append(1000 * (time.perf_counter() - begin))
    return sorted(spent)[FAR_STARTS // 2]


@contextlib.contextmanager
def _followed(client: Client, token: str, node: str) -> Iterator[list[int]]:
    """A task there writes as fast as it can, and its output is followed; yields the bytes that were read."""
    id = client.submit([_job(node, FLOOD) | {"log_size": "64M"}]).jobs[0].id
    _until(lambda: client.job(id).tasks.running == 1)
    time.sleep(1)
    stop, read = threading.Event(), [0]

    def follow() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        while not stop.is_set():
            with (
                contextlib.suppress(httpx.HTTPError),
                httpx.stream(
                    "GET",
                    f"{client.url}/v1/jobs/{id}/logs?follow=true",
                    headers=headers,
                    timeout=60,
                    trust_env=False,
                ) as answer,
            ):
                for part in answer.iter_raw():
                    read[0] += len(part)
                    if stop.is_set():
                        break

    threads = [threading.Thread(target=follow, daemon=True) for _ in range(FOLLOWERS)]
    for thread in threads:
        thread.start()
    try:
        yield read
    finally:
        stop.set()
        client.cancel(id)
        client.job(id, wait=60)


def _job(node: str, command: str) -> dict[str, object]:
    return {"command": command, "resource": "<1, 64M>", "requirement": f"Nodes in ({node})"}


def _address(data: Path) -> dict[str, str]:
    """Return where the center listens."""
    found: dict[str, str] = msgspec.json.decode((data / "center.json").read_bytes())
    return found


@contextlib.contextmanager
def _link() -> Iterator[None]:
    """A network namespace behind a slow link."""
    here, there = LINK
    for words in (
        f"ip netns add {SPACE}",
        f"ip link add {here} type veth peer name {there} netns {SPACE}",
        f"ip addr add {HERE}/24 dev {here}",
        f"ip link set {here} up",
        f"ip -n {SPACE} addr add {THERE}/24 dev {there}",
        f"ip -n {SPACE} link set {there} up",
        f"ip -n {SPACE} link set lo up",
        f"tc qdisc add dev {here} root tbf rate {RATE} burst 4k latency 400ms",
        f"tc -n {SPACE} qdisc add dev {there} root tbf rate {RATE} burst 4k latency 400ms",
    ):
        subprocess.run(words.split(), check=True)
    try:
        yield
    finally:
        for words in (f"ip link del {here}", f"ip netns del {SPACE}"):
            subprocess.run(words.split(), check=False)


@contextlib.contextmanager
def _process(folder: Path, *words: str, before: tuple[str, ...] = ()) -> Iterator[None]:
    data = folder / "data" if words[0] == "center" else folder / words[words.index("--name") + 1]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen([*before, CRESS, *words, "--data", str(data)], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _p99(spent: list[float]) -> float:
    return sorted(spent)[len(spent) * 99 // 100]


def _until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)
