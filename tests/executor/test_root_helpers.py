"""What a job or a program chooses for itself never reaches the processes of root that work for it."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor.exec.helper_process import ExecError, HelperProcess
from cress.executor.runtimes.enter import keep_out
from cress.model.run import File, Run
from tests.executor.harness import Client, SupervisorProcess, supervisor, until
from tests.executor.real_accounts import accounts, needs_accounts, open_home
from tests.executor.test_exec_helper import run as enter

__all__ = ["accounts", "open_home"]
pytestmark = needs_accounts

# Each leaves a file with the uid of the process that has loaded it.
LIBRARY = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void mark(void) {
    char name[200];
    snprintf(name, sizeof name, "%%s/%s-%%d", "%s", (int) geteuid());
    close(open(name, O_CREAT | O_WRONLY, 0666));
}
"""
MODULE = "import os; open(f'{marks}/python-{{os.geteuid()}}', 'w')\n"
PROGRAM = "#!/bin/sh -p\n: > {marks}/program-$(/usr/bin/id -u)\nexec /usr/bin/env -i /bin/true\n"
PROGRAMS = ("sh", "python3", "crun", "runc", "bwrap", "tc", "env", "id", "mount")
# Modules that Python would import late, if it could, and the libraries by which accounts are looked up.
LATE = ("encodings/idna.py", "warnings.py", "traceback.py", "pty.py", "grp.py", "shutil.py")


class Traps:
    """Folders with libraries, modules and programs that tell by whom they were loaded."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.marks = home / "marks"
        for each in (home, self.marks):
            each.mkdir()
            each.chmod(0o777)
        for name in ("modules", "programs", "libraries"):
            (home / name).mkdir()
        (home / "modules/sitecustomize.py").write_text(MODULE.format(marks=self.marks))
        for name in PROGRAMS:
            (home / "programs" / name).write_text(PROGRAM.format(marks=self.marks))
            (home / "programs" / name).chmod(0o755)
        self.compiles = shutil.which("cc") is not None
        if self.compiles:
            command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(home / "libraries/trap.so")]
            subprocess.run(command, input=LIBRARY % ("library", self.marks), text=True, check=True)

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Return the environment of a hostile job."""
        found = {
            "CRESS_TRAP": "1",
            "PATH": f"{self.home}/programs:/usr/bin:/bin",
            "PYTHONPATH": f"{self.home}/modules",
            "PYTHONSTARTUP": f"{self.home}/modules/sitecustomize.py",
            "LC_ALL": "xx_XX.none",
            "LOCPATH": str(self.home),
            "TMPDIR": str(self.home),
        }
        if self.compiles:
            found |= {"LD_PRELOAD": f"{self.home}/libraries/trap.so", "LD_LIBRARY_PATH": f"{self.home}/libraries"}
        return tuple(found.items())

    def loaded(self) -> dict[str, set[int]]:
        """Return the uids that have loaded something, by the kind of the trap."""
        found: dict[str, set[int]] = {}
        for each in self.marks.iterdir():
            kind, _, uid = each.name.rpartition("-")
            found.setdefault(kind, set()).add(int(uid))
        return found


@pytest.fixture
def traps(open_home: Path) -> Iterator[Traps]:
    yield Traps(open_home / "traps")
    shutil.rmtree(open_home / "traps")


@pytest.fixture
def parent(open_home: Path, traps: Traps) -> Iterator[SupervisorProcess]:
    home = Path(tempfile.mkdtemp(dir=open_home))
    home.chmod(0o711)
    with supervisor(home / "e", options=("--writable", str(traps.home))) as process:
        yield process


@pytest.fixture
def client(parent: SupervisorProcess) -> Client:
    return parent.start()


def trapped() -> set[int]:
    """Return the uids of the processes that have the environment of the job."""
    found = set()
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if b"CRESS_TRAP=1" in (each / "environ").read_bytes().split(b"\0"):
                found.add(each.stat().st_uid)
        except OSError:
            continue
    return found


def test_a_hostile_environment_reaches_no_process_of_root(
    client: Client, parent: SupervisorProcess, traps: Traps, accounts: tuple[pwd.struct_passwd, ...]
) -> None:
    ann = accounts[0]
    shared = traps.home / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    files = (File(source="/etc/hostname", path="x"),)
    outputs = (File(path="x", source=f"{shared}/x"),)
    text = (
        "python3 -c pass; /usr/bin/python3 -c 'import math'; crun; tc; touch up; while test ! -e over; do sleep "
        "0.05; done"
    )
    kinds = [("process", False), ("process", True)]
    if client.inventory.container:
        kinds += [("container", True)]
    for attempt, (runtime, staged) in enumerate(kinds, 1):
        run = Run(
            job=attempt,
            command=("/bin/sh", "-c", text),
            user=ann.pw_name,
            runtime=runtime,
            environment=traps.environment,
            files=files if staged else (),
            outputs=outputs if staged else (),
            log_copy=f"{shared}/logs" if staged else "",
        )
        client.launch(run, attempt)
        pid = client.wait_started(attempt).pid
        work = parent.directory / f"attempts/{attempt}/work"
        until(lambda work=work: (work / "up").exists(), "the program")  # type: ignore[misc]

        async def exec_in(pid: int = pid, attempt: int = attempt) -> None:
            helper = HelperProcess(str(parent.directory / "attempts"))
            try:
                assert await enter(helper, pid, "sh", "-c", "true", attempt=attempt) == (0, "")
                session = await helper.enter(pid, attempt, ["/bin/sh", "-c", "exit 7"], terminal=(9, 9))
                assert await session.over == 7
                os.close(session.terminal)
                assert trapped() == {ann.pw_uid}
            finally:
                helper.close()

        asyncio.run(exec_in())
        (work / "over").touch()
        end = client.wait_ended(attempt)
        assert (end.code, end.error) == (0, "")
        if staged:
            assert (shared / "x").exists()
            (shared / "x").unlink()
            until(lambda attempt=attempt: (shared / f"logs/{attempt}").exists(), "the copy of the log")  # type: ignore[misc]
    loaded = traps.loaded()
    kinds_of_trap = {"python", "program", "library"} if traps.compiles else {"python", "program"}
    assert loaded.keys() >= kinds_of_trap, "the traps work"
    assert set().union(*loaded.values()) == {ann.pw_uid}


