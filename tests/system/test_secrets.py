"""Secrets through everything: from the command line into a task, and nowhere else; over kill -9 of center and
executor.
"""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.client import calls
from tests.system.cluster import Cluster, wait_until

pytestmark = pytest.mark.long

VALUE = "hunter2-that-nobody-else-sees"
DIGEST = hashlib.sha256(VALUE.encode()).hexdigest()
# Shows that both have come without showing the value.
SHOWS = (
    'printf %s "$PASSWORD" | sha256sum; printf %s "$(cat "$CRESS_SECRETS/db.pem")" | sha256sum; stat -c %a '
    '"$CRESS_SECRETS/db.pem"'
)
SECRETS = {"PASSWORD": "db", "db.pem": {"secret": "db", "as": "file"}}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    cluster.environment["CRESS_SECRETS_KEY"] = str(cluster.folder / "keys" / "secrets.key")
    try:
        cluster.start_center()
        cluster.start_executor()
        yield cluster
    finally:
        cluster.stop()


def holding(folder: Path) -> list[str]:
    """The files below a folder that have the value, plainly or in base64."""
    forms = (VALUE, base64.b64encode(VALUE.encode()).decode()[:-4], VALUE.encode().hex())
    command = ["grep", "-rlaF", *(part for form in forms for part in ("-e", form)), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def processes_with_it() -> list[str]:
    """The command lines of processes that have the value in their command line or environment."""
    found = []
    for pid in (each for each in Path("/proc").iterdir() if each.name.isdigit()):
        try:
            shown = (pid / "cmdline").read_bytes(), (pid / "environ").read_bytes()
        except OSError:
            continue
        if VALUE.encode() in b"\0".join(shown):
            found.append(shown[0].replace(b"\0", b" ").decode().strip())
    return found


def test_a_value_reaches_the_task_and_nothing_else(cluster: Cluster) -> None:
    refused = cluster.cress("secret", "set", "db", VALUE)
    assert refused.returncode == 2
    assert VALUE not in refused.stderr
    assert "a value on the command line can be read by all users" in refused.stderr
    made = cluster.cress("secret", "set", "db", stdin=VALUE + "\n")
    assert made.returncode == 0, made.stderr
    assert "keep a copy" in made.stderr
    assert (
        cluster.cress("submit", "--dry-run", cluster.file("x.yaml", "command: 'true'\nsecrets: {A: dB}\n")).returncode
        == 2
    )
    ran = cluster.cress("run", "--secret", "PASSWORD=db", "--", "/bin/sh", "-c", 'printf %s "$PASSWORD" | sha256sum')
    assert (ran.stdout, ran.returncode) == (f"{DIGEST}  -\n", 0), ran.stderr
    with cluster.client() as client:
        id = client.submit([{"command": f"{SHOWS}; exec sleep 1000", "secrets": SECRETS, "name": "load"}]).jobs[0].id
        wait_until(lambda: cluster.cress("logs", id).stdout.count("\n") == 3, "the output")
        assert cluster.cress("logs", id).stdout == f"{DIGEST}  -\n{DIGEST}  -\n400\n"
        assert processes_with_it() == ["sleep 1000"]
        seen = cluster.cress("exec", id, "--", "/bin/sh", "-c", SHOWS)
        assert seen.stdout.count(DIGEST) == 2
        folders = [each for place in ("/dev/shm", "/run") for each in Path(place).glob("cress-secrets-n1-*/*")]
        (folder,) = [each for each in folders if (each / "db.pem").exists()]
        # Agent and center are killed meanwhile: the task keeps what it has, and nothing asks again.
        os.kill(cluster.agent(), signal.SIGKILL)
        cluster.kill_center()
        cluster.start_center()
        assert client.job(id).state == "running"
        assert (folder / "db.pem").exists()
        told = [
            cluster.cress("job", id, "--json"),
            cluster.cress("secret", "show", "db", "--json"),
            cluster.cress("secret", "--json"),
        ]
        told += [cluster.cress("events", "--json"), cluster.cress("audit", "--json"), cluster.cress("job", id)]
        assert [each.args for each in told if each.returncode != 0] == []
        assert [each.args for each in told if VALUE in each.stdout + each.stderr] == []
        assert '"PASSWORD": "db"' in told[0].stdout
        # A deleted secret: what starts from now on fails, and says why.
        assert cluster.cress("secret", "delete", "db").returncode == 0
        cluster.cress("cancel", id)
        wait_until(lambda: client.job(id).state == "cancelled")
        wait_until(lambda: not folder.exists(), "the removal of the files")
    assert holding(cluster.folder) == []
    assert processes_with_it() == []


def test_a_center_that_is_killed_before_it_answers_is_asked_again(cluster: Cluster) -> None:
    cluster.cress("secret", "set", "db", stdin=VALUE)
    agent = cluster.agent()
    with cluster.client() as client:
        os.kill(agent, signal.SIGSTOP)
        id = client.submit([{"command": SHOWS, "secrets": SECRETS}]).jobs[0].id
        wait_until(lambda: client.task(id, 0).attempts, "the order")
        cluster.kill_center()
        os.kill(agent, signal.SIGCONT)
    cluster.start_center()
    with cluster.client() as client:
        assert client.job(id, wait=60).state == "succeeded"
        (attempt,) = client.task(id, 0).attempts
        # The value that was set last before the start counts, and a rotated key opens it.
        cluster.cress("secret", "set", "db", stdin="other")
        assert cluster.cress("secret", "rotate-key").returncode == 0
        again = client.submit([{"command": SHOWS, "secrets": SECRETS}]).jobs[0].id
        assert client.job(again, wait=60).state == "succeeded"
        gone = client.submit([{"command": SHOWS, "secrets": SECRETS, "hold": True}]).jobs[0].id
        cluster.cress("secret", "delete", "db")
        client.release(gone)
        assert client.job(gone, wait=60).state == "failed"
        why = "still has a secret db (`cress secret set db` sets it)"
        assert why in client.task(gone, 0).attempts[-1].error
    assert DIGEST in cluster.cress("logs", id).stdout
    assert hashlib.sha256(b"other").hexdigest() in cluster.cress("logs", again).stdout
    assert holding(cluster.folder) == []
    assert attempt.outcome == "succeeded"


def test_no_secret_is_lost_when_the_center_is_killed_during_rotations(cluster: Cluster) -> None:
    names = [f"s{number}" for number in range(180)]
    keys = cluster.folder / "keys/secrets.key"
    with cluster.client() as client:
        for name in names:
            client.ask(calls.set_secret(name, f"value of {name}".encode()))
    for pause in (0.0, 0.01, 0.03):
        before = keys.stat().st_ino
        with cluster.running("secret", "rotate-key") as rotation:
            wait_until(lambda before=before: keys.stat().st_ino != before, "a new key")  # type: ignore[misc]
            signal.sigtimedwait((), pause)
            cluster.kill_center()
            rotation.wait()
        cluster.start_center()
    with cluster.client() as client:
        for first in (0, 60, 120):
            used = {f"S{number}": names[number] for number in range(first, first + 60)}
            text = f"for each in $(seq {first} {first + 59}); do eval echo \\$S$each; done"
            id = client.submit([{"command": text, "secrets": used}]).jobs[0].id
            assert client.job(id, wait=60).state == "succeeded", client.task(id, 0).attempts
            assert cluster.cress("logs", id).stdout == "".join(f"value of {name}\n" for name in used.values())
