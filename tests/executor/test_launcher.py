"""The launcher of tasks: it does what a fork does, and where it cannot be built or run, tasks are started by fork."""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cress.executor import processes
from cress.executor.marks import attempt_marks
from cress.executor.orphans import Orphans
from cress.executor.runtimes import launcher
from cress.executor.runtimes.cgroups import Cgroups
from cress.executor.runtimes.engines.base import PAUSE
from cress.executor.runtimes.task_cgroups import TaskCgroups
from cress.executor.task_processes import first_leaders
from cress.model.reports import Cause
from cress.shell.executor.task_manager import StageState
from tests.executor.harness import SupervisorProcess, left_over, shell, supervisor, until

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler: the launcher was not tested"
)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """What came of every case of a process, by the launcher and by a fork."""
    return outcomes_of("processes")


def outcomes_of(kind: str) -> dict[str, Any]:
    place = Path(tempfile.mkdtemp(prefix="cress-both-"))
    place.chmod(0o755)
    try:
        command = [sys.executable, "-m", "tests.executor.both_starts", str(place), kind]
        ran = subprocess.run(command, capture_output=True, check=False, cwd=Path(__file__).parents[2])
        assert ran.returncode == 0, ran.stderr.decode()
        return dict(json.loads(ran.stdout))
    finally:
        shutil.rmtree(place)


@needs_compiler
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("crun") is None, reason="containers need root and crun")
def test_launcher_and_fork_make_the_same_containers() -> None:
    cases = outcomes_of("containers")["cases"]
    for name, (launched, forked) in cases.items():
        assert launched == forked, name
    # The cases show something.
    said = cases["an account, and a kept folder"][0]["said"]
    assert "Uid:\t54321\t54321\t54321\t54321" in said[0]
    assert "Seccomp:\t2" in said[0]
    assert said[1].count("Read-only file system") == 2
    assert "killer 0\n" in said[0]
    assert cases["no such command"][0]["problem"] == "command not found: no-such-command"
    broken = cases["an engine that fails"][0]["problem"]
    assert broken.startswith("the container could not be made with crun: ")
    assert broken.endswith(" 499 500 no röom for a box"), "the last that it said"


@needs_compiler
def test_launcher_and_fork_do_the_same(outcomes: dict[str, Any]) -> None:
    assert outcomes["program"]
    for name, (launched, forked) in outcomes["cases"].items():
        assert launched == forked, name
    # The cases show something: programs that ran saw their surroundings, others were explained.
    usual = outcomes["cases"]["all as usual"][0]
    assert usual["status"] == 0
    assert "argument a b\tc" in usual["said"][0]
    assert usual["said"][1] == "error\n"
    problems = {name: pair[0]["problem"] for name, pair in outcomes["cases"].items()}
    assert problems["no such directory"] == "directory /no/such/folder does not exist on this node"
    assert "too long for this node" in problems["too long a command"]
    assert problems["a command just short enough for the kernel"] == "None"


@needs_compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="accounts need root")
def test_a_task_of_another_account_sees_its_own_processes_only(outcomes: dict[str, Any]) -> None:
    said = outcomes["cases"]["an account"][0]["said"][0]
    assert "Uid:\t54321\t54321\t54321\t54321" in said
    assert "Groups:\t54322 54323" in said
    assert "NoNewPrivs:\t1" in said
    assert outcomes["cases"]["an account"][0]["files"]["stdout"][1:3] == [54321, 54322]


def test_without_a_compiler_the_operator_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "SOURCE", _copy(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    assert not launcher.find(tmp_path / "home", said.append).ask([b"--"], {})
    assert len(said) == 1
    assert said[0].endswith("tasks are started by fork, which takes longer: no C compiler was found (cc, gcc, clang)")


@needs_compiler
def test_it_is_built_in_the_executors_directory_if_the_other_folder_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _copy(tmp_path)
    monkeypatch.setattr(launcher, "SOURCE", source)
    # A file in its place that cannot be executed, as on a file system that is mounted so.
    (source.parent / launcher.name()).write_text("")
    said: list[str] = []
    found = launcher.find(tmp_path, said.append)
    assert found.program == str(tmp_path / launcher.name())
    assert said == []


def test_source_that_a_compiler_refuses_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = _copy(tmp_path)
    source.write_text("no program\n")
    monkeypatch.setattr(launcher, "SOURCE", source)
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'error: no program'; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    said: list[str] = []
    launcher.find(tmp_path, said.append)
    assert said[0].endswith(f"{compiler} could not build it: error: no program")
    # Nothing half-built is left.
    assert not list(tmp_path.rglob("*launcher-*"))


@needs_compiler
def test_a_launcher_that_disappears_is_replaced_by_forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "SOURCE", _copy(tmp_path))
    said: list[str] = []
    found = launcher.find(tmp_path, said.append)
    found_program = found.program
    Path(found_program).unlink()
    assert not found.ask([b"--"], {})
    assert not found.ask([b"--"], {})
    assert said == [f"{found_program} cannot be executed (No such file or directory); tasks are started by fork"]


