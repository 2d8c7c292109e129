"""Logs that are copied when their attempt is over, by a process of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor import logcopy
from cress.executor.logcopy import TRIES, LogCopies
from cress.model.reports import Cause
from tests.executor.harness import Client, SupervisorProcess, shell, supervisor, until
from tests.executor.sites import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path / "site") as it:
        yield it


def no_copies_left(parent: SupervisorProcess) -> bool:
    return not list((parent.directory / "copies").iterdir())


def test_both_streams_of_every_end_are_copied(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    run = shell("echo out; echo err >&2; exit 3", log_copy=f"file://{tmp_path}/logs/$CRESS_JOB_ID")
    end = client.run(run, 5)
    assert (end.cause, end.code) == (Cause.EXITED, 3)
    until(lambda: no_copies_left(parent))
    assert (tmp_path / "logs/1/1/0/5/stdout").read_text() == "out\n"
    assert (tmp_path / "logs/1/1/0/5/stderr").read_text() == "err\n"
    client.launch(shell("echo out; sleep 1000", job=2, log_copy=f"{tmp_path}/logs"), 6)
    until(lambda: (parent.directory / "attempts/6/stdout").exists() and parent.output(6))
    client.stop(6, grace=0)
    client.wait_ended(6)
    until((tmp_path / "logs/2/0/6/stdout").exists)
    assert (tmp_path / "logs/2/0/6/stdout").read_text() == "out\n"


def test_they_go_to_a_server_too_and_a_busy_one_is_asked_again(
    client: Client, parent: SupervisorProcess, site: Site
) -> None:
    site.busy["/logs/1/0/5/stdout"] = 1
    client.run(shell("echo out", log_copy=site.fill("{site}/logs")), 5)
    until(lambda: no_copies_left(parent))
    assert site.taken == {"/logs/1/0/5/stdout": b"out\n", "/logs/1/0/5/stderr": b""}


def test_a_copy_that_fails_is_said_at_the_end_of_the_log_and_harms_nobody(
    client: Client, parent: SupervisorProcess, site: Site
) -> None:
    run = shell("echo out; echo err >&2", log_copy=site.fill("http://me:secret@127.0.0.1:{port}/status/403?key=x"))
    end = client.run(run, 5)
    assert (end.cause, end.code, end.error) == (Cause.EXITED, 0, "")
    until(lambda: no_copies_left(parent))
    line = site.fill("[the log could not be copied to {site}/status/403?…: the server answers 403 Forbidden]")
    assert parent.output(5, "stderr") == f"err\n{line}\n"
    assert parent.output(5) == "out\n"
    assert f"attempt 5: {line}" in parent.said()


def test_what_is_gone_of_a_long_log_is_not_copied(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    client.run(shell("head -c 9000000 /dev/zero | tr '\\0' x", log_size=2**20, log_copy=str(tmp_path / "logs")), 5)
    until(lambda: no_copies_left(parent))
    copied = (tmp_path / "logs/1/0/5/stdout").read_bytes()
    first, _, rest = copied.partition(b"\n")
    gone = int(first.split()[2])
    assert first == b"[the first %d bytes are gone]" % gone
    assert rest == b"x" * (9_000_000 - gone)
    assert len(rest) < 2 * 2**20


def test_a_later_supervisor_copies_what_was_left(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    text = f"echo out; while ! [ -e {tmp_path}/go ]; do sleep 0.02; done"
    client.launch(shell(text, log_copy=str(tmp_path / "logs")), 5)
    client.launch(shell(text, job=2, log_copy=str(tmp_path / "logs")), 6)
    client.wait_started(5)
    client.wait_started(6)
    parent.kill()
    os.kill(client.started[6].pid, 9)
    again = parent.start()
    again.wait_ended(6)
    until((tmp_path / "logs/2/0/6/stderr").exists)
    assert not (tmp_path / "logs/1").exists(), "it still writes"
    (tmp_path / "go").touch()
    again.wait_ended(5)
    until(lambda: no_copies_left(parent))
    assert (tmp_path / "logs/1/0/5/stdout").read_text() == "out\n"


def test_a_copy_that_is_killed_is_begun_anew(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies/7").write_bytes(b"never read: each is killed before that")
    copies = LogCopies(tmp_path, "n1", said.append)
    copies.left(set())
    for left in range(TRIES - 1, -1, -1):
        ((pid, attempt),) = copies.working.items()
        assert attempt == 7
        assert (tmp_path / "copies/7").exists()
        os.kill(pid, 9)
        assert copies.ended(pid, os.waitpid(pid, 0)[1])
        assert bool(copies.working) == bool(left)
    assert said == ["the copy of the log of attempt 7 was interrupted"]
    assert not (tmp_path / "copies/7").exists()


def test_nobody_else_can_read_a_log_while_it_is_copied(tmp_path: Path) -> None:
    log = tmp_path / "stdout"
    log.write_text("hunter2")
    modes = []

    def save(file: Path, _: str) -> None:
        assert file.read_text() == "hunter2"
        modes.append((file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777))

    fd = os.open(log, os.O_RDONLY)
    logcopy._copy(fd, "file:///x", save)
    os.close(fd)
    assert modes == [(0o644, 0o700)]


def test_copies_are_made_by_the_account_of_the_task() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has tasks of other accounts: who copies their logs was not shown")
    folder = Path(tempfile.mkdtemp(prefix="cr", dir="/tmp"))
    try:
        folder.chmod(0o777)
        with supervisor(folder / "executor") as parent:
            client = parent.start()
            client.run(shell("echo out", run_as="daemon", log_copy=str(folder / "logs")), 5)
            client.run(shell("echo out", run_as="daemon", job=2, log_copy="/root/logs"), 6)
            until(lambda: no_copies_left(parent))
            assert (folder / "logs/1/0/5/stdout").owner() == "daemon"
            assert parent.output(6, "stderr").startswith(
                "[the log could not be copied to /root/logs: daemon may not use"
            )
    finally:
        shutil.rmtree(folder)