def test_limits_and_umask_of_a_program_are_not_those_of_the_helper(
    client: Client, parent: SupervisorProcess, accounts: tuple[pwd.struct_passwd, ...]
) -> None:
    text = "umask 0; ulimit -n 40; ulimit -c 0; ulimit -f 10; ulimit -v 4000000; touch up; exec sleep 1000"
    client.launch(Run(job=1, command=("/bin/sh", "-c", text), user=accounts[0].pw_name), 1)
    pid = client.wait_started(1).pid
    until((parent.directory / "attempts/1/work/up").exists, "the program")

    def facts(number: int) -> tuple[str, str]:
        status = Path(f"/proc/{number}/status").read_text().splitlines()
        return Path(f"/proc/{number}/limits").read_text(), next(each for each in status if each.startswith("Umask"))

    async def story() -> None:
        helper = HelperProcess(str(parent.directory / "attempts"))
        try:
            assert (await enter(helper, pid, "/bin/true", attempt=1))[0] == 0
            assert helper._process is not None
            before = facts(helper._process.pid)
            assert (await enter(helper, pid, "/bin/sh", "-c", "umask; ulimit -n", attempt=1)) == (0, "0000\n40")
            assert facts(helper._process.pid) == before
            assert "Max open files            40 " not in before[0]
        finally:
            helper.close()

    assert parent.process is not None
    supervisor_facts = facts(parent.process.pid)
    asyncio.run(story())
    assert facts(parent.process.pid) == supervisor_facts


def test_a_root_folder_of_a_job_has_no_code_for_root(
    client: Client, parent: SupervisorProcess, traps: Traps, accounts: tuple[pwd.struct_passwd, ...]
) -> None:
    """Python imports late, and C libraries open others late: where that is after entering the folder, it is the job's
    code.
    """
    if not client.inventory.container:
        pytest.skip("no containers on this machine: root folders of tasks were not tried")
    root = traps.home / "image"
    for name in ("bin", "lib64", "lib", "etc", "usr/bin", "tmp", str(traps.home).lstrip("/")):
        (root / name).mkdir(parents=True, exist_ok=True)
    for program in ("/bin/sh", "/usr/bin/id"):
        shutil.copy(program, root / program[1:])
        for each in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.split():
            if each.startswith("/"):
                (root / each[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(each, root / each[1:])
    (root / "etc/passwd").write_text("")
    (root / "etc/nsswitch.conf").write_text("passwd: trap\ngroup: trap\n")
    if traps.compiles:
        shutil.copy(traps.home / "libraries/trap.so", root / "lib/x86_64-linux-gnu/libnss_trap.so.2")
    library = Path(os.__file__).parent
    for name in LATE:
        (root / str(library)[1:] / name).parent.mkdir(parents=True, exist_ok=True)
        (root / str(library)[1:] / name).write_text(MODULE.format(marks=traps.marks))
    run = Run(
        job=1,
        command=("/bin/sh", "-c", "id; read forever < /dev/tty; while :; do id > /dev/null; done"),
        user=accounts[0].pw_name,
        runtime="container",
        root=str(root),
        environment=(("PATH", "/bin:/usr/bin"),),
    )
    client.launch(run, 1)
    pid = client.wait_started(1).pid

    async def story() -> None:
        helper = HelperProcess(str(parent.directory / "attempts"))
        try:
            for command in (["/bin/sh", "-c", "exit 7"], ["nosuch"]):
                session, wrong = None, ""
                try:
                    session = await helper.enter(pid, 1, command, terminal=(9, 9))
                except ExecError as error:
                    wrong = str(error)
                if session is None:
                    assert "command not found" in wrong
                else:
                    assert await session.over == 7
                    os.close(session.terminal)
        finally:
            helper.close()

    asyncio.run(story())
    client.stop(1, grace=0.1)
    client.wait_ended(1)
    assert 0 not in set().union(*traps.loaded().values())


def test_what_enters_a_task_loads_no_code_from_files() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        before = "antigravity" in sys.modules
        keep_out()
        try:
            import antigravity  # noqa: F401
        except ImportError as error:
            os.write(writing, f"{before} {error}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1000) == b"False No module named 'antigravity'"
    os.close(reading)
    os.close(writing)
