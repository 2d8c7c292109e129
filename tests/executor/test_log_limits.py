"""Logs that take no more of the disk than they may, with real programs, files and readers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cress.executor import logs
from cress.executor.log_limits import STEP, LogLimits, can_punch_holes, first_kept, keep_last
from cress.model.reports import Cause
from cress.model.times import SECOND
from cress.protocol.messages import LogData, ReadLog
from tests.executor.harness import Client, SupervisorProcess, shell, until

MB = 2**20


@pytest.fixture(autouse=True)
def holes(tmp_path: Path) -> None:
    if not can_punch_holes(tmp_path):
        pytest.skip(f"the file system of {tmp_path} makes no holes in files: that logs are bounded was not shown")


def on_disk(path: Path) -> int:
    """The bytes that a file takes."""
    return path.stat().st_blocks * 512


def read(folder: Path, attempt: int, offset: int, *, live: bool, wait: int = 0, limit: int = MB) -> LogData:
    order = ReadLog(id=1, attempt=attempt, stream="stdout", offset=offset, limit=limit, wait=wait)
    return asyncio.run(logs.read(folder, order, lambda _: live))


# Numbered lines, in pieces of a megabyte, with a breath after each as a program has that does something else too.
WRITER = """
import os, sys, time
total, number = int(sys.argv[1]) * 2**20, 0
while number * 64 < total:
    os.write(1, b"".join(b"%063d\\n" % each for each in range(number, number + 16384)))
    number += 16384
    time.sleep(float(sys.argv[2]))
