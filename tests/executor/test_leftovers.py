"""Nothing outlives its attempt: programs that try to, as root with control groups, as an ordinary account without."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor.processes import is_alive
from cress.model.reports import Cause
from tests.executor.harness import PATIENCE, SupervisorProcess, shell, shut_down, until

NOBODY = 65534

_TWICE = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256)
        os.execve('/bin/sleep', ['sleep', sys.argv[1]], {})
    os._exit(0)
os.wait()
"""
_DAEMON = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid(); os.chdir('/'); os.umask(0)
if os.fork():
    os._exit(0)
for fd in range(3):
    os.dup2(os.open('/dev/null', os.O_RDWR), fd)
os.execve('/bin/sleep', ['sleep', sys.argv[1]], {})
"""
# Every process lives for a moment, so there is never one for long that could be killed, or found by a test. All of them
# hold one lock.
_CHAIN = """
import fcntl, os, sys, time
fcntl.flock(os.open('/tmp/cress-chain-' + sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666), fcntl.LOCK_EX)
while True:
    if os.fork():
        os._exit(0)
    time.sleep(0.002)
"""

# TOKEN is the word by which a test finds the process.
HOGS = {
    "a double fork with closed files": f'{sys.executable} -c "{_TWICE}" TOKEN',
    "a session of its own": "setsid sleep TOKEN &",
    "a session of its own without an environment": "env -i setsid sleep TOKEN &",
    "nohup": "nohup sleep TOKEN >/dev/null 2>&1 &",
    "a daemon": f'{sys.executable} -c "{_DAEMON}" TOKEN',
    "one that ignores signals": "(trap '' TERM INT HUP; exec env -i setsid sleep TOKEN) &",
    "one that forks in a loop": f'env -i setsid {sys.executable} -I -S -c "{_CHAIN}" TOKEN &',
    "one that is stopped": "env -i setsid sleep TOKEN & sleep 0.1; kill -STOP $!",
    "a pid namespace": "env -i setsid unshare UNSHARE -fp sleep TOKEN &",
    "one that executes later": "env -i setsid sh -c 'sleep 0.4; exec sleep TOKEN' &",
    "an orphan of a shell": "sh -c 'env -i setsid sleep TOKEN <&- >&- 2>&- & exit 0'",
}


# The Python of the tests may be in a folder of root. The right to pass through it is the only one that is kept.
_AS_NOBODY = (
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    "--inh-caps=-all,+dac_read_search",
    "--ambient-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
)


class AccountSupervisor(SupervisorProcess):
    """A supervisor of another account than root."""

    before = _AS_NOBODY


@pytest.fixture(params=["as this account", "as an ordinary account"])
def any_parent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SupervisorProcess]:
    """A supervisor as root and as an ordinary account; a test without root has only the second."""
    if request.param == "as this account":
        parent = SupervisorProcess(tmp_path / "executor")
        yield parent
        parent.close()
        return
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("this account is ordinary already, or setpriv is not installed")
    home = Path(tempfile.mkdtemp(prefix="cr", dir="/tmp"))
    os.chown(home, NOBODY, NOBODY)
    parent = AccountSupervisor(home / "executor")
    try:
        yield parent
    finally:
        parent.close()
        shutil.rmtree(home, ignore_errors=True)


def hogs(token: str, *, root: bool) -> dict[str, str]:
    """The command of every hog, and a word for its process alone."""
    return {
        text.replace("TOKEN", f"{token}{number:02}").replace("UNSHARE", "" if root else "-Ur"): f"{token}{number:02}"
        for number, text in enumerate(HOGS.values())
    }


def with_word(word: str) -> set[int]:
    """The living processes that have this word in their command line; 0 stands for those that fork in a loop."""
    found = {0 for path in Path("/tmp").glob(f"cress-chain-{word}*") if _is_locked(path)}
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            with contextlib.suppress(OSError):
                if word.encode() in (place / "cmdline").read_bytes() and is_alive(int(place.name)):
                    found.add(int(place.name))
    return found


def _is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


@pytest.fixture
def token() -> Iterator[str]:
    """A word for the processes of one test."""
    yield (word := f"9{os.getpid()}")
    for path in Path("/tmp").glob(f"cress-chain-{word}*"):
        path.unlink()


def test_eleven_kinds_of_hogs_are_gone_when_the_end_of_their_task_is_told(
    any_parent: SupervisorProcess, token: str
) -> None:
    client = any_parent.start()
    root = os.geteuid() == 0 and not isinstance(any_parent, AccountSupervisor)
    # One of another job, which goes on: hogs of running tasks are left alone.
    client.launch(shell("env -i setsid sleep 8TOKEN & exec sleep 1000".replace("TOKEN", token), job=99), 99)
    other = until(lambda: with_word(f"8{token}"), "the other job's process")
    commands = hogs(token, root=root)
    for attempt, command in enumerate(commands, 1):
        client.launch(shell(f"{command}\nsleep 0.5; exit 3", job=attempt), attempt)
    for attempt, word in enumerate(commands.values(), 1):
        assert (client.wait_ended(attempt).cause, client.ended[attempt].code) == (Cause.EXITED, 3)
        assert with_word(word) == set(), list(HOGS)[attempt - 1]
    assert with_word(f"8{token}") == other
    client.stop(99, grace=0)
    client.wait_ended(99)
    assert with_word(token) == set()


def test_hogs_of_a_cancelled_task_are_gone_as_well(any_parent: SupervisorProcess, token: str) -> None:
    client = any_parent.start()
    root = os.geteuid() == 0 and not isinstance(any_parent, AccountSupervisor)
    commands = hogs(token, root=root)
    client.launch(shell("\n".join(commands) + "\nexec sleep 1000"), 1)
    for word in commands.values():
        until(lambda word=word: with_word(word), f"the process {word}")  # type: ignore[misc]
    client.stop(1, grace=0.2)
    assert client.wait_ended(1).cause is Cause.STOPPED
    assert with_word(token) == set()


def test_a_process_that_hides_every_sign_ends_with_the_last_task_that_may_have_started_it(
    any_parent: SupervisorProcess, token: str
) -> None:
    client = any_parent.start()
    become = f"os.execve('/usr/bin/setsid', ['setsid', '-f', 'sleep', '{token}'], {{}})"
    hides = f"import os, resource; resource.setrlimit(10, (99, 99)); {become}"
    client.launch(shell("exec sleep 1000", job=2), 2)
    client.wait_started(2)
    client.launch(shell(f'{sys.executable} -c "{hides}"; sleep 0.3', job=1), 1)
    client.wait_ended(1)
    hidden = with_word(token)
    client.stop(2, grace=0)
    client.wait_ended(2)
    until(lambda: not with_word(token), "its end")
    if isinstance(any_parent, AccountSupervisor):
        # Only control groups know whose it is while both tasks run.
        assert hidden
        assert "hides its attempt" in any_parent.said()
    else:
        assert not hidden or os.geteuid()


def test_a_supervisor_that_ends_leaves_nothing(any_parent: SupervisorProcess, token: str) -> None:
    client = any_parent.start()
    client.launch(shell("\n".join(hogs(token, root=False)) + "\nexec sleep 1000"), 1)
    client.wait_started(1)
    until(lambda: len(with_word(token)) > 5, "some of them")
    shut_down(client, grace=0.2)
    assert any_parent.process is not None
    any_parent.process.communicate(timeout=PATIENCE)
    assert with_word(token) == set()
