"""Hostile requests: more than a hundred of them, and how long each keeps all others waiting.

A center has a job of a million tasks, thousands of jobs with constraints of their own, 2,000 groups and 1,000 running
tasks. While each request is made again and again, a second client asks for ``/v1/health`` every few milliseconds. The
reference is the same client beside a center that does nothing else, in the same run. Goals: nobody waits for more than
``GOAL`` times that (p99), and no step of the center's loop takes more than ``STEP`` of processor time (``stepped``).

``python -m benchmarks hostile``; ``BENCHMARK_HOSTILE`` is a pattern of the names of requests. Steps that are too long
are printed with the place in which they were seen.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import resource
import secrets
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from benchmarks import load
from benchmarks.lag import ASK
from benchmarks.load import JOB, Center
from benchmarks.result import Result
from cress.model.reports import Cause, Ended
from cress.protocol import messages
from cress.protocol.proof import HEADER, NONCE, ExecutorProof

ONLY = re.compile(os.environ.get("BENCHMARK_HOSTILE", ""))
# Requests of one kind, seconds between two questions of the second client, and seconds of a kind at least.
TIMES, PAUSE, LEAST = 3, 0.004, 0.4
# Seconds after which a request is not made again.
LONG = 3.0
# Times the p99 beside nothing, and milliseconds of processor time of a step.
GOAL, STEP = 10.0, 20.0
TASKS, RUNNING = 1_000_000, 1_000
OWN = int(os.environ.get("BENCHMARK_OWN", "17000"))

Work = Callable[[], object]


class Stepped(Center):
    """A center whose steps are measured."""

    def _start(self, ports: tuple[str, ...]) -> subprocess.Popen[bytes]:
        self.steps = self.folder / "steps"
        words = [sys.executable, "-m", "benchmarks.stepped", str(self.steps), "center", "--data", str(self.data)]
        process = subprocess.Popen([*words, *ports, "--user-tasks", "100000000", "--user-jobs", "10000000"])
        load.until(lambda: self._listens(process.pid) or process.poll() is not None)
        assert process.poll() is None
        return process

    def long_steps(self, since: float) -> list[list[Any]]:
        """The steps that ended since then, the longest first."""
        lines = [json.loads(line) for line in self.steps.read_text().splitlines()]
        return sorted((line for line in lines if line[0] >= since), key=lambda line: -line[1])


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with load.center(Stepped) as center, load.executor(center, f"<{RUNNING}, 1T>") as executor:
        assert isinstance(center, Stepped)
        _call(center, "PUT", "/v1/groups", _json({"text": _groups(2_000)}))
        _call(center, "POST", "/v1/jobs", _json({"jobs": [JOB] * RUNNING}))
        load.until(lambda: executor.running >= RUNNING)
        _call(center, "POST", "/v1/jobs", _json({"jobs": [{**JOB, "tasks": TASKS}]}))
        for first in range(0, OWN, 1_000):
            _call(center, "POST", "/v1/jobs", _json({"jobs": _own(first, 1_000)}))
        _call(center, "POST", "/v1/apply", _json({"jobs": _services(100)}))
        time.sleep(5)
        idle = [_measured(center, lambda: time.sleep(0.1))[0] for _ in range(3)]
        reference = statistics.median(idle)
        yield Result("idle: the reference, p99", reference, "ms")
        missed: list[str] = []
        count = 0
        for name, work in _requests(center):
            if not ONLY.search(name):
                continue
            count += 1
            began = time.time()
            p99, note = _measured(center, work)
            steps = center.long_steps(began)
            longest = steps[0][1] if steps else 0.0
            if longest > STEP or p99 > GOAL * reference:
                missed.append(name)
                for step in steps[:3]:
                    note += f"\n      {step[1]:.0f} ms ({step[2]:.0f}): {step[3]}: {step[4]}"
            note = f"p99 {p99 / reference:.1f} × idle; {note}"
            yield Result(f"{name}: longest step", longest, "ms processor", STEP, note=note)
        yield Result(f"of {count} hostile requests beyond a goal", len(missed), "requests", 0, note=", ".join(missed))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()


def _groups(count: int, more: str = "") -> str:
    return "\n\n".join(f"Name: g{number}\nResourceQuota: 1\nUsers: *{more}" for number in range(count))


def _own(first: int, count: int) -> list[dict[str, Any]]:
    """Jobs that each have a constraint of their own."""
    return [{**JOB, "requirement": f"Memory > {number}M and CPU >= 1"} for number in range(first, first + count)]


def _services(count: int, tasks: int = 0) -> list[dict[str, Any]]:
    return [{**JOB, "type": "service", "name": f"s{number}", "tasks": tasks} for number in range(count)]


def _requests(center: Center) -> Iterator[tuple[str, Work]]:
    """Yield names and requests."""

    def http(name: str, method: str, path: str, body: Any = None) -> tuple[str, Work]:
        data = body if body is None or isinstance(body, bytes) else _json(body)
        return name, partial(_call, center, method, path, data)

    yield from (http(f"GET {path[:60]}", "GET", path) for path in _paths())
    for name, path, jobs in _submits():
        yield http(name, "POST", path, {"jobs": jobs} if isinstance(jobs, list) else jobs)
    for name, path, body in _configurations():
        yield http(name, "PUT", path, body)
    for name, path, body in _others():
        yield http(name, "POST", path, body)
    yield from _raw(center)
    yield from ((name, partial(_hello, center, fields)) for name, fields in _hellos())
    # From here on each pass looks at all of these.
    yield http("10,000 jobs with constraints of their own", "POST", "/v1/jobs", {"jobs": _own(50_000, 10_000)})


def _paths() -> Iterator[str]:
    """Yield addresses to be read."""
    big = RUNNING + 1
    yield from (
        "/v1/jobs?limit=1000",
        "/v1/jobs?limit=1000&name=nothing",
        "/v1/jobs?limit=1000&user=nobody",
        "/v1/jobs?limit=1000&state=failed",
        "/v1/jobs?limit=1000&type=dag",
        "/v1/jobs?limit=1000&since=1&until=2",
        "/v1/jobs?limit=1000&family=1",
        f"/v1/jobs/{big}",
        f"/v1/jobs/{big}/tasks?limit=10000",
        f"/v1/jobs/{big}/tasks?limit=10000&after=980000",
        f"/v1/jobs/{big}/tasks?limit=10000&state=failed",
        f"/v1/jobs/{big}/tasks?limit=10000&state=running",
        f"/v1/jobs/{big}/tasks/999999",
        f"/v1/jobs/{big}/explanation",
        f"/v1/jobs/{big + 10}/explanation",
        "/v1/groups/default/explanation",
        "/v1/nodes/n1/explanation",
        "/v1/nodes?limit=10000",
        "/v1/nodes/n1",
        "/v1/nodes?where=CPU%20%3E%201&rank=Memory",
        "/v1/nodes?where=" + "not%20" * 5_000 + "CPU%20%3E%201",
        "/v1/nodes?where=" + "%28" * 20_000,
        "/v1/nodes?where=" + "%20or%20".join(f"CPU%20%3E%20{k}" for k in range(2_500)),
        "/v1/nodes?rank=" + "%2B".join("Memory" for _ in range(6_000)),
        "/v1/nodes?where=name%20%3D~%20%22%28a%2B%29%2B%24%22",
        "/v1/groups",
        "/v1/licences",
        "/v1/names/true",
        "/v1/names/s1",
        "/v1/usage",
        "/v1/usage?since=0",
        "/v1/usage?by=day",
        "/v1/state",
        "/v1/events?after=0&follow=false",
        "/v1/events?follow=false&job=7",
        "/v1/efficiency",
        "/v1/efficiency?since=0&by=user",
        "/v1/audit",
        "/v1/config",
        "/v1/config/history",
        "/v1/config/history/1",
        "/v1/users",
        "/v1/tokens",
        "/v1/secrets",
        "/v1/reservations",
        "/v1/leases",
        "/v1/workloads",
        "/v1/centers",
        "/v1/rebalance",
        f"/v1/rebalance?job={big}",
        "/v1/schema",
        "/openapi.json",
        "/docs",
        "/metrics",
        "/v1/jobs?" + "&".join(f"k{k}=1" for k in range(6_000)),
        "/v1/jobs?name=" + "x" * 60_000,
        "/v1/" + "a/" * 30_000,
    )


def _submits() -> Iterator[tuple[str, str, Any]]:
    """Yield names, paths, and jobs or a body."""
    submit, dry = "/v1/jobs", "/v1/jobs?dry_run=true"
    yield "a submit of 1 job", submit, [JOB]
    yield "10,000 jobs, tried", dry, [JOB] * 10_000
    yield "10,000 jobs", submit, [JOB] * 10_000
    yield "20,000 jobs", submit, [{"command": ["true"]}] * 20_000
    yield "a million tasks", submit, [{**JOB, "tasks": 1_000_000}]
    yield "1,000 jobs of 10,000 tasks", submit, [{**JOB, "tasks": 10_000}] * 1_000
    yield "a gang of 10,000 tasks", submit, [{**JOB, "gang": True, "tasks": 10_000}]
    unknown = {f"key{number}": 1 for number in range(100)}
    yield "1,000 jobs × 100 unknown keys", submit, [{**JOB, **unknown}] * 1_000
    yield "10,000 jobs with a mistake each", submit, [{**JOB, "resource": "<1,"}] * 10_000
    yield "a job of 50,000 unknown keys", submit, [{**JOB, **{f"k{k}": 1 for k in range(50_000)}}]
    yield "a command of 1,000,000 {}", submit, [{"command": [{}] * 1_000_000}]
    yield "a command of 140,000 words", submit, [{"command": ["x"] * 140_000}]
    yield "a command of 15 MB", submit, [{"command": ["x" * 15_000_000]}]
    yield "licences of 5 MB", submit, [{**JOB, "licences": "a," * 2_500_000}]
    yield "50,000 dimensions", submit, [{**JOB, "resource": {f"d{k}": 1 for k in range(50_000)}}]
    yield "50,000 variables", submit, [{**JOB, "environment": {f"V{k}": "" for k in range(50_000)}}]
    yield "300,000 variables", submit, [{**JOB, "environment": {f"V{k}": "" for k in range(300_000)}}]
    yield "10,000 jobs × 100 variables", submit, [{**JOB, "environment": {f"V{k}": "" for k in range(100)}}] * 10_000
    yield "a requirement of 64 KB", submit, [{**JOB, "requirement": " and ".join(["CPU > 1"] * 5_900)}]
    yield "a requirement of 50,000 brackets", submit, [{**JOB, "requirement": "(" * 50_000}]
    yield "100 requirements of 60 KB", submit, [{**JOB, "requirement": " or ".join(["CPU > 1"] * 5_900)}] * 100
    yield "a rank of 60 KB", submit, [{**JOB, "rank": "+".join(["Memory"] * 8_000)}]
    yield "100,000 dependencies", submit, [{**JOB, "after": [10_000_000 + k for k in range(100_000)]}]
    yield "10,000 known dependencies", dry, [{**JOB, "after": list(range(1, 10_001))}]
    yield "10,000 jobs after each other", dry, [JOB, *({**JOB, "after": [f"jobs[{k}]"]} for k in range(9_999))]
    yield "10,000 files", submit, [{**JOB, "files": ["http://a/" + "x" * 100 + str(k) for k in range(10_000)]}]
    yield "a name of 10 MB", submit, [{**JOB, "name": "x" * 10_000_000}]
    yield "10,000 secrets", submit, [{**JOB, "secrets": {f"S{k}": "s" for k in range(10_000)}}]
    yield "1,900 long paths of data", submit, [{**JOB, "data": ["/" + "x" * 4_000 + str(k) for k in range(1_900)]}]
    steps = {f"s{k}": {**JOB, "after": [f"s{k - 1}"] if k else []} for k in range(1_000)}
    yield "a dag of 1,000 steps, tried", dry, [{"type": "dag", "steps": steps}]
    yield "a dag of 1,000 steps", submit, [{"type": "dag", "steps": steps}]
    wide = {f"s{k}": {**JOB, "after": [f"s{j}" for j in range(max(0, k - 50), k)]} for k in range(1_000)}
    yield "a dag of 50,000 edges, tried", dry, [{"type": "dag", "steps": wide}]
    round_ = {f"s{k}": {**JOB, "after": [f"s{(k + 1) % 1_000}"]} for k in range(1_000)}
    yield "a dag that is a circle", submit, [{"type": "dag", "steps": round_}]
    yield "1,000 cron jobs", submit, [{**JOB, "type": "cron", "schedule": "* * * * *", "name": "c"}] * 1_000
    yield "a schedule of 60 KB", submit, [{**JOB, "type": "cron", "schedule": "1," * 30_000 + " * * * *"}]
    yield "a service of 100,000 tasks", submit, [{**JOB, "type": "service", "name": "big", "tasks": 100_000}]
    yield "1,000 services, tried", "/v1/apply", {"jobs": _services(1_000), "dry_run": True}
    yield "1,000 services", "/v1/apply", {"jobs": _services(1_000)}
    yield "1,000 services again", "/v1/apply", {"jobs": _services(1_000)}
    yield "1,000 services scaled", "/v1/apply", {"jobs": _services(1_000, 1)}
    yield "numbers of 100,000 digits", submit, b'{"jobs": [{"command": ["true"], "tasks": ' + b"1" * 100_000 + b"}]}"
    yield "100,000 brackets of JSON", submit, b'{"jobs": ' + b"[" * 100_000
    yield "16 MB of spaces", submit, b" " * (16 * 2**20 - 1)
    yield "16 MB of commas", submit, b'{"jobs": [' + b"," * (16 * 2**20 - 100)
    yield "1,900,000 empty jobs", submit, b'{"jobs": [' + b"{}," * 999_000 + b"{}]}"


def _configurations() -> Iterator[tuple[str, str, Any]]:
    """Yield names, paths and bodies of changes of the configuration."""
    groups, config = "/v1/groups?dry_run=true", "/v1/config?dry_run=true"
    for name, text in (
        ("300,000 junk lines", "junk\n" * 300_000),
        ("300,000 lines that nearly are keywords", "Nmae: a\n" * 300_000),
        ("4 MB of one line", "x" * 4_000_000),
        ("a quota of 250,000 digits", "Name: a\nResourceQuota: " + "1" * 250_000),
        ("200,000 users", "Name: a\nResourceQuota: 1\nUsers: " + "|".join(f"u{k}" for k in range(200_000))),
        ("50,000 windows", "Name: a\nResourceQuota: 1" + "; 07:30-09:00 = 2" * 50_000),
        ("2,000 groups with quotas of their own", _groups(2_000, "\nMaxJobs: 7")),
        ("20,000 groups", _groups(20_000)),
        ("100,000 blocks of one name", "Name: a\nResourceQuota: 1\n\n" * 100_000),
        ("2,000 groups below each other", "\n\n".join(f"Name: g{k}\nParent: g{k + 1}" for k in range(2_000))),
        ("300,000 comments", "# x\n" * 300_000),
    ):
        yield f"PUT groups, {name}", groups, {"text": text}
    moved = _groups(1_000)
    yield "PUT groups, 200,000 moves", groups, {"text": moved, "moves": {f"x{k}": "g1" for k in range(200_000)}}
    yield "PUT groups, 2,000 unknown moves", groups, {"text": moved, "moves": {f"x{k}": "g1" for k in range(2_000)}}
    known = {f"g{k}": f"g{k - 1_000}" for k in range(1_000, 2_000)}
    yield "PUT groups, 1,000 moves", groups, {"text": moved, "moves": known}
    yield "PUT config, 60,000 licences", config, {"licences": {f"l{k}": 1 for k in range(60_000)}}
    yield "PUT config, 10,000 licences", config, {"licences": {f"l{k}": 1 for k in range(10_000)}}
    yield "PUT config, 10,000 wrong licences", config, {"licences": {f"l {k}": -1 for k in range(10_000)}}
    many = "licences:\n" + "".join(f"  l{k}: 1\n" for k in range(60_000))
    yield "PUT config, a text of 60,000 licences", config, {"text": many}
    yield "PUT config, a text of 10,000 licences", config, {"text": many[: many.index("  l10000:")]}
    yield "PUT config, 60,000 options", config, {"options": {f"o{k}": "1" for k in range(60_000)}}
    yield "PUT config, 500 options", config, {"options": {f"o{k}": "1" for k in range(500)}}
    yield "PUT config, 200,000 moves", config, {"moves": {f"x{k}": "g1" for k in range(200_000)}}
    yield "PUT config, 300,000 junk lines", config, {"text": "junk\n" * 300_000}
    yield "PUT config, 100,000 brackets", config, {"text": "[" * 100_000}
    yield "PUT config, 100,000 anchors", config, {"text": "".join(f"a{k}: &a{k} 1\n" for k in range(100_000))}
    text = "groups: |\n" + "".join(f"  {line}\n" for line in _groups(2_000, "\nMaxJobs: 9").splitlines())
    yield "PUT config, a text of 2,000 groups", config, {"text": text}
    yield "PUT config, 10,000 licences for good", "/v1/config", {"licences": {f"l{k}": 1 for k in range(10_000)}}
    yield "PUT config, one of 10,000 licences", "/v1/config", {"licences": {"l1": 2}}
    yield "PUT groups, 2,000 for good", "/v1/groups", {"text": _groups(2_000, "\nMaxJobs: 8")}
    yield "PUT a node's 10,000 labels", "/v1/nodes/n1/settings", {"labels": {f"l{k}": "x" for k in range(10_000)}}
    yield "PUT a secret of 64 KB", "/v1/secrets/s", {"value": "YWFh" * 20_000}


def _others() -> Iterator[tuple[str, str, Any]]:
    """Yield names, paths and bodies of further changes."""
    yield "hold 10,000 jobs", "/v1/jobs/hold", {"jobs": list(range(2_000, 12_000))}
    yield "release 10,000 jobs", "/v1/jobs/release", {"jobs": list(range(2_000, 12_000))}
    yield "hold 200,000 jobs", "/v1/jobs/hold", {"jobs": list(range(1, 200_000))}
    yield "cancel 100,000 unknown jobs", "/v1/jobs/cancel", {"jobs": list(range(50_000_000, 50_100_000))}
    yield "cancel 10,000 jobs", "/v1/jobs/cancel", {"jobs": list(range(12_000, 22_000))}
    yield "cancel a million tasks", f"/v1/jobs/{RUNNING + 1}/cancel", {}
    yield "scale 1,000,000", "/v1/jobs/1/scale", {"tasks": 1_000_000}
    nodes = {"remove_nodes": [f"n{k}" for k in range(10_000)]}
    yield "what if 10,000 nodes leave", "/v1/what-if", nodes
    yield "what if 10,000 nodes come", "/v1/what-if", {"add_nodes": ["10x<16, 64G>"] * 10_000, "seconds": 1}
    yield "what if 10,000 jobs come", "/v1/what-if", {"jobs": [JOB] * 10_000, "seconds": 1}
    yield "what if 10,000 licences", "/v1/what-if", {"licences": {f"l{k}": 1 for k in range(10_000)}, "seconds": 1}
    yield "what if 2,000 groups", "/v1/what-if", {"groups": _groups(2_000, "\nMaxJobs: 3"), "seconds": 1}
    yield "what if 300,000 junk lines", "/v1/what-if", {"groups": "junk\n" * 300_000}
    yield "10,000 leases", "/v1/leases", {"workload": "w", "count": 10_000, "resource": "<1, 1M>"}
    yield "10,000 leases as a gang", "/v1/leases", {"workload": "w", "count": 10_000, "gang": True}
    moves = [{"attempt": k, "to": "n1"} for k in range(1, 1_001)]
    yield "1,000 moves", "/v1/rebalance", {"moves": moves}
    reserve = {"group": "g1", "nodes": [f"n{k}" for k in range(5_000)], "from": "tomorrow", "for": "1h"}
    yield "a reservation of 5,000 nodes", "/v1/reservations", {**reserve, "dry_run": True}
    patterns = ["*a*b*c*d*" + str(k) for k in range(5_000)]
    yield "a reservation of 5,000 patterns", "/v1/reservations", {**reserve, "nodes": patterns, "dry_run": True}
    yield "a token of 60 KB", "/v1/tokens", {"name": "x" * 60_000}
    yield "a sign-in of 60 KB", "/v1/login", {"id_token": "x" * 60_000}
    yield "a join request of 60 KB", "/v1/join", {"node": "x", "request": "x" * 60_000}
    yield "a drain", "/v1/nodes/nothing/drain", {"deadline": 1e308}


def _raw(center: Center) -> Iterator[tuple[str, Work]]:
    """Yield requests that no library makes."""
    head = f"Host: localhost\r\nAuthorization: Bearer {center.token}\r\n".encode()
    one = b"GET /v1/health HTTP/1.1\r\n" + head + b"\r\n"
    lists = b"GET /v1/jobs?limit=1000 HTTP/1.1\r\n" + head + b"\r\n"
    lines = b"".join(b"X-%d: y\r\n" % number for number in range(5_000))
    chunks = b"1\r\n \r\n" * 200_000
    post = b"POST /v1/jobs HTTP/1.1\r\n" + head + b"Content-Type: application/json\r\n"
    yield "1,000 requests at once", partial(_send, center, one * 1_000)
    yield "20,000 requests at once", partial(_send, center, one * 20_000)
    yield "100 long lists at once", partial(_send, center, lists * 100)
    yield "5,000 headers", partial(_send, center, b"GET /v1/health HTTP/1.1\r\n" + head + lines + b"\r\n")
    yield "200,000 chunks of one byte", partial(_send, center, post + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    yield "a megabyte of nothing", partial(_send, center, os.urandom(2**20))
    yield "1,000 wrong tokens", partial(_send, center, one.replace(center.token.encode(), b"x" * 43) * 1_000)
    yield "500 connections", partial(_crowd, center, 500)
    yield "nonsense for executors", partial(_send, center, os.urandom(2**20), "executor_url")


def _hellos() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and fields of the first message of an executor."""
    long = tuple("/" + "x" * 4_000 + str(number) for number in range(1_900))
    yield "Hello, 1,900 long paths", {"data": long}
    yield "Hello, 4,000 paths", {"data": tuple(f"/{number}" for number in range(4_000))}
    yield "Hello, 1,024 labels", {"attributes": {f"l{number}": "x" * 1_000 for number in range(1_024)}}
    yield "Hello, 65,536 ports", {"listening": tuple(range(1, 65_536))}
    yield "Hello, 1,024 sentences", {"unlimited": tuple("x" * 7_000 for _ in range(1_024))}
    ended = tuple(Ended(attempt=number, cause=Cause.EXITED, code=0, started=1, at=2) for number in range(50_000))
    yield "Hello, 50,000 reports", {"reports": ended}


