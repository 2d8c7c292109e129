"""The client against a real server: what it asks, what it understands, how it says what went wrong."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cress.client import Client, ClientError, NotFound, Refused, Unauthorized, Unavailable, Unreachable
from cress.client.wire import MOST_BODY
from cress.protocol.logs import LogFrame, encode_frame
from tests.client.server import Server, serving

JOB: dict[str, Any] = {
    "id": 12,
    "name": "etl",
    "group": "web",
    "user": "ann",
    "type": "batch",
    "state": "running",
    "tasks": {"total": 3, "running": 3},
    "priority": 0,
    "gang": False,
    "resource": {"cpu": "1"},
    "time_limit": None,
    "submitted": 1.5,
    "something": "of a later version",
}
NODE = {"name": "a/b", "state": "up"}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, "secret", timeout=60) as client:
        yield client


CALLS: list[tuple[Callable[[Client], object], object, str, object]] = [
    (lambda c: c.submit([{"command": "x"}]), {"jobs": []}, "POST /v1/jobs", {"jobs": [{"command": "x"}]}),
    (lambda c: c.job(12), JOB, "GET /v1/jobs/12", None),
    (lambda c: c.job(12, wait=0.5), JOB, "GET /v1/jobs/12?wait=0.5", None),
    (lambda c: c.jobs(), {"jobs": []}, "GET /v1/jobs", None),
    (lambda c: c.jobs(limit=5, before=9, name="a&b"), {"jobs": []}, "GET /v1/jobs?limit=5&before=9&name=a%26b", None),
    (lambda c: c.tasks(12, after=0, state="failed"), {"tasks": []}, "GET /v1/jobs/12/tasks?after=0&state=failed", None),
    (lambda c: c.cancel(12), JOB, "POST /v1/jobs/12/cancel", {}),
    (lambda c: c.cancel_jobs([12, 13]), {"jobs": []}, "POST /v1/jobs/cancel", {"jobs": [12, 13]}),
    (lambda c: c.hold_jobs([12, 13]), {"jobs": []}, "POST /v1/jobs/hold", {"jobs": [12, 13]}),
    (lambda c: c.release_jobs([12]), {"jobs": []}, "POST /v1/jobs/release", {"jobs": [12]}),
    (lambda c: c.signal(12, "INT", 3), JOB, "POST /v1/jobs/12/signal", {"signal": "INT", "task": 3}),
    (lambda c: c.groups(), {"groups": []}, "GET /v1/groups", None),
    (
        lambda c: c.apply_groups("text", file="f", moves={"a": "b"}, dry_run=True),
        {"diff": "", "changes": 0},
        "PUT /v1/groups?dry_run=true",
        {"text": "text", "file": "f", "moves": {"a": "b"}},
    ),
    (
        lambda c: c.set_group("a", {"MaxJobs": "3", "Submit": None}),
        {"diff": "", "changes": 0},
        "POST /v1/groups/a",
        {"values": {"MaxJobs": "3", "Submit": None}},
    ),
    (lambda c: c.nodes(), {"nodes": [NODE]}, "GET /v1/nodes", None),
    (lambda c: c.node("a/b"), NODE, "GET /v1/nodes/a%2Fb", None),
    (lambda c: c.cordon("a", "why"), NODE, "POST /v1/nodes/a/cordon", {"reason": "why"}),
    (lambda c: c.uncordon("a"), NODE, "POST /v1/nodes/a/uncordon", {"reason": ""}),
    (lambda c: c.forget("a"), NODE, "POST /v1/nodes/a/forget", {}),
    (lambda c: c.health(), {"status": "ok"}, "GET /v1/health", None),
]


@pytest.mark.parametrize(("call", "answer", "line", "body"), CALLS, ids=[case[2] for case in CALLS])
def test_what_each_call_asks(
    server: Server, client: Client, call: Callable[[Client], object], answer: object, line: str, body: object
) -> None:
    server.body = answer
    call(client)
    (asked,) = server.asked
    assert asked.line == line
    server.check(asked)
    assert asked.headers.get("Content-Type") == (None if body is None else "application/json")
    assert (json.loads(asked.body) if asked.body else None) == body


def test_answers_are_views(server: Server, client: Client) -> None:
    server.body = JOB
    job = client.job(12)
    assert (job.id, job.name, job.tasks.running, job.ended, job.reason) == (12, "etl", 3, None, "")


def test_logs_come_as_bytes(server: Server, client: Client) -> None:
    server.body = encode_frame(LogFrame(9, 7, b"\xff\x00" * 100_000))
    pieces = list(client.logs(12, 3, "stderr", 7, follow=True))
    assert b"".join(pieces) == b"\xff\x00" * 100_000
    assert (pieces[-1].attempt, pieces[-1].end) == (9, 200_007)
    assert server.asked[0].line == "GET /v1/jobs/12/logs?task=3&stream=stderr&offset=7&follow=true&framed=true"


FAULT = {"what": "0 is too small", "hint": "1 or more", "field": "jobs[0].tasks"}


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "unauthorized", Unauthorized),
        (403, "forbidden", Unauthorized),
        (404, "not_found", NotFound),
        (409, "not_accepted", Refused),
        (413, "too_large", Refused),
        (415, "unsupported", Refused),
        (422, "bad_input", Refused),
        (500, "defect", Unavailable),
        (503, "unavailable", Unavailable),
    ],
)
@pytest.mark.parametrize("logs", [False, True], ids=["job", "logs"])
def test_errors_are_of_a_kind_and_keep_the_sentence(
    server: Server, client: Client, status: int, code: str, kind: type[ClientError], logs: bool
) -> None:
    server.status, server.body = status, {"code": code, "message": "what was wrong", "faults": [FAULT]}
    with pytest.raises(kind, match=r"^what was wrong$") as caught:
        list(client.logs(12)) if logs else client.job(12)
    assert type(caught.value) is kind
    if isinstance(caught.value, Refused):
        assert [fault.field for fault in caught.value.faults] == ["jobs[0].tasks"]
        assert caught.value.bad_input == (status != 409)


@pytest.mark.parametrize("status", [200, 301, 404, 418, 502])
@pytest.mark.parametrize("body", [b"<html>hello</html>", b"", b"\xff", b"[]", b'{"id": "x"}'])
def test_what_is_no_center_is_told_so(server: Server, client: Client, status: int, body: bytes) -> None:
    server.status, server.body = status, body
    with pytest.raises((Unreachable, Unavailable)) as caught:
        client.job(12)
    assert server.url in str(caught.value)
    said = str(caught.value)
    assert "is not a center of this version" in said or "is not a working center" in said


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        sentence = f"no center answers at {url} (connection refused); start one"
        with Client(url, "secret", advice="start one") as client, pytest.raises(Unreachable) as caught:
            client.state()
    assert str(caught.value) == sentence


def test_a_connection_that_breaks_off(server: Server, client: Client) -> None:
    server.body, server.cut = JOB, True
    with pytest.raises(Unreachable, match="broke off"):
        client.job(12)
    received: list[bytes] = []
    server.body = encode_frame(LogFrame(1, 0, b"one\n"))
    with pytest.raises(Unreachable, match="broke off"):
        received.extend(client.logs(12))
    assert received == [b"one\n"]


def test_an_answer_that_does_not_come(server: Server) -> None:
    server.hold = threading.Event()
    with Client(server.url, "secret", timeout=0.1) as client:
        with pytest.raises(Unreachable, match=r"gave no answer within 0\.1 s"):
            client.state()
        server.hold.set()


def test_waiting_is_not_taken_for_silence(server: Server) -> None:
    server.hold = threading.Event()
    server.body = JOB
    timer = threading.Timer(0.3, server.hold.set)
    timer.start()
    with Client(server.url, "secret", timeout=0.1) as client:
        assert client.job(12, wait=60).id == 12
    timer.join()


def test_what_the_center_would_not_read_is_not_sent(server: Server, client: Client) -> None:
    with pytest.raises(Refused, match="more than 16 MB"):
        client.submit([{"command": "x" * MOST_BODY}])
    assert server.asked == []


def test_broken_characters_reach_the_center_that_tells_where_they_are(server: Server, client: Client) -> None:
    server.body = {"jobs": []}
    client.submit([{"command": "\ud800"}])
    assert server.asked[0].body == b'{"jobs": [{"command": "\\ud800"}]}'


def test_importing_the_client_does_not_import_httpx() -> None:
    code = "import sys, cress.client; assert 'httpx' not in sys.modules; cress.client.Client('http://x', 'y')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_call_waits_until_centers_agree_who_leads(server: Server, client: Client) -> None:
    """Until the session of a leader that is gone has ended, the others send calls to it, or to each other."""
    server.status, server.headers = 307, {"Cress-Leader": server.url}
    server.body = {"jobs": []}

    def agree() -> None:
        while sum(asked.line.startswith("GET /v1/jobs") for asked in server.asked) < 8:
            time.sleep(0.01)
        server.status, server.headers = 200, {}

    thread = threading.Thread(target=agree)
    begin = time.monotonic()
    thread.start()
    assert client.jobs().jobs == ()
    thread.join()
    # Not as fast as it can: the last five of eight tries have pauses that grow.
    assert time.monotonic() - begin > 0.3
