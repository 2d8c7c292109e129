"""Tasks of two accounts on one node: neither sees what the other has, whatever the runtime."""

from __future__ import annotations

import errno
import json
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor.account_rules import write_rules
from cress.executor.runtimes import linux
from cress.executor.runtimes.accounts import AccountRules
from cress.model.reports import Cause
from cress.model.run import File, Run
from tests.executor.harness import Client, SupervisorProcess, supervisor, until
from tests.executor.real_accounts import accounts, needs_accounts, open_home

__all__ = ["accounts", "open_home"]
pytestmark = needs_accounts

PYTHON = "/usr/bin/python3"
SECRET = "hunter2-of-ann"
# Has its secret in its command line, environment, files, output and memory, and listens on a socket in its directory.
VICTIM = f"""
import os, socket, sys, time
os.umask(0)
open("file", "w").write("{SECRET}")
listener = socket.socket(socket.AF_UNIX)
listener.bind("socket")
listener.listen()
print("{SECRET}", flush=True)
time.sleep(1000)
"""
# Tries to find all that, and prints the ways that worked. Arguments: the executor's directory, the attempt and the
# victim's pid.
SPY = f"""
import json, os, socket, stat, subprocess, sys
home, attempt, pid = sys.argv[1:]
folder = f"{{home}}/attempts/{{attempt}}"
secret, found = b"{SECRET}", set()

def reads(way, path):
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return  # a pipe of some other program
        with open(path, "rb") as file:
            if secret in file.read(1 << 20):
                found.add(way)
    except OSError:
        pass

def works(way, act):
    try:
        act()
        found.add(way)
    except OSError:
        pass

def connects(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)

for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        reads("command line", f"/proc/{{name}}/cmdline")
        reads("environment", f"/proc/{{name}}/environ")
        reads("descriptors", f"/proc/{{name}}/fd/1")
        reads("directory", f"/proc/{{name}}/cwd/file")
        reads("root", f"/proc/{{name}}/root{{folder}}/work/file")
works("process", lambda: os.stat(f"/proc/{{pid}}"))
works("memory", lambda: open(f"/proc/{{pid}}/mem", "rb"))
works("signal", lambda: os.kill(int(pid), 0))
works("list of attempts", lambda: os.stat("/" if attempt in os.listdir(f"{{home}}/attempts") else "no such file"))
works("folder", lambda: os.listdir(folder))
works("socket", lambda: connects(f"{{folder}}/work/socket"))
if os.access(f"{{home}}/supervisor.sock", os.W_OK):
    found.add("supervisor")  # a connection would replace the one of the test
reads("file", f"{{folder}}/work/file")
reads("log", f"{{folder}}/stdout")
for name in ("journal", "supervisor.log", "accounts.json", "copies", "containers", "agent.lock", "orders"):
    works(name, lambda name=name: os.listdir(f"{{home}}/{{name}}") if os.path.isdir(f"{{home}}/{{name}}") else open(f"{{home}}/{{name}}"))
# Below the /proc of the task is that of the node.
uncover = "umount /proc || mount --move /proc /mnt; cat /proc/[0-9]*/cmdline"
try:
    if secret in subprocess.run(["unshare", "-Urm", "sh", "-c", uncover], capture_output=True).stdout:
        found.add("below /proc")
except OSError:
    pass
print(json.dumps(sorted(found)))
"""  # noqa: E501
# The ways that work for root, and which the test would notice.
WAYS = {
    *(
        "command line",
        "environment",
        "descriptors",
        "directory",
        "root",
        "process",
        "memory",
        "signal",
        "list of attempts",
    ),
    *("folder", "socket", "supervisor", "file", "log", "journal", "accounts.json", "copies"),
}


@pytest.fixture(scope="module")
def parent(open_home: Path) -> Iterator[SupervisorProcess]:
    # As after a login: tasks would inherit it.
    linux.new_session_keyring()
    with supervisor(open_home / "e") as process:
        yield process


@pytest.fixture(scope="module")
def client(parent: SupervisorProcess) -> Client:
    client = parent.start()
    write_rules(parent.directory, AccountRules())
    return client


def runtimes(client: Client) -> list[str]:
    return ["process", "container"] if client.inventory.container else ["process"]