def _hello(center: Center, fields: dict[str, Any]) -> None:
    proof = ExecutorProof(center.token, secrets.token_bytes(NONCE))
    with contextlib.suppress(ConnectionClosed, OSError):
        url, headers = center.address["executor_url"], {HEADER: proof.header}
        with connect(url, additional_headers=headers, compression=None, max_size=None) as wire:
            assert wire.response is not None
            own, seals = proof.check(wire.response.headers.get(HEADER))
            wire.send(own)
            hello = messages.Hello(version=messages.VERSION, name="hostile", resource="<1, 1G>", boot="b", **fields)
            wire.send(seals.out.seal(messages.encode(hello)))
            wire.recv(5)


def _send(center: Center, data: bytes, door: str = "url") -> None:
    with contextlib.suppress(OSError), socket.create_connection(center.where(door), timeout=2) as wire:
        wire.settimeout(0.3)
        sent = 0
        while sent < len(data):
            sent += wire.send(data[sent : sent + 65_536])
        while wire.recv(2**20):
            pass


def _crowd(center: Center, count: int) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection(center.where("url"), timeout=2))


def _measured(center: Center, work: Work) -> tuple[float, str]:
    """Return the p99 of the second client's waits while ``work`` is done, in ms, and a note."""
    host, port = center.where("url")
    words = [sys.executable, "-c", ASK, host, str(port), str(PAUSE)]
    spent: list[float] = []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as beside:
        assert beside.stdout is not None
        beside.stdout.readline()
        first = time.perf_counter()
        while time.perf_counter() - first < LEAST or (len(spent) < TIMES and sum(spent) < 1000 * LONG):
            begin = time.perf_counter()
            work()
            spent.append(1000 * (time.perf_counter() - begin))
        told, _ = beside.communicate()
    waits = sorted(json.loads(told))
    p99 = waits[len(waits) * 99 // 100]
    return p99, f"others: p50 {waits[len(waits) // 2]:.1f}, p99 {p99:.1f}, max {waits[-1]:.0f}; itself {max(spent):.0f}"


def _call(center: Center, method: str, path: str, body: bytes | None) -> None:
    host, port = center.where("url")
    headers = {"Authorization": f"Bearer {center.token}", "Content-Type": "application/json"}
    wire = http.client.HTTPConnection(host, port, timeout=600)
    with contextlib.closing(wire), contextlib.suppress(BrokenPipeError, ConnectionResetError):
        wire.request(method, path, body, headers)
        answer = wire.getresponse()
        said = answer.read()
        if os.environ.get("BENCHMARK_SAY"):
            print("   ", answer.status, said[:150])
        assert answer.status != 500, said
