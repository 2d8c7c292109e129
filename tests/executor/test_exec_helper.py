"""Commands inside running tasks: where they are, who they are, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from cress.executor.exec import confinement
from cress.executor.exec.helper_process import ExecError, HelperProcess
from cress.executor.runtimes.programs import candidates
from tests.executor.harness import until
from tests.executor.hogs import hogs, with_word

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make tasks of other accounts and namespaces")
ENVIRONMENT = {"PATH": os.environ["PATH"], "CRESS_ATTEMPT": "5", "WORD": "right"}


@contextlib.contextmanager
def task(*command: str, says: bool = False, **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like the first one of attempt 5.

    ``says``: it writes a line when it is what it wants to be.
    """
    process = subprocess.Popen(
        command or ("sleep", "1000"),
        env=ENVIRONMENT,
        start_new_session=True,
        stdout=subprocess.PIPE if says else None,
        **more,  # type: ignore[call-overload]
    )
    try:
        if process.stdout is not None:
            assert process.stdout.readline() == b"here\n"
        else:
            until(lambda: b"python" not in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


async def run(helper: HelperProcess, first: int, *command: str, attempt: int = 5) -> tuple[int, str]:
    """The exit code, and what it wrote."""
    reading, writing = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        session = await helper.enter(first, attempt, command, streams=(null, writing, writing))
    except ExecError:
        os.close(reading)
        raise
    finally:
        os.close(null)
        os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="replace") as file:
        return await session.over, file.read().strip()


def with_helper(story: Callable[[HelperProcess], Awaitable[None]]) -> None:
    async def told() -> None:
        helper = HelperProcess()
        try:
            await story(helper)
        finally:
            helper.close()

    asyncio.run(told())


def inside_of(first: int, *command: str) -> str:
    """What a command writes that succeeds inside a task."""
    found: list[tuple[int, str]] = []

    async def story(helper: HelperProcess) -> None:
        found.append(await run(helper, first, *command))

    with_helper(story)
    assert found[0][0] == 0, found
    return found[0][1]


def test_environment_directory_and_limits_are_those_of_the_task(tmp_path: Path) -> None:
    with task(
        "sh", "-c", "ulimit -n 77; ulimit -c 0; umask 027; echo here; sleep 1000", says=True, cwd=tmp_path
    ) as process:
        said = inside_of(process.pid, "sh", "-c", "echo $WORD; pwd; ulimit -n; umask; echo ${CRESS_TOKEN-none}")
    assert said.split() == ["right", str(tmp_path), "77", "0027", "none"]


CODES = [("exit 7", 7), ("kill -9 $$", 137), ("kill -INT $$", 130), ("true", 0)]


def test_codes_are_those_of_shells() -> None:
    async def story(helper: HelperProcess) -> None:
        for script, code in CODES:
            assert (await run(helper, process.pid, "sh", "-c", script))[0] == code, script
        for command, code, why in (
            (["nosuch"], 127, "command not found in the task: nosuch"),
            (["/etc/passwd"], 126, "/etc/passwd cannot be started in the task: permission denied"),
        ):
            with pytest.raises(ExecError, match=why) as refused:
                await run(helper, process.pid, *command)
            assert refused.value.code == code

    with task() as process:
        with_helper(story)


def test_only_the_task_itself_is_entered() -> None:
    """The number of a process that is gone may be another's by now."""

    async def story(helper: HelperProcess) -> None:
        for first, attempt in ((os.getpid(), 5), (process.pid, 6)):
            with pytest.raises(ExecError, match="cannot be found on its node"):
                await run(helper, first, "true", attempt=attempt)
        process.kill()
        process.wait()
        with pytest.raises(ExecError, match="the task"):
            await run(helper, process.pid, "true")

    with task() as process:
        with_helper(story)


def running(word: str) -> bool:
    """Whether a process has this word among its arguments."""
    return subprocess.run(["pgrep", "-f", f"^sleep {word}$"], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("ends", ["exit 0", "kill -9 $$"])
def test_what_a_command_leaves_behind_is_killed(ends: str) -> None:
    word = f"1000.{os.getpid()}"

    async def story(helper: HelperProcess) -> None:
        await run(helper, process.pid, "sh", "-c", f"sleep {word} >&- 2>&- & setsid sleep {word} >&- 2>&- & {ends}")
        deadline = asyncio.get_running_loop().time() + 60
        while running(word):
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.02)

    with task() as process:
        with_helper(story)


