"""``cress exec`` on a real cluster, from a real terminal and through pipes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cress.client import Unavailable
from tests.system.cluster import PATIENCE, Cluster, wait_until


def begun(cluster: Cluster, command: str = "sleep 1000", **job: Any) -> int:
    """The id of a job whose tasks run."""
    with cluster.client() as client:
        job = {"name": "place", "command": command, "resource": "<0.1, 10M>", **job}
        id = client.submit([job]).jobs[0].id
        wait_until(lambda: client.job(id).tasks.running == job.get("tasks", 1), "the start")
        wait_until(lambda: all(task.state == "running" for task in client.tasks(id).tasks), "the start of all")
        return id


@pytest.fixture
def place(shared: Cluster) -> Iterator[int]:
    """A job with one task that runs."""
    id = begun(shared)
    yield id
    with shared.client() as client:
        client.cancel(id)


class Terminal:
    """A terminal with ``cress`` in it."""

    def __init__(self, cluster: Cluster, *arguments: object, rows: int = 33, columns: int = 77) -> None:
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cress", *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=cluster.environment | {"TERM": "xterm-test"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no other threads
        )
        self.slave = slave
        self.said = b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def expect(self, word: str) -> str:
        """Read until this was written; all of it up to there."""
        deadline = time.monotonic() + PATIENCE
        while word.encode() not in self.said:
            assert time.monotonic() < deadline, self.said
            if select.select([self.master], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.said += os.read(self.master, 65_536)
        before, _, self.said = self.said.partition(word.encode())
        return before.decode()

    def ended(self) -> int:
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.slave)
        os.close(self.master)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for each in opened:
        each.close()


def test_a_shell_in_a_terminal(shared: Cluster, place: int, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(shared, "exec", place, "--", "sh"))
    terminal.type("echo job=$CRESS_JOB_ID $TERM; tty; stty size; pwd\r")
    terminal.expect(f"job={place} xterm-test\r\n")
    assert terminal.expect("33 77").startswith("/dev/pts/")
    terminal.expect("/work\r\n")
    # Ctrl-C is for what runs in the shell, which goes on.
    terminal.type("sleep 1000\r")
    wait_until(lambda: subprocess.run(["pgrep", "-P", _shell(), "sleep"], check=False, capture_output=True).stdout)
    terminal.type("\x03")
    terminal.type("echo code=$?\r")
    terminal.expect("code=130\r\n")
    terminal.resize(11, 22)
    # What is typed may overtake the new size.
    terminal.type("until [ \"$(stty size)\" = '11 22' ]; do sleep 0.1; done; echo over$((6 * 7))\r")
    terminal.expect("over42\r\n")
    terminal.type("exit 9\r")
    assert terminal.ended() == 9


def _shell() -> str:
    """The shell that was let in last."""
    found = subprocess.run(["pgrep", "-n", "-x", "sh"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def test_ctrl_c_ends_a_command_with_130_and_the_terminal_is_as_before(
    shared: Cluster, place: int, terminals: list[Terminal]
) -> None:
    terminals.append(terminal := Terminal(shared, "exec", place, "--", "sh", "-c", "echo ready; exec sleep 1000"))
    before = termios.tcgetattr(terminal.slave)
    terminal.expect("ready")
    assert termios.tcgetattr(terminal.slave) != before
    terminal.type("\x03")
    assert terminal.ended() == 130
    assert termios.tcgetattr(terminal.slave) == before


def test_ctrl_d_is_the_end_of_the_input(shared: Cluster, place: int, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(shared, "exec", place, "--", "cat"))
    terminal.type("hello\r")
    terminal.expect("hello\r\nhello\r\n")
    terminal.type("\x04")
    assert terminal.ended() == 0


def test_no_tty_is_no_terminal(shared: Cluster, place: int, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(shared, "exec", place, "--no-tty", "--", "tty"))
    terminal.expect("not a tty")
    assert terminal.ended() == 1
    terminals.append(terminal := Terminal(shared, "exec", place, "-T", "--", "sh", "-c", "echo begun; exec sleep 1000"))
    terminal.expect("begun")
    terminal.type("\x03")
    terminal.expect("interrupted, and the command in the task was ended")
    assert terminal.ended() == 130
    wait_until(lambda: not _children_of_helper(shared), "the end of the command")


def _children_of_helper(cluster: Cluster, name: str = "n1") -> list[int]:
    """The commands that run in tasks of a node."""
    found = []
    for helper in subprocess.run(
        ["pgrep", "-f", "cress.executor.exec.helper"], check=False, capture_output=True, text=True
    ).stdout.split():
        with contextlib.suppress(OSError):
            parent = Path(f"/proc/{helper}/stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == cluster.agent(name):
                found += [*map(int, Path(f"/proc/{helper}/task/{helper}/children").read_text().split())]
    return found


def test_pipes_are_exact_and_apart(shared: Cluster, place: int) -> None:
    done = shared.cress("exec", place, "--env", "A=b c", "--", "sh", "-c", 'cat; echo "$A" >&2; exit 3', stdin="hi\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, "hi\n", "b c\n")
    data = os.urandom(10 * 2**20)
    command = [sys.executable, "-m", "cress", "exec", str(place), "--", "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=shared.environment) as process:
        assert process.communicate(data, timeout=PATIENCE)[0] == data
    assert process.returncode == 0


def test_a_command_that_reads_nothing_is_no_reason_to_wait(shared: Cluster, place: int) -> None:
    with shared.client() as client:
        assert client.exec(place, ["true"]).communicate(b"x" * 2**20) == (0, b"", b"")


REFUSALS = [
    (["exec", "99999", "--", "true"], 2, "cress exec: there is no job 99999"),
    (["exec", "{place}.3", "--", "true"], 2, "cress exec: job {place} has no task 3 (only task 0)"),
    (["exec", "{over}", "--", "true"], 3, "cress exec: task 0 of job {over} does not run"),
    (["exec", "{place}", "--env", "A", "--", "true"], 2, "cress exec: --env: 'A' is not a variable (NAME=VALUE)"),
    (
        ["exec", "{place}", "--env", "CRESS_X=1", "--", "true"],
        255,
        "cress exec: environment: is not the name of a variable",
    ),
    (["exec", "{place}", "--", "nosuch"], 127, "cress exec: command not found in the task: nosuch"),
    (["exec", "{place}", "--", "/etc/passwd"], 126, "cress exec: /etc/passwd cannot be started in the task"),
]


@pytest.mark.parametrize(("arguments", "code", "says"), REFUSALS)
def test_what_cannot_be_is_one_sentence(
    shared: Cluster, place: int, arguments: list[str], code: int, says: str
) -> None:
    with shared.client() as client:
        over = client.submit([{"name": "over", "command": "true"}]).jobs[0].id
        client.job(over, wait=PATIENCE)
    names = {"place": place, "over": over}
    done = shared.cress(*(each.format(**names) for each in arguments))
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(says.format(**names))
    assert done.stderr.count("\n") == 1


def test_of_several_tasks_one_that_runs_is_taken_and_named(shared: Cluster) -> None:
    id = begun(shared, tasks=2)
    done = shared.cress("exec", id, "--", "sh", "-c", "echo $CRESS_TASK_INDEX")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", f"cress exec: in task {id}.0 of 2 tasks\n")
    assert shared.cress("exec", f"{id}.1", "--", "sh", "-c", "echo $CRESS_TASK_INDEX").stdout == "1\n"
    with shared.client() as client:
        client.cancel(id)
        client.job(id, wait=PATIENCE)
    done = shared.cress("exec", id, "--", "true")
    assert done.returncode == 3
    assert done.stderr.startswith(f"cress exec: no task of job {id} (place) runs (cancelled by ")


def test_many_at_once(shared: Cluster, place: int) -> None:
    with shared.client() as client:
        commands = [client.exec(place, ["sh", "-c", f"read x; echo {n} $x; exit {n}"]) for n in range(40)]
        assert [each.communicate(b"y\n") for each in commands] == [(n, b"%d y\n" % n, b"") for n in range(40)]
        too_many = [client.exec(place, ["cat"]) for _ in range(51)]
        with pytest.raises(Unavailable, match=r"^50 commands of \w+ run on node n1 \(end one of them\)$"):
            list(too_many[-1])
        for each in too_many:
            each.close()
    wait_until(lambda: not _children_of_helper(shared), "the end of all commands")


def memory(pid: int) -> int:
    """Bytes of memory that a process has to itself."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def test_a_slow_reader_makes_the_command_wait(shared: Cluster, place: int, tmp_path: Path) -> None:
    assert shared.center is not None
    with shared.client() as client:
        client.exec(place, ["true"]).communicate()
        pids = [shared.center.pid, shared.agent()]
        before = [memory(pid) for pid in pids]
        count = tmp_path / "count"
        script = f"i=0; while head -c 1000000 /dev/zero; do i=$((i + 1)); echo $i > {count}; done"
        with client.exec(place, ["sh", "-c", script]) as command:
            parts = iter(command)
            next(parts)
            last = -1
            deadline = time.monotonic() + PATIENCE
            while (
                last != (last := int(count.read_text() or 0) if count.exists() else 0)
                or time.monotonic() < deadline - 59
            ):
                time.sleep(0.5)
            assert last <= 3, "megabytes that nobody reads"
            assert all(memory(pid) - size < 8 * 2**20 for pid, size in zip(pids, before, strict=True))
            # It goes on as soon as somebody reads.
            read = 0
            while read < 5_000_000:
                read += len(next(parts)[1])
        wait_until(lambda: not _children_of_helper(shared), "the end of the command")