"""


def test_a_program_that_writes_much_takes_little_of_the_disk(client: Client, parent: SupervisorProcess) -> None:
    total = 200
    run = shell(f"exec {sys.executable} -c '{WRITER}' {total} 0.01", log_size=MB)
    client.launch(run, 5)
    client.wait_started(5)
    log = parent.directory / "attempts/5/stdout"
    most, offset, expected, gone = 0, 0, 0, 0
    while True:
        ended = 5 in client.ended
        most = max(most, on_disk(log))
        data = read(parent.directory / "attempts", 5, offset, live=not ended, wait=200)
        assert data.error == ""
        gone += data.gone
        start = offset + data.gone
        assert start >= expected
        for at in range(-start % 64, len(data.data) - 63, 64):
            line = data.data[at : at + 64]
            assert line == b"%063d\n" % ((start + at) // 64), "what is kept is what was written"
        offset = expected = start + len(data.data)
        if ended and data.over:
            break
        if not ended and offset >= total * MB:
            client.wait_ended(5)
    assert offset == total * MB
    assert client.ended[5].cause is Cause.EXITED
    assert log.stat().st_size == total * MB, "offsets are true"
    assert most < 60 * MB, "a loaded machine looks late, but it looks"
    until(lambda: on_disk(log) <= MB + 2 * STEP, "the last hole")
    data = read(parent.directory / "attempts", 5, 0, live=False, limit=2 * MB)
    assert MB - 2 * STEP <= len(data.data) <= MB + 2 * STEP
    assert data.gone + len(data.data) == total * MB


def test_what_was_started_before_the_supervisor_is_bounded_too(
    client: Client, parent: SupervisorProcess, tmp_path: Path
) -> None:
    text = f"echo ready; while ! [ -e {tmp_path}/go ]; do sleep 0.02; done; head -c 9000000 /dev/zero; sleep 1000"
    client.launch(shell(text, log_size=MB), 5)
    client.wait_started(5)
    parent.kill()
    parent.start()
    (tmp_path / "go").touch()
    log = parent.directory / "attempts/5/stdout"
    until(lambda: log.stat().st_size > 9_000_000 and on_disk(log) < 2 * MB, "a hole")


def test_a_short_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "stdout"
    log.write_bytes(b"x" * (MB + STEP - 1))
    assert keep_last(os.fsencode(log), MB) == 0
    assert log.read_bytes() == b"x" * (MB + STEP - 1)


@pytest.mark.parametrize("trick", ["symbolic link", "hard link", "pipe", "folder"])
def test_what_a_task_puts_in_the_place_of_its_log_is_left_alone(tmp_path: Path, trick: str) -> None:
    folder = tmp_path / "5"
    folder.mkdir()
    precious, log = tmp_path / "precious", folder / "stdout"
    precious.write_bytes(b"x" * MB)
    if trick == "symbolic link":
        log.symlink_to(precious)
    elif trick == "hard link":
        log.hardlink_to(precious)
    elif trick == "pipe":
        os.mkfifo(log)
    else:
        log.mkdir()
    said: list[str] = []
    limits = LogLimits(os.fsencode(tmp_path), said.append)
    limits.began(5, 1, 0)
    limits.look(10 * SECOND)
    limits.over(5, 20 * SECOND)
    assert precious.read_bytes() == b"x" * MB
    assert said == []


def test_logs_that_do_not_grow_are_looked_at_seldom(tmp_path: Path) -> None:
    for attempt in (5, 6):
        (tmp_path / str(attempt)).mkdir()
    quiet, busy = tmp_path / "5/stdout", tmp_path / "6/stdout"
    quiet.write_bytes(b"x")
    limits = LogLimits(os.fsencode(tmp_path), print)
    limits.began(5, MB, 0)
    now, looks = 0, 0
    while now < 60 * SECOND:
        assert limits.due is not None
        now = limits.due
        limits.look(now)
        looks += 1
    assert looks < 30, "every few seconds"
    busy.write_bytes(b"x" * 8 * MB)
    limits.began(6, MB, now)
    for _ in range(40):
        assert limits.due is not None
        now = limits.due
        limits.look(now)
        with busy.open("ab") as file:
            file.write(b"x" * MB)
        assert on_disk(busy) < 10 * MB
    assert now < 90 * SECOND
    limits.over(5, now)
    limits.over(6, now)
    limits.look(now + 10 * SECOND)
    assert limits.due is None, "nobody writes"
    assert on_disk(busy) <= MB + 2 * STEP
    assert on_disk(quiet) <= 4096


def test_a_reader_is_told_where_what_is_left_begins(tmp_path: Path) -> None:
    (tmp_path / "5").mkdir()
    log = tmp_path / "5/stdout"
    log.write_bytes(bytes(range(1, 65)) * (4 * STEP // 64))
    assert read(tmp_path, 5, 0, live=False, limit=64).gone == 0
    gone = keep_last(os.fsencode(log), STEP)
    assert gone == 3 * STEP
    with log.open("rb") as file:
        assert first_kept(file.fileno()) == gone
    data = read(tmp_path, 5, 100, live=False, limit=64)
    assert (data.gone, data.kept, data.data) == (gone - 100, STEP, bytes(range(1, 65)))
    data = read(tmp_path, 5, gone + 1, live=False, limit=63)
    assert (data.gone, data.kept, data.data) == (0, 0, bytes(range(2, 65)))
    (tmp_path / "5/stdout").write_bytes(b"")
    assert read(tmp_path, 5, 0, live=False) == LogData(id=1, over=True)


def test_without_holes_it_is_said_once(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts a file system without holes: what is said there was not shown")
    place = tmp_path / "r"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "ramfs", "none", str(place)], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mount does not work here ({mounted.stderr.strip()}): what is said without holes was not shown")
    try:
        assert not can_punch_holes(place)
        said: list[str] = []
        limits = LogLimits(os.fsencode(place), said.append)
        for attempt in (5, 6):
            (place / str(attempt)).mkdir()
            (place / f"{attempt}/stdout").write_bytes(b"x" * MB)
            limits.began(attempt, 1, 0)
        limits.look(SECOND)
        assert said == [f"logs are not limited: the file system of {place} cannot make holes in files"]
        assert limits.due is None
        assert (place / "6/stdout").read_bytes() == b"x" * MB
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.long
def test_a_gigabyte_takes_about_a_megabyte(client: Client, parent: SupervisorProcess) -> None:
    run = shell(f"exec {sys.executable} -c '{WRITER}' 1024 0.01", log_size=MB)
    client.launch(run, 5)
    client.wait_started(5)
    log = parent.directory / "attempts/5/stdout"
    seen: list[int] = []

    def written() -> bool:
        seen.append(on_disk(log))
        return log.stat().st_size >= 1024 * MB

    until(written)
    client.wait_ended(5)
    assert sorted(seen)[len(seen) // 2] < 16 * MB, "most of the time"
    assert on_disk(log) <= MB + 2 * STEP