@pytest.mark.parametrize("own_pids", [False, pytest.param(True, marks=ROOT)], ids=["in the node's pids", "in own pids"])
def test_every_kind_of_hog_is_gone_after_its_command_while_others_go_on(*, own_pids: bool) -> None:
    word = f"7{os.getpid()}"
    commands = hogs(word, root=os.geteuid() == 0)

    async def story(helper: HelperProcess) -> None:
        stays = await helper.enter(
            first, 5, ["sh", "-c", f"env -i setsid sleep 6{word} & exec sleep 1000"], terminal=(1, 1)
        )
        await _until(lambda: bool(with_word(f"6{word}")))
        await run(helper, first, "sh", "-c", "exec >&- 2>&-\n" + "\n".join(commands) + "\nsleep 0.5")
        await _until(lambda: not any(map(with_word, commands.values())))
        assert with_word(f"6{word}")
        helper.kill(stays)
        await stays.over
        os.close(stays.terminal)
        await _until(lambda: not with_word(word))

    apart = ("unshare", "-f", "-p", "-m", "--mount-proc", "sh", "-c", "echo here; exec sleep 1000")
    with task(*apart, says=True) if own_pids else task() as process:
        first = process.pid
        if own_pids:
            (first,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
        try:
            with_helper(story)
        finally:
            os.kill(first, 9)
            for path in Path("/tmp").glob(f"cress-chain-{word}*"):
                path.unlink()


async def _until(condition: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 60
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("how", ["agent", "helper"])
def test_nothing_is_left_when_somebody_is_killed(how: str) -> None:
    word = f"2000.{os.getpid()}"
    program = f"""
import asyncio, os, sys
from cress.executor.exec.helper_process import HelperProcess
async def main():
    helper = HelperProcess()
    session = await helper.enter(int(sys.argv[1]), 5, ["sh", "-c", "sleep {word} & setsid sleep {word} & sleep {word}"], terminal=(1, 1))
    print(helper._process.pid, flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""  # noqa: E501
    with (
        task() as process,
        subprocess.Popen([sys.executable, "-c", program, str(process.pid)], stdout=subprocess.PIPE, text=True) as agent,
    ):
        assert agent.stdout is not None
        helper = int(agent.stdout.readline())
        until(lambda: running(word), "the command")
        os.kill(agent.pid if how == "agent" else helper, 9)
        if how == "agent":
            until(lambda: not running(word), "the end of what it left")
            until(lambda: not Path(f"/proc/{helper}").exists(), "the end of the helper")
        else:
            # The kernel kills its children; what these have started the agent finds.
            until(lambda: not running(word), "the end of what it left")
        agent.kill()


def test_a_helper_that_was_killed_is_replaced() -> None:
    async def story(helper: HelperProcess) -> None:
        reading, writing = os.pipe()
        session = await helper.enter(process.pid, 5, ["sleep", "1000"], streams=(reading, writing, writing))
        os.close(reading)
        os.close(writing)
        assert helper._process is not None
        helper._process.kill()
        with pytest.raises(ExecError, match="exec helper is gone"):
            await session.over
        assert (await run(helper, process.pid, "echo", "again")) == (0, "again")

    with task() as process:
        with_helper(story)


def test_many_at_once() -> None:
    async def story(helper: HelperProcess) -> None:
        found = await asyncio.gather(*(run(helper, process.pid, "sh", "-c", f"echo {n}; exit {n}") for n in range(50)))
        assert found == [(n, str(n)) for n in range(50)]

    with task() as process:
        with_helper(story)


def test_a_terminal_is_the_commands_own() -> None:
    async def story(helper: HelperProcess) -> None:
        script = "tty > /dev/null && stty size; ps -o tty= -p $$ | grep -q pts && echo mine"
        session = await helper.enter(process.pid, 5, ["sh", "-c", script], terminal=(33, 44))
        assert await session.over == 0
        said = b""
        with contextlib.suppress(OSError):  # nobody has the other end any more
            while True:
                said += os.read(session.terminal, 1000)
        os.close(session.terminal)
        assert said.split() == [b"33", b"44", b"mine"]

    with task() as process:
        with_helper(story)


@ROOT
def test_the_account_is_the_tasks() -> None:
    with task(
        "setpriv", "--reuid=65534", "--regid=65534", "--groups=1234", "sh", "-c", "echo here; sleep 1000", says=True
    ) as process:
        said = inside_of(process.pid, "sh", "-c", "id -u; id -g; id -G; touch /root/x 2>/dev/null || echo no")
    assert said.split() == ["65534", "65534", "65534", "1234", "no"]


@ROOT
def test_nobody_becomes_root_by_entering_a_task_that_runs_a_program_of_root(tmp_path: Path) -> None:
    """Such as su, which is root while it asks for a password, and whose first process or any child may be."""
    (tmp_path / "5").mkdir()
    os.chown(tmp_path / "5", 65534, 1234)

    async def story(helper: HelperProcess) -> None:
        for first, code in ((process.pid, 0), (other.pid, 125)):
            if code:
                with pytest.raises(ExecError, match="as another account than the task's"):
                    await run(helper, first, "true")
            else:
                assert await run(helper, first, "id", "-u") == (0, "65534")
                assert await run(helper, first, "id", "-g") == (0, "1234")

    async def told() -> None:
        helper = HelperProcess(str(tmp_path))
        try:
            await story(helper)
        finally:
            helper.close()

    own = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", "echo here; sleep 1000")
    with task(*own, says=True) as process, task("setpriv", "--ruid=65534", "sleep", "1000") as other:
        asyncio.run(told())


@ROOT
def test_the_capabilities_are_not_more_than_the_tasks() -> None:
    drop = "--bounding-set=-all,+chown", "--no-new-privs"
    with task("setpriv", *drop, "sh", "-c", "echo here; sleep 1000", says=True) as process:
        said = inside_of(process.pid, "grep", "-E", "CapEff|CapBnd|NoNewPrivs", "/proc/self/status")
    assert said.split() == ["CapEff:", "0000000000000001", "CapBnd:", "0000000000000001", "NoNewPrivs:", "1"]


@ROOT
def test_namespaces_and_root_are_the_tasks(tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare (util-linux): nothing was shown of namespaces")
    (tmp_path / "own").mkdir()
    script = (
        f"mount -t tmpfs own {tmp_path}/own; mount -t proc proc /proc; touch {tmp_path}/own/file; hostname inside; "
        f"cd {tmp_path}/own; echo here; exec sleep 1000"
    )
    with task("unshare", "-f", "-p", "-m", "-u", "-i", "sh", "-c", script, says=True) as process:
        # What an engine does: the first process waits outside for the one inside.
        (first,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
        said = inside_of(first, "sh", "-c", "hostname; ls; pwd; ps -o comm= -p 1; ls /proc | grep -c '^[0-9]'")
        host, file, directory, comm, count = said.split()
        assert (host, file, directory, comm) == ("inside", "file", f"{tmp_path}/own", "sleep")
        assert int(count) < 8
        os.kill(first, 9)
    assert not (tmp_path / "own" / "file").exists()


@ROOT
def test_a_command_in_a_task_with_own_pids_can_be_killed_and_has_a_code() -> None:
    word = f"3000.{os.getpid()}"

    async def story(helper: HelperProcess) -> None:
        assert (await run(helper, first, "sh", "-c", "exit 9"))[0] == 9
        assert (await run(helper, first, "sh", "-c", "kill -TERM $$"))[0] == 143
        session = await helper.enter(first, 5, ["sh", "-c", f"tty; sleep {word} & sleep {word}"], terminal=(1, 1))
        deadline = asyncio.get_running_loop().time() + 60
        while not running(word):
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.02)
        helper.kill(session)
        assert await session.over == 137
        os.close(session.terminal)
        while running(word):
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.02)

    with task(
        "unshare", "-f", "-p", "-m", "--mount-proc", "sh", "-c", "echo here; exec sleep 1000", says=True
    ) as process:
        (first,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
        with_helper(story)
        os.kill(first, 9)


@ROOT
def test_the_control_groups_are_the_tasks() -> None:
    top = Path("/sys/fs/cgroup/pids") if Path("/sys/fs/cgroup/pids/tasks").exists() else Path("/sys/fs/cgroup")
    group = top / f"cress-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no control group can be made here: nothing was shown of them")
    try:
        with task() as process:
            (group / "cgroup.procs").write_text(str(process.pid))
            said = inside_of(process.pid, "cat", "/proc/self/cgroup")
            assert said.splitlines() == Path(f"/proc/{process.pid}/cgroup").read_text().splitlines()
            assert group.name in said
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), "an empty group")
        group.rmdir()


def test_where_programs_are_looked_for_is_the_tasks_search_path() -> None:
    assert candidates(b"x", {b"PATH": b"/a::/b"}) == [b"/a/x", b"x", b"/b/x"]
    assert candidates(b"./x", {}) == [b"./x"]


def test_all_limits_are_taken_over() -> None:
    with task() as process:
        limits = dict(confinement.prepare(process.pid, 5).limits)
        assert limits[resource.RLIMIT_NOFILE] == resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        assert len(limits) == 15
