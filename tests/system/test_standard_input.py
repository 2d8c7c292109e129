"""Standard input of ``cress run``: what a pipe or a file says reaches the task, whole or with an error."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.system.cluster import Cluster, wait_until
from tests.system.test_commands import newest, result, state_of


@contextmanager
def running(cluster: Cluster, *arguments: object, stdin: int | IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """`cress run` with this standard input; its others are pipes."""
    command = [sys.executable, "-m", "cress", "run", *map(str, arguments)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=stdin, stdout=pipe, stderr=pipe, env=cluster.environment, cwd=cluster.folder
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_a_file_is_passed_on_byte_by_byte(shared: Cluster, tmp_path: Path) -> None:
    data = os.urandom(300_000) + bytes(range(256))
    (tmp_path / "data").write_bytes(data)
    with (tmp_path / "data").open("rb") as file:
        file.seek(7, os.SEEK_SET)  # as a shell may leave it
        with running(shared, "--", "sha256sum", stdin=file) as run:
            out, err = run.communicate(timeout=60)
    assert (run.returncode, out.split()[:1], err) == (0, [hashlib.sha256(data[7:]).hexdigest().encode()], b"")


def test_a_pipe_is_passed_on_as_it_comes(shared: Cluster) -> None:
    with running(shared, "--", "cat", stdin=subprocess.PIPE) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        for line in (b"one\n", b"two\n"):
            run.stdin.write(line)
            run.stdin.flush()
            assert run.stdout.readline() == line
        assert run.communicate(timeout=60) == (b"", b"")
    assert run.returncode == 0


def test_the_job_has_the_name_of_its_program(shared: Cluster) -> None:
    assert result(shared.cress("run", "--", "wc", "-l", stdin="1\n2\n3\n")) == (0, "3\n", "")
    with shared.client() as client:
        assert client.job(newest(shared)).name == "wc"


def test_nobody_need_read_it(shared: Cluster) -> None:
    with running(shared, "--", "head", "-1", stdin=subprocess.PIPE) as run:
        assert run.stdin is not None
        with pytest.raises(BrokenPipeError):
            run.stdin.write(b"y\n" * 10_000_000)
        assert run.stdout is not None
        assert run.stdout.read() == b"y\n"
        assert run.wait(60) == 0
    # A pipe that never says anything is nobody's input.
    with running(shared, "--", "sh", "-c", "exit 7", stdin=subprocess.PIPE) as run:
        assert run.wait(60) == 7


def test_it_can_be_left_alone(shared: Cluster) -> None:
    assert result(shared.cress("run", "--no-stdin", "--", "wc", "-c", stdin="data")) == (0, "0\n", "")


def test_several_tasks_with_input_are_refused_and_without_run(shared: Cluster) -> None:
    before = newest(shared)
    code, out, err = result(shared.cress("run", "--tasks", 2, "--", "cat", stdin="data"))
    assert (code, out, newest(shared)) == (2, "", before)
    assert err.startswith("cress run: --tasks: standard input cannot be passed on to several tasks (")
    with running(shared, "--tasks", 2, "--", "echo", "hi", stdin=subprocess.PIPE) as run:
        assert run.wait(60) == 0
    with running(shared, "--tasks", 2, "--", "sleep", "600", stdin=subprocess.PIPE) as run:
        id = wait_until(lambda: newest(shared) > before + 1 and newest(shared), "the job")
        out_late, err_late = run.communicate(b"late", timeout=60)
    assert (run.returncode, out_late, err_late.decode()) == (2, b"", err)
    wait_until(lambda: state_of(shared, id) == "cancelled", "its end")


def test_ctrl_c_while_it_reads(shared: Cluster) -> None:
    script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done"
    with running(shared, "--", "sh", "-c", script, stdin=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 9
        assert (run.stdout.read(), run.stderr and run.stderr.read()) == (b"caught\n", b"")


def test_input_that_is_cut_off_is_an_error(own: Cluster) -> None:
    with running(own, "--", "sh", "-c", "echo ready; wc -l", stdin=subprocess.PIPE) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        run.stdin.write(b"1\n2\n")
        run.stdin.flush()
        own.kill_center()
        own.start_center()
        _, err = run.communicate(timeout=60)
    assert run.returncode != 0
    assert b"cress run: the task got only a part of its standard input: " in err


def test_a_task_that_starts_again_does_not_get_the_rest_only(own: Cluster) -> None:
    with running(own, "--", "sh", "-c", "echo ready; cat", stdin=subprocess.PIPE) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        run.stdin.write(b"1\n")
        run.stdin.flush()
        assert run.stdout.readline() == b"1\n"
        assert own.cress("nodes", "drain", "n1", "--deadline", "0s").returncode == 0
        assert own.cress("nodes", "uncordon", "n1").returncode == 0
        assert run.wait(60) != 0
        assert run.stderr is not None
        assert b"the task was started again, but its standard input had been read" in run.stderr.read()


def test_in_a_container(bare: Cluster) -> None:
    if os.geteuid() != 0 or shutil.which("crun") is None:
        pytest.skip("only root with an engine can make containers here")
    bare.start_center()
    bare.start_executor("n1", "<4, 8G>", "--runtime", "container")
    done = bare.cress("run", "--", "wc", "-l", stdin="1\n2\n")
    assert result(done) == (0, "2\n", "")


@pytest.mark.long
def test_much_input_takes_little_memory(shared: Cluster) -> None:
    size = 100_000_000
    script = f"head -c {size} /dev/zero | {sys.executable} -m cress run -- sh -c 'sleep 1; wc -c'"
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-c", f"ulimit -v 1000000; {script}"],
        capture_output=True,
        text=True,
        env=shared.environment,
        timeout=300,
        check=False,
    )
    assert result(done) == (0, f"{size}\n", "")
