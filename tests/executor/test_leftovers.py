"""Nothing outlives its attempt: programs that try to, as root with control groups, as an ordinary account without."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.model.reports import Cause
from tests.executor.harness import PATIENCE, SupervisorProcess, shell, shut_down, until
from tests.executor.hogs import HOGS, hogs, sleeping, with_word

NOBODY = 65534

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
    client.greet()
    root = os.geteuid() == 0 and not isinstance(any_parent, AccountSupervisor)
    # One of another job, which goes on: hogs of running tasks are left alone.
    client.launch(shell("env -i setsid sleep 8TOKEN & exec sleep 1000".replace("TOKEN", token), job=99), 99)
    other = until(lambda: sleeping(f"8{token}"), "the other job's process")
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
    # The node's list of strangers is empty: each of them was known to be its task's.
    assert client.strangers == []


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
    client.greet()
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
        client.sync()
        first, *_, last = client.strangers
        (stranger,) = first.processes
        assert {stranger.pid} == hidden
        assert (stranger.command, stranger.what) == (
            "sleep",
            "one of these attempts has started it, and it ends with the last of them: 2, 1",
        )
        assert last.processes == (), "it is none any more"
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