def test_the_end_of_the_task_is_the_end_of_its_commands(shared: Cluster) -> None:
    id = begun(shared)
    with shared.client() as client:
        with client.exec(id, ["sh", "-c", "echo; setsid sleep 1000 & sleep 1000"]) as command:
            parts = iter(command)
            next(parts)
            client.cancel(id)
            with pytest.raises(Exception, match="the command was ended"):
                list(parts)
        assert client.job(id, wait=PATIENCE).state == "cancelled"
    wait_until(lambda: not _children_of_helper(shared), "the end of the command")


@pytest.mark.parametrize("who", ["agent", "center", "supervisor"])
def test_killed_in_the_middle(own: Cluster, terminals: list[Terminal], who: str) -> None:
    id = begun(own)
    word = f"4000.{os.getpid()}"
    terminals.append(
        terminal := Terminal(own, "exec", id, "--", "sh", "-c", f"sleep {word} & echo ready; sleep {word}")
    )
    terminal.expect("ready")
    assert own.center is not None
    if who == "supervisor":
        # The task goes on without it, but the agent begins anew, and so commands end.
        os.kill(own.supervisor(), signal.SIGKILL)
    else:
        (own.center if who == "center" else own.executors["n1"]).kill()
    said = terminal.expect("was ended")
    assert "\r\ncress exec: " in said or said.lstrip().startswith("cress exec: ")
    assert terminal.ended() == 255
    wait_until(
        lambda: subprocess.run(["pgrep", "-f", f"^sleep {word}"], check=False, capture_output=True).returncode == 1,
        "the end of the command",
    )


