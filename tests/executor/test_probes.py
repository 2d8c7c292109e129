"""What one question of a check comes to: real sockets, real commands."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from cress.executor.exec.helper_process import HelperProcess
from cress.executor.probes import MOST_SAID, Target, ask, port_of
from cress.model.run import Check
from cress.model.times import SECOND
from tests.executor.harness import until
from tests.ports import free_port
from tests.waiting import PATIENCE


def answer(check: Check, port: int = 0, target: Target | None = None) -> str:
    """What a check comes to."""

    async def asked() -> str:
        helper = HelperProcess()
        try:
            return await ask(check, port, target or Target(1, os.getpid()), helper)
        finally:
            helper.close()

    return asyncio.run(asked())


@contextmanager
def serving(*parts: bytes, family: socket.AddressFamily = socket.AF_INET, hang: bool = False) -> Iterator[int]:
    """A port at which everybody is told this, after the question."""
    with closing(socket.socket(family)) as door:
        door.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        door.listen()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    wire, _ = door.accept()
                    with wire:
                        asked = wire.recv(10_000)
                        for part in parts:
                            wire.sendall(part)
                        while hang and asked and wire.recv(10_000):
                            pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield door.getsockname()[1]
        finally:
            door.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)


def test_a_port_that_somebody_listens_on() -> None:
    with serving() as port:
        assert answer(Check(port="http"), port) == ""


def test_a_port_that_nobody_listens_on() -> None:
    port = free_port()
    assert answer(Check(port="http"), port) == f"nothing listens on port {port}"


def test_a_program_that_listens_at_another_address_is_asked_there_first_the_next_time() -> None:
    target = Target(1, os.getpid(), "127.0.0.2")
    with serving(family=socket.AF_INET6) as port:
        assert answer(Check(port="http"), port, target) == ""
    assert target.addresses == ["::1", "127.0.0.1", "127.0.0.2"]


PAGES = [
    ("well", [b"HTTP/1.1 200 OK\r\n\r\nfine"], ""),
    ("elsewhere", [b"HTTP/1.0 302 Found\r\nLocation: /x\r\n\r\n"], ""),
    ("in pieces", [b"HT", b"TP/1.1 20", b"0 OK\r\n\r\n"], ""),
    ("nothing but a number", [b"HTTP/1.1 204\n"], ""),
    ("a word before the answer", [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n", b"\r\nHTTP/1.1 200 OK\r\n\r\n"], ""),
    ("a word before a bad answer", [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 No\r\n\r\n"], "answers 500 No"),
    ("not there", [b"HTTP/1.1 404 Not Found\r\n\r\n"], "answers 404 Not Found"),
    ("ill", [b"HTTP/1.1 503 Service Unavailable\r\n\r\n"], "answers 503 Service Unavailable"),
    ("no answer", [], "the connection was closed without an answer"),
    ("half an answer", [b"HTTP/1.1 200"], "the connection was closed without an answer"),
    ("another language", [b"SSH-2.0-OpenSSH\r\n"], "does not speak HTTP"),
    ("a digit that is no number", [b"HTTP/1.1 \xb2 OK\r\n\r\n"], "does not speak HTTP"),
    ("a number of 5,000 digits", [b"HTTP/1.1 " + b"2" * 5000 + b"\r\n\r\n"], "does not speak HTTP"),
    ("no line at all", [b"x" * 100_000], "does not speak HTTP"),
]


@pytest.mark.parametrize(("parts", "why"), [case[1:] for case in PAGES], ids=[case[0] for case in PAGES])
def test_a_page(parts: list[bytes], why: str) -> None:
    with serving(*parts) as port:
        said = answer(Check(url="/health", on="http"), port)
    assert said.endswith(why)
    assert bool(said) == bool(why)


def test_who_says_nothing_has_failed_when_the_time_is_over() -> None:
    with serving(hang=True) as port:
        said = answer(Check(url="/health", timeout=SECOND // 5), port)
        assert said == f"/health on port {port} did not answer within 0.2s"


@pytest.fixture
def task() -> Iterator[Target]:
    """A process that looks like a task."""
    task = subprocess.Popen(
        ["sleep", "1000"],
        env={"PATH": os.environ["PATH"], "CRESS_ATTEMPT": "5", "WORD": "right"},
        start_new_session=True,
    )
    try:
        until(lambda: b"sleep" in Path(f"/proc/{task.pid}/cmdline").read_bytes())
        yield Target(5, task.pid)
    finally:
        task.kill()
        task.wait()


COMMANDS = [
    ("succeeds", ["true"], ""),
    ("knows the environment of the task", ["sh", "-c", "test $WORD = right"], ""),
    ("says why", ["sh", "-c", "echo no; echo 'too old' >&2; echo; exit 3"], "sh exited with 3: too old"),
    ("says nothing", ["false"], "false exited with 1"),
    ("dies", ["sh", "-c", "kill -9 $$"], "sh was killed by signal 9"),
    ("is not there", ["nosuch"], "command not found in the task: nosuch"),
    ("says too much", ["sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x; exit 1"], "x" * MOST_SAID),
]


@pytest.mark.parametrize(("command", "why"), [case[1:] for case in COMMANDS], ids=[case[0] for case in COMMANDS])
def test_a_command(task: Target, command: list[str], why: str) -> None:
    said = answer(Check(command=tuple(command), timeout=60 * SECOND), 0, task)
    assert said.endswith(why)
    assert bool(said) == bool(why)


def test_a_command_that_does_not_end_is_killed(task: Target) -> None:
    name = "1000.25"
    said = answer(Check(command=("sh", "-c", f"sleep {name} & sleep {name}"), timeout=2 * SECOND), 0, task)
    assert said == "sh did not end within 2s"
    # ``HelperProcess.close`` was the end of the helper: it leaves nothing behind.
    left = subprocess.run(["pgrep", "-f", f"^sleep {name}"], check=False, capture_output=True).stdout
    deadline = 600
    while left and deadline:
        threading.Event().wait(0.05)
        left = subprocess.run(["pgrep", "-f", f"^sleep {name}"], check=False, capture_output=True).stdout
        deadline -= 1
    assert not left


@pytest.mark.parametrize(
    ("check", "port"),
    [
        (Check(port="http"), 20_001),
        (Check(port="admin"), 20_002),
        (Check(port="8080"), 8080),
        (Check(url="/"), 20_001),
        (Check(url="/", on="admin"), 20_002),
        (Check(port="none"), 0),
    ],
)
def test_ports_by_name(check: Check, port: int) -> None:
    assert port_of(check, (("http", 20_001), ("admin", 20_002))) == port
