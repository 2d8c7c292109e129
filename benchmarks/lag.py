"""Calls that wait: how long one client's worst requests, and the center's own steps, keep all others waiting.

A center has 110,000 jobs, of which 1,000 run on an executor that is spoken for. While each call is made again and
again, a second client asks for ``/v1/health`` every few milliseconds, which needs nothing but the event loop. The
reference is the same client beside a center that does nothing else: what this machine and its other work cost.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks import load
from benchmarks.load import JOB, Center
from benchmarks.result import Result

JOBS, RUNNING = 110_000, 1_000
# Calls of one kind; seconds between two questions of the second client.
TIMES, PAUSE = 20, 0.005
GOAL = 20.0

_Body = dict[str, Any] | None

# The second client is a process of its own: large bodies keep the first one busy.
ASK = """
import http.client, json, sys, time
wire = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=60)
waits, stop = [], False
import threading
def ask():
    while not stop:
        begin = time.perf_counter()
        wire.request("GET", "/v1/health")
        wire.getresponse().read()
        waits.append(1000 * (time.perf_counter() - begin))
        time.sleep(float(sys.argv[3]))
wire.request("GET", "/v1/health"); wire.getresponse().read()
thread = threading.Thread(target=ask)
thread.start()
print("begun", flush=True)
sys.stdin.read()
stop = True
thread.join()
print(json.dumps(waits))
"""


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    with load.center() as center, load.executor(center, f"<{RUNNING}, 1T>") as executor:
        yield from _figures(center, "idle: the reference", lambda: time.sleep(0.05), None)
        many = json.dumps({"jobs": [JOB] * 1_000}).encode()
        for _ in range(JOBS // 1_000):
            _call(center, "POST", "/v1/jobs", many)
        load.until(lambda: executor.running >= RUNNING)
        time.sleep(5)
        yield from _figures(center, f"idle with {JOBS:,} jobs", lambda: time.sleep(0.05), None)
        for name, method, path, body in _calls():
            data = None if body is None else json.dumps(body).encode()
            yield from _figures(center, name, partial(_call, center, method, path, data), GOAL)
        with center.client() as client:
            delay = client.state().delay
        note = "" if delay is None else delay.what
        yield Result(
            "the longest delay that the watchdog saw", 0.0 if delay is None else 1000 * delay.length, "ms", note=note
        )


def _calls() -> Iterator[tuple[str, str, str, _Body]]:
    """Yield the calls: name, method, path, body."""
    unknown = {f"key{number}": 1 for number in range(100)}
    yield "GET /v1/jobs?limit=50", "GET", "/v1/jobs?limit=50", None
    yield "GET /v1/jobs?limit=1000", "GET", "/v1/jobs?limit=1000", None
    yield "GET /v1/jobs?name=nothing", "GET", "/v1/jobs?name=nothing", None
    yield "GET /v1/nodes?limit=10000", "GET", "/v1/nodes?limit=10000", None
    yield "GET /v1/nodes?where=…&rank=…", "GET", "/v1/nodes?where=CPU%20%3E%201&rank=Memory", None
    yield "GET /v1/groups", "GET", "/v1/groups", None
    yield "GET /v1/licences", "GET", "/v1/licences", None
    yield "GET /v1/names/true", "GET", "/v1/names/true", None
    yield "GET /v1/usage", "GET", "/v1/usage", None
    yield "GET /v1/state", "GET", "/v1/state", None
    yield "GET /v1/events?follow=false", "GET", "/v1/events?after=0&follow=false", None
    yield "a submit of 1 job", "POST", "/v1/jobs", {"jobs": [JOB]}
    yield "a submit of 1,000 jobs, tried", "POST", "/v1/jobs?dry_run=true", {"jobs": [JOB] * 1_000}
    yield "a submit of 1,000 jobs", "POST", "/v1/jobs", {"jobs": [JOB] * 1_000}
    yield "a submit of 10,000 jobs, tried", "POST", "/v1/jobs?dry_run=true", {"jobs": [JOB] * 10_000}
    yield "a submit of 10,000 jobs", "POST", "/v1/jobs", {"jobs": [JOB] * 10_000}
    yield "PUT /v1/groups", "PUT", "/v1/groups", {"text": "Name: a\nResourceQuota: 1"}
    yield "1,000 jobs × 100 unknown keys", "POST", "/v1/jobs", {"jobs": [{**JOB, **unknown}] * 1_000}
    yield "a command of 1,000,000 {}", "POST", "/v1/jobs", {"jobs": [{"command": [{}] * 1_000_000}]}
    yield "licences of 5 MB", "POST", "/v1/jobs", {"jobs": [{**JOB, "licences": "a," * 2_500_000}]}
    yield (
        "100,000 dimensions",
        "POST",
        "/v1/jobs",
        {"jobs": [{**JOB, "resource": {f"d{k}": 1 for k in range(100_000)}}]},
    )
    steps = {f"s{k}": {**JOB, "after": [f"s{k - 1}"] if k else []} for k in range(1_000)}
    yield "a dag of 1,000 steps, tried", "POST", "/v1/jobs?dry_run=true", {"jobs": [{"type": "dag", "steps": steps}]}
    yield "cancel 10,000 jobs", "POST", "/v1/jobs/cancel", {"jobs": list(range(50_001, 60_001))}
    yield "hold 10,000 jobs", "POST", "/v1/jobs/hold", {"jobs": list(range(60_001, 70_001))}
    yield (
        "a job of 300,000 variables",
        "POST",
        "/v1/jobs",
        {"jobs": [{**JOB, "environment": {f"V{k}": "" for k in range(300_000)}}]},
    )
    for name, text in (
        ("a quota of 250,000 digits", "Name: a\nResourceQuota: " + "1" * 250_000),
        ("200,000 users", "Name: a\nResourceQuota: 1\nUsers: " + "|".join(f"u{k}" for k in range(200_000))),
        ("50,000 windows", "Name: a\nResourceQuota: 1" + "; 07:30-09:00 = 2" * 50_000),
    ):
        yield name, "PUT", "/v1/groups?dry_run=true", {"text": text}


def _figures(center: Center, name: str, work: Callable[[], object], goal: float | None) -> Iterator[Result]:
    """Yield how long the second client waited while ``work`` was done, and how long that took itself."""
    host, port = center.where("url")
    words = [sys.executable, "-c", ASK, host, str(port), str(PAUSE)]
    spent = []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as beside:
        assert beside.stdout is not None
        beside.stdout.readline()
        for _ in range(TIMES):
            begin = time.perf_counter()
            work()
            spent.append(1000 * (time.perf_counter() - begin))
        told, _ = beside.communicate()
    waits = sorted(json.loads(told))
    spent.sort()
    p50, p99 = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
    note = f"others: p50 {p50:.1f}, max {waits[-1]:.0f}; itself: p50 {spent[TIMES // 2]:.0f}, max {spent[-1]:.0f}"
    yield Result(f"{name}: others wait, p99", p99, "ms", goal, note=note)


def _call(center: Center, method: str, path: str, body: bytes | None) -> None:
    host, port = center.where("url")
    headers = {"Authorization": f"Bearer {center.token}", "Content-Type": "application/json"}
    wire = http.client.HTTPConnection(host, port, timeout=120)
    with contextlib.closing(wire):
        wire.request(method, path, body, headers)
        answer = wire.getresponse()
        answer.read()
        assert answer.status < 500, answer.status
