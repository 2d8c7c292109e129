"""Start material on a node: it reaches the task in every runtime, and nobody and nothing else; it goes with the
attempt.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cress.executor import processes
from cress.executor.account_rules import write_rules
from cress.executor.runtimes.accounts import AccountRules
from cress.executor.secret_files import PREFIX, SecretFiles
from cress.model.reports import Cause
from cress.model.run import File, Run, SecretUse
from cress.model.start_material import StartMaterial
from cress.protocol.messages import PROTOCOL, AskMaterial, Greeting, Material
from cress.shell.executor.node_devices import key_of
from cress.shell.executor.starting import StartError
from tests.executor.harness import Client, SupervisorProcess, shell, supervisor, until
from tests.executor.real_accounts import accounts, needs_accounts, open_home

__all__ = ["accounts", "open_home"]

VALUE = b"hunter2-\xc3\xa9-of-ann"
USES = (SecretUse(name="PASSWORD", secret="db"), SecretUse(name="db.pem", secret="db", file=True))
MATERIAL = StartMaterial(environment={"PASSWORD": VALUE}, files={"db.pem": VALUE + b"\n"})
# Shows that both have come, and waits.
SHOWS = 'stat -c "%a %U" $CRESS_SECRETS/db.pem; cat $CRESS_SECRETS/db.pem; echo "$PASSWORD"; exec sleep 1000'


@pytest.fixture
def client(parent: SupervisorProcess) -> Client:
    client = parent.start()
    client.send(Greeting(protocol=PROTOCOL))
    return client


def asked(client: Client) -> AskMaterial:
    message = client.receive()
    assert isinstance(message, AskMaterial), message
    return message


def supply(client: Client, attempt: int, **more: Any) -> None:
    assert asked(client).attempts == (attempt,)
    client.send(Material(epoch=1, attempt=attempt, **({"material": MATERIAL} | more)))


def folder_of(parent: SupervisorProcess, attempt: int) -> Path | None:
    key = key_of("node1", str(parent.directory.absolute()))
    found = [Path(place, f"{PREFIX}{key}", str(attempt)) for place in ("/run", "/dev/shm", f"/run/user/{os.geteuid()}")]
    return next((each for each in found if each.exists()), None)


def runs_of(user: str, runtimes: list[str], **more: Any) -> Iterator[Run]:
    """A run in each runtime, alone and with a stage before it."""
    job = 0
    for runtime in runtimes:
        for files in ((), (File(source="/etc/hostname", path="name"),)):
            job += 1
            yield shell(SHOWS, job=job, user=user, runtime=runtime, files=files, secrets=USES, **more)


def three_lines(parent: SupervisorProcess, attempt: int) -> list[str]:
    """What a task that runs ``SHOWS`` has written."""
    until(lambda: parent.output(attempt).count("\n") == 3, "the output")
    return parent.output(attempt).splitlines()


def files_with(value: bytes, folder: Path) -> list[str]:
    found = subprocess.run(["grep", "-rlaF", "--", value, str(folder)], capture_output=True, check=False)
    return found.stdout.decode().splitlines()


def processes_with(value: bytes) -> set[int]:
    """The processes that have the value in their command line or environment."""
    found = set()
    for pid in (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()):
        for name in ("cmdline", "environ"):
            try:
                if value in Path(f"/proc/{pid}/{name}").read_bytes():
                    found.add(pid)
            except OSError:
                pass
    return found


def test_it_reaches_the_task_in_every_runtime_and_nothing_else(client: Client, parent: SupervisorProcess) -> None:
    runtimes = ["process", "container"] if client.inventory.container else ["process"]
    me = pwd.getpwuid(os.geteuid()).pw_name
    for run in runs_of("", runtimes):
        attempt = run.job
        client.launch(run, attempt)
        supply(client, attempt)
        client.wait_started(attempt)
        value = VALUE.decode()

        shown = three_lines(parent, attempt)
        assert shown == [f"400 {me}", value, value], run
        folder = folder_of(parent, attempt)
        assert folder is not None
        # It wrote the value to its own log.
        logs = {str(parent.directory / f"attempts/{number}/stdout") for number in range(1, attempt + 1)}
        assert set(files_with(VALUE, parent.directory)) <= logs
        sleepers = {
            pid
            for pid in processes_with(VALUE)
            if processes.attempt_of(pid, os.fsencode(parent.directory / "attempts")) == attempt
        }
        assert sleepers
        assert processes_with(VALUE) == sleepers
        client.stop(attempt, grace=0)
        client.wait_ended(attempt)
        assert not folder.exists()


def test_without_its_material_nothing_starts(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell("true", secrets=USES), 1)
    supply(client, 1, refused="there is no secret db any more")
    end = client.wait_ended(1)
    assert (end.cause, end.error, end.started) == (Cause.FILES, "there is no secret db any more", 0)
    client.launch(shell("true", secrets=USES), 2)
    asked(client)
    client.stop(2)
    assert client.wait_ended(2).cause is Cause.STOPPED
    client.send(Material(epoch=1, attempt=2, material=MATERIAL))
    client.sync()
    assert not (parent.directory / "attempts/2").exists()


def test_files_stay_while_the_task_lives_and_what_a_killed_supervisor_left_is_removed(
    client: Client, parent: SupervisorProcess
) -> None:
    for attempt in (1, 2):
        client.launch(shell(SHOWS, job=attempt, secrets=USES), attempt)
        supply(client, attempt)
        client.wait_started(attempt)
    folders = [folder_of(parent, 1), folder_of(parent, 2)]
    parent.kill()
    os.kill(client.started[2].pid, 9)
    again = parent.start()
    again.send(Greeting(protocol=PROTOCOL))
    assert again.wait_ended(2).cause is Cause.UNKNOWN
    first, second = folders
    assert first is not None
    assert second is not None
    assert first.exists()
    assert not second.exists()
    again.stop(1, grace=0)
    again.wait_ended(1)
    assert not first.exists()


def test_without_a_file_system_in_memory_no_file_is_written(tmp_path: Path) -> None:
    files = SecretFiles("node", (str(tmp_path),))
    with pytest.raises(StartError, match="is a file system in memory"):
        files.make(1, {"db.pem": VALUE}, None)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_account_has_put_there_is_not_used(tmp_path: Path) -> None:
    key = f"test-{os.getpid()}-{time.monotonic_ns()}"
    place = Path(f"/dev/shm/{PREFIX}{key}")
    place.symlink_to(tmp_path)
    try:
        with pytest.raises(StartError, match="belongs to another account"):
            SecretFiles(key, ("/dev/shm",)).make(1, {"db.pem": VALUE}, None)
    finally:
        place.unlink()
    assert list(tmp_path.iterdir()) == []


# --- two accounts ----------------------------------------------------------------------------------------------------

SPY = r"""
cat /proc/[0-9]*/environ 2>/dev/null
ls -R /run /dev/shm 2>/dev/null
for each; do cat "$each/db.pem" 2>/dev/null; ls "$each" 2>/dev/null; find "$each" -type f 2>/dev/null; done
"""


@needs_accounts
def test_another_account_finds_neither_files_nor_values(
    open_home: Path, accounts: tuple[pwd.struct_passwd, pwd.struct_passwd]
) -> None:
    first, second = accounts
    with supervisor(open_home / "e") as parent:
        client = parent.start()
        client.send(Greeting(protocol=PROTOCOL))
        write_rules(parent.directory, AccountRules())
        runtimes = ["process", "container"] if client.inventory.container else ["process"]
        found = []
        for run in runs_of(first.pw_name, runtimes):
            client.launch(run, run.job)
            supply(client, run.job)
            client.wait_started(run.job)
            shown = three_lines(parent, run.job)
            assert shown == [f"400 {first.pw_name}", VALUE.decode(), VALUE.decode()]
            found.append(str(folder_of(parent, run.job)))
        places = (*found, str(parent.directory / "attempts/1"), str(parent.directory))
        for spied, runtime in enumerate(runtimes, 100):
            command = ("/bin/sh", "-c", SPY, "spy", *places)
            client.run(Run(job=spied, user=second.pw_name, runtime=runtime, command=command), spied)
            assert VALUE.decode() not in parent.output(spied)
            assert "db.pem" not in parent.output(spied)
        # The spy knows the ways: it finds the files of its own account.
        client.run(Run(job=200, user=first.pw_name, command=("/bin/sh", "-c", SPY, "spy", *places)), 200)
        assert VALUE.decode() in parent.output(200)
