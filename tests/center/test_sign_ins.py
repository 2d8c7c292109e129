"""Failed sign-ins are slowed by address; nothing else is. What answers tell browsers; memory that is not dumped."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys

import httpx
import pytest

from cress.center.web.asgi import App, Message, Receive, Scope, Send
from cress.center.web.sign_ins import FORGOTTEN, FREE, LONGEST, MOST_ADDRESSES, SignInDelays, SlowSignIns
from tests.center.program import Center


def test_the_first_failures_of_an_address_cost_nothing_and_the_next_ones_more_and_more() -> None:
    table = SignInDelays()
    assert [table.failed("10.0.0.1", 0.0) for _ in range(FREE)] == [0.0] * FREE
    delays = [table.failed("10.0.0.1", 1.0) for _ in range(200)]
    assert delays[:3] == [0.1, 0.2, 0.4]
    assert delays == sorted(delays)
    assert delays[-1] == LONGEST
    assert table.failed("10.0.0.2", 1.0) == 0.0
    assert table.failed("10.0.0.1", 1.0 + FORGOTTEN) == 0.0


def test_an_ipv6_network_counts_as_one_address() -> None:
    table = SignInDelays()
    for number in range(FREE):
        table.failed(f"2001:db8::{number + 1:x}", 0.0)
    assert table.failed("2001:db8::ffff", 0.0) > 0
    assert table.failed("2001:db8:0:1::1", 0.0) == 0.0
    assert table.failed("::ffff:10.0.0.1", 0.0) == table.failed("10.0.0.1", 0.0) == 0.0


def test_the_table_does_not_grow_without_end() -> None:
    table = SignInDelays()
    for number in range(MOST_ADDRESSES + 100):
        table.failed(f"host{number}", 0.0)
    assert len(table) == MOST_ADDRESSES


@pytest.mark.parametrize(
    ("client", "headers", "refusal", "noted"),
    [
        (("10.0.0.1", 1), [(b"authorization", b"Bearer x")], (401, b"Bearer"), 1),
        (("10.0.0.1", 1), [(b"authorization", b"Cress stale")], (401, b"Cress stale"), 0),
        (("10.0.0.1", 1), [(b"authorization", b"Bearer x")], (200, b""), 0),
        (("10.0.0.1", 1), [], (401, b"Bearer"), 0),
        (None, [(b"authorization", b"Bearer x")], (401, b"Bearer"), 0),
    ],
)
def test_only_refused_credentials_from_the_network_count(
    client: tuple[str, int] | None, headers: list[tuple[bytes, bytes]], refusal: tuple[int, bytes], noted: int
) -> None:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        status, how = refusal
        await send({"type": "http.response.start", "status": status, "headers": [(b"www-authenticate", how)]})

    table = SignInDelays()
    sent = asyncio.run(_ask(SlowSignIns(app, table, lambda: 0.0), client, headers))
    assert [message["status"] for message in sent] == [refusal[0]]
    assert len(table) == noted


async def _ask(app: App, client: tuple[str, int] | None, headers: list[tuple[bytes, bytes]]) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    await app({"type": "http", "client": client, "headers": headers}, receive, send)
    return sent


def test_every_answer_has_the_headers_of_security_and_forwarded_addresses_mean_nothing(center: Center) -> None:
    url = center.address["url"]
    with httpx.Client(base_url=url, trust_env=False) as http:
        answers = [
            http.get("/v1/health"),
            http.get("/docs"),
            http.get("/v1/state", headers={"Authorization": f"Bearer {center.token}"}),
            http.get("/v1/state", headers={"Authorization": "Bearer wrong"}),
            http.get("/v1/nothing", headers={"Authorization": f"Bearer {center.token}"}),
            http.get("/v1/health", headers={"Host": "evil.example"}),
            http.get(f"/v1/state?token={center.token}"),
        ]
    assert [each.status_code for each in answers] == [200, 200, 200, 401, 404, 403, 401]
    for each in answers:
        assert each.headers["X-Content-Type-Options"] == "nosniff"
        assert each.headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in each.headers["Content-Security-Policy"]
        assert each.headers["Referrer-Policy"] == "no-referrer"
        assert each.headers["Cache-Control"] == "no-store"
        assert "server" not in each.headers


CENTER = "from cress.center.process.core_dumps import forbid_core_dumps as forbid"
EXECUTOR = "from cress.executor.runtimes.linux import not_dumpable as forbid"


def dumped(program: str, folder: str) -> bool:
    """Whether the kernel wrote a core of a program that ends by SIGABRT."""

    def unlimited() -> None:
        most = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))

    process = subprocess.Popen(
        [sys.executable, "-c", program + "\nimport os; os.abort()"],
        cwd=folder,
        preexec_fn=unlimited,  # noqa: PLW1509 – there is one thread
        stderr=subprocess.DEVNULL,
    )
    _, status = os.waitpid(process.pid, 0)
    process.returncode = status
    return os.WCOREDUMP(status)


@pytest.mark.parametrize("forbid", [CENTER, EXECUTOR], ids=["center", "executor"])
def test_no_core_is_written_of_a_process_that_holds_secrets(
    forbid: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = str(tmp_path_factory.mktemp("cores"))
    if not dumped("", folder):
        pytest.skip("this system writes no cores at all")
    assert not dumped(f"{forbid}\nforbid()", folder)