@pytest.mark.parametrize(
    "engine", ["crun", pytest.param("runc", marks=pytest.mark.long), pytest.param("bwrap", marks=pytest.mark.long)]
)
def test_in_a_container(bare: Cluster, terminals: list[Terminal], engine: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make containers here")
    if shutil.which(engine) is None:
        pytest.skip(f"there is no {engine}: nothing was shown of commands in its containers")
    # A node on which the others do not work.
    (broken := bare.folder / "bin").mkdir()
    for other in {"crun", "runc", "bwrap"} - {engine}:
        (broken / other).write_text("#!/bin/sh\nexit 1\n")
        (broken / other).chmod(0o755)
    bare.environment["PATH"] = f"{broken}:{os.environ['PATH']}"
    bare.start_center()
    bare.start_executor()
    source = bare.file("source", "brought")
    id = begun(bare, runtime="container", files=[{"source": str(source), "path": "file"}])

    def inside(*command: str) -> str:
        done = bare.cress("exec", id, "--", *command)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    # Its directory has what was brought by a stage, which stays outside: the command finds the program behind that.
    assert inside("cat", "file") == "brought"
    # The first process of the program, as it is called there; few others are.
    (first,) = inside("pgrep", "-x", "sleep").split()
    assert int(first) < 100
    spaces = "cd /proc/{}/ns && readlink pid mnt ipc uts net user cgroup"
    assert inside("sh", "-c", spaces.format("self")) == inside("sh", "-c", spaces.format(first))
    ours = [os.readlink(f"/proc/self/ns/{each}") for each in ("pid", "mnt", "ipc")]  # noqa: PTH115
    assert not set(ours) & set(inside("sh", "-c", spaces.format("self")).split())
    assert inside("sh", "-c", "touch /etc/x 2>/dev/null || echo no") == "no"
    assert inside("cat", "/proc/self/cgroup") == inside("cat", f"/proc/{first}/cgroup")
    assert inside("cat", "/proc/self/cgroup") != Path("/proc/self/cgroup").read_text().strip()
    assert (
        inside("sh", "-c", "id -u; pwd").split()
        == inside("sh", "-c", f"stat -c %u /proc/{first}; readlink /proc/{first}/cwd").split()
    )
    same = "CapEff|CapBnd|NoNewPrivs"
    assert inside("grep", "-E", same, "/proc/self/status") == inside("grep", "-E", same, f"/proc/{first}/status")
    terminals.append(
        terminal := Terminal(bare, "exec", id, "--", "sh", "-c", "tty; stty size; echo > /dev/tty; read x")
    )
    terminal.expect("/dev/pts/")
    terminal.expect("33 77")
    terminal.type("\x03")
    assert terminal.ended() == 130