@needs_compiler
def test_a_supervisor_starts_tasks_by_it_and_replaces_it_if_it_is_killed(tmp_path: Path) -> None:
    with supervisor(tmp_path / "executor") as parent:
        client = parent.start()
        assert client.run(shell("exit 5"), 3).code == 5
        assert parent.process is not None
        served = _launchers(parent.process.pid)
        assert len(served) == 1
        os.kill(served[0], signal.SIGKILL)
        client.launch(shell("exit 6"), 4, 5, 6)
        client.wait_ended(4, 5, 6)
        assert [client.ended[attempt].code for attempt in (4, 5, 6)] == [6, 6, 6]
        assert _launchers(parent.process.pid) not in ([], served)
        assert "fork" not in parent.said()


class LosingSupervisor(SupervisorProcess):
    """A supervisor that gets no answers while there is a file, as if its launcher was killed just before them."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", _LOSING, str(self.directory), "--name", "node1"]


_LOSING = """
import errno, sys
from pathlib import Path
from cress.executor import supervisor
from cress.executor.runtimes.launcher import Launcher

real = Launcher.answers
lost = Path(sys.argv[1], "lost")
Launcher.answers = lambda self: [(-errno.ECHILD, 0) if lost.exists() else told for told in real(self)]
sys.exit(supervisor.main(sys.argv[1:]))
"""


@needs_compiler
def test_what_a_launcher_has_started_before_it_was_killed_does_not_run_on(tmp_path: Path) -> None:
    parent = LosingSupervisor(tmp_path / "executor")
    try:
        client = parent.start()
        client.launch(shell("exec sleep 1000", job=2), 3)
        client.wait_started(3)
        (parent.directory / "lost").touch()
        client.launch(shell("touch $CRESS_DIRECTORY/runs; exec sleep 1000"), 4)
        end = client.wait_ended(4)
        assert end.cause is Cause.NODE
        assert "no new process could be made" in end.error
        until(lambda: left_over(parent.directory) == {3}, "the end of what was started")
        # The node goes on.
        (parent.directory / "lost").unlink()
        assert client.run(shell("exit 5"), 5).code == 5
        assert left_over(parent.directory) == {3}
    finally:
        parent.close()


@needs_compiler
def test_a_process_that_is_not_yet_its_program_is_attributed_to_nobody(tmp_path: Path) -> None:
    """It has no mark yet, and what is guessed once would be remembered: it ran on until attempt 3 ended."""
    found = launcher.find(tmp_path, lambda _: None)
    running = SimpleNamespace(attempt=3, pid=os.getpid(), stage=StageState.RUNNING)
    becomes = [True]
    ours, its = socket.socketpair()
    its.set_inheritable(True)
    pid = os.posix_spawn(found.program, [b"cress-launcher", b"%d" % its.fileno()], {})
    try:
        orphans = Orphans(
            os.fsencode(tmp_path),
            lambda _: None,
            tasks=lambda: cast("Any", {3: running}),
            known=lambda: processes.children(os.getpid()) - {pid},
            begins=lambda child: child == pid and becomes[0],
        )
        orphans.begin()
        assert orphans.of(3) == set()
        assert orphans.kill(4), "one that may be of attempt 4 is on its way"
        becomes[0] = False
        orphans.begin_turn()
        assert orphans.of(3) == {pid}
        assert not orphans.kill(4)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        ours.close()
        its.close()
        found.close()


@needs_compiler
def test_a_launcher_that_does_not_answer_fails_its_starts_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_PATIENCE_TO_START", 1)
    said: list[str] = []
    found = launcher.find(tmp_path, said.append)
    reading, writing = os.pipe()
    try:
        assert found.ask([b"f/nowhere", b"--"], {}, writing)
        os.kill(found.pid, signal.SIGSTOP)
        assert found.answers() == [(-errno.ECHILD, 0)]
        assert said == ["the launcher did not answer; another one is started"]
        assert found.pid == 0
    finally:
        found.close()
        os.close(reading)


@needs_compiler
def test_a_request_without_a_descriptor_for_its_secrets_leaves_the_others_theirs(tmp_path: Path) -> None:
    """Its text was sent without descriptors, so the next process reported its errors to nobody."""
    found = launcher.find(tmp_path, lambda _: None)
    reading, writing = os.pipe()
    try:
        with pytest.raises(OSError, match="Bad file descriptor"):
            found.ask([b"f/nowhere", b"--"], {}, writing, 1 << 20)
        assert found.ask([b"--"], {}, writing)
        ((pid, _),) = found.answers()
        os.waitpid(pid, 0)
        assert os.read(reading, 100) == b"launcher 22"
    finally:
        found.close()
        os.close(reading)


@needs_compiler
def test_a_container_that_is_made_slowly_holds_nothing_of_other_starts(tmp_path: Path) -> None:
    """Its maker had the descriptors of all requests of its message, so all seemed to be starting until it ended."""
    found = launcher.find(tmp_path, lambda _: None)
    os.mkfifo(tmp_path / "ready")  # it waits for a reader there
    folder = os.fsencode(tmp_path)
    pipes = [os.pipe() for _ in range(3)]
    mark = b"l%d" % attempt_marks(folder).of(3)
    makes = [b"P%d" % os.getpid(), mark, b"B" + folder, b"f" + folder, b"R" + folder + b"/ready", b"--"]
    try:
        assert found.ask(makes, {}, pipes[0][1])
        assert found.ask([b"f" + folder, b"e/bin/true", b"--", b"true"], {}, pipes[1][1], pipes[2][1])
        os.close(pipes[2][1])
        (maker, _), (pid, _) = found.answers()
        os.waitpid(pid, 0)
        for reading, _ in pipes[1:]:
            assert select.select([reading], [], [], 5)[0]
            assert os.read(reading, 100) == b""
        assert select.select([pipes[0][0]], [], [], 0)[0] == []
        # Where the launcher has not answered, the maker is found by the mark of its attempt.
        until(lambda: processes.attempt_of(maker, folder) == 3, "the mark")
        os.kill(maker, signal.SIGKILL)
        os.waitpid(maker, 0)
    finally:
        found.close()
        for reading, _ in pipes:
            os.close(reading)


@needs_compiler
@pytest.mark.parametrize("version", [1, 2])
def test_a_process_begins_inside_its_control_group_where_the_kernel_can_do_that(tmp_path: Path, version: int) -> None:
    """To enter it later takes milliseconds on a busy machine. Groups of the first version are entered later."""
    known = Cgroups.find("node1", str(tmp_path))
    place = known.second if version == 2 else next(iter(known.first.values()), "")
    if os.geteuid() != 0 or not place:
        pytest.skip("no such control groups can be made here")
    groups = TaskCgroups(f"{place}/{known.path}")
    found = launcher.find(tmp_path, lambda _: None)
    # It waits for a reader of its output before it would enter a group.
    os.mkfifo(tmp_path / "stdout")
    reading, writing = os.pipe()
    try:
        orders = [b"f" + os.fsencode(tmp_path), b"g" + os.fsencode(groups.folder_of(7)), b"e/bin/cat", b"--", b"cat"]
        # A group that somebody removes in this moment is no reason to enter all later ones afterwards.
        other = Path(groups.folder_of(8))
        other.mkdir(parents=True)
        removed = os.open(other, os.O_RDONLY | os.O_DIRECTORY)
        other.rmdir()
        gone = [orders[0], b"g/proc/%d/fd/%d" % (os.getpid(), removed), *orders[2:]]
        assert found.ask(gone, {}, os.dup(writing))
        ((pid, _),) = found.answers()
        (tmp_path / "stdout").read_bytes()
        os.waitpid(pid, 0)
        os.close(removed)
        # The second one knows what the kernel said to the first.
        for _ in range(2):
            assert found.ask([*orders, b"/proc/self/cgroup"], {}, os.dup(writing))
            ((pid, _),) = found.answers()
            assert groups.pids(7) == ({pid} if version == 2 else set())
            said = (tmp_path / "stdout").read_text()
            assert f"{known.path}/p7\n" in said
            os.waitpid(pid, 0)
            assert groups.remove(7)
    finally:
        found.close()
        groups.close()
        os.close(reading)
        os.close(writing)


def test_the_first_process_of_a_container_is_never_taken_for_its_program() -> None:
    """A supervisor that ended a moment after the start of one had not noted it, and the next one waited for its end."""
    with (
        subprocess.Popen([PAUSE, "100"], executable="/bin/sleep", start_new_session=True) as first,
        subprocess.Popen(["sleep", "100"], start_new_session=True) as program,
    ):
        found = [(3, first.pid), (3, program.pid), (4, first.pid)]
        assert first_leaders(found, set()) == {3: (processes.start_ticks(program.pid), program.pid)}
        first.kill()
        program.kill()


def _launchers(pid: int) -> list[int]:
    return [child for child in processes.children(pid) if processes.command_of(child) == "cress-launcher"]


def _copy(folder: Path) -> Path:
    """A source of its own, whose program is not built yet."""
    place = folder / "package"
    place.mkdir()
    shutil.copy(launcher.SOURCE.with_name(launcher.PART), place)
    return Path(shutil.copy(launcher.SOURCE, place / "launcher.c"))