@pytest.fixture(scope="module")
def victims(client: Client, parent: SupervisorProcess, accounts: tuple[pwd.struct_passwd, ...]) -> dict[int, int]:
    """The pids of the first account's tasks, one in each runtime, by their attempts."""
    found = {}
    for attempt, runtime in enumerate(runtimes(client), 1):
        run = Run(
            job=attempt,
            user=accounts[0].pw_name,
            runtime=runtime,
            command=(PYTHON, "-c", VICTIM, SECRET),
            environment=(("TOKEN", SECRET),),
        )
        client.launch(run, attempt)
        found[attempt] = client.wait_started(attempt).pid
        until(lambda attempt=attempt: SECRET in parent.output(attempt), "the victim")  # type: ignore[misc]
    return found


def spy(client: Client, parent: SupervisorProcess, attempt: int, user: str, runtime: str, *target: int) -> set[str]:
    """Return the ways to the target's secrets that work for a task of the user."""
    command = (PYTHON, "-c", SPY, str(parent.directory), *map(str, target))
    run = Run(job=attempt, user=user, runtime=runtime, command=command)
    end = client.run(run, attempt)
    assert end.code == 0, (end, parent.output(attempt, "stderr"))
    return set(json.loads(parent.output(attempt)))


def test_a_task_of_another_account_sees_nothing(
    client: Client, parent: SupervisorProcess, accounts: tuple[pwd.struct_passwd, ...], victims: dict[int, int]
) -> None:
    attempt = 100
    for runtime in runtimes(client):
        for target in victims.items():
            attempt += 1
            assert spy(client, parent, attempt, accounts[1].pw_name, runtime, *target) == set(), (runtime, target)


def test_nor_do_the_files_that_it_names_or_leaves(
    client: Client, parent: SupervisorProcess, accounts: tuple[pwd.struct_passwd, ...], victims: dict[int, int]
) -> None:
    attempt = 150
    for runtime in runtimes(client):
        for target in victims.values():
            for name, user in (("other", accounts[1].pw_name), ("own", accounts[0].pw_name)):
                attempt += 1
                file = File(source=f"/proc/{target}/cmdline", path="taken")
                run = Run(job=attempt, user=user, runtime=runtime, command=("/bin/true",), files=(file,))
                end = client.run(run, attempt)
                taken = parent.directory / f"attempts/{attempt}/work/taken"
                if name == "other":
                    assert (end.cause, taken.exists()) == (Cause.FILES, False), (runtime, end)
                elif (runtime, target) == ("process", next(iter(victims.values()))):
                    assert SECRET in taken.read_text(), end  # what the other would have had


# Adds a key to the keyring of its session and prints its number, or prints what it reads of the key with that number.
KEYS = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
add, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
if len(sys.argv) == 1:
    print(libc.syscall(add, b"user", b"cress-test", b"hunter2", 7, -3), flush=True)
    time.sleep(1000)
text = ctypes.create_string_buffer(7)
print(text.raw if libc.syscall(keyctl, 11, int(sys.argv[1]), text, 7, 0) == 7 else ctypes.get_errno(), flush=True)
"""


def test_a_task_has_no_keys_of_another_account(
    client: Client, parent: SupervisorProcess, accounts: tuple[pwd.struct_passwd, ...]
) -> None:
    first, second = (each.pw_name for each in accounts)
    client.launch(Run(job=300, user=first, command=(PYTHON, "-c", KEYS)), 300)
    client.wait_started(300)
    key = until(lambda: parent.output(300).strip(), "the key")
    if int(key) < 0:
        pytest.skip("this kernel has no keys: nothing was shown of them")
    for attempt, user in ((301, second), (302, "root")):
        client.run(Run(job=attempt, user=user, command=(PYTHON, "-c", KEYS, key)), attempt)
        assert parent.output(attempt) == f"{errno.EACCES}\n"
    client.stop(300, grace=0.1)


def test_the_spy_knows_the_ways(client: Client, parent: SupervisorProcess, victims: dict[int, int]) -> None:
    (attempt, pid) = next(iter(victims.items()))
    assert spy(client, parent, 200, "root", "process", attempt, pid) >= WAYS


def test_a_task_sees_the_processes_of_its_own_account(
    client: Client, parent: SupervisorProcess, accounts: tuple[pwd.struct_passwd, ...], victims: dict[int, int]
) -> None:
    (attempt, pid) = next(iter(victims.items()))
    found = spy(client, parent, 201, accounts[0].pw_name, "process", attempt, pid)
    assert {"command line", "process", "file", "log", "socket"} <= found
    assert found.isdisjoint({"journal", "supervisor", "copies", "list of attempts", "accounts.json"})
