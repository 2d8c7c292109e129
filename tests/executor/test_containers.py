"""Containers through a real supervisor: what they see, how they end, what is left of them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor.processes import find_attempts, is_alive
from cress.executor.runtimes.engines import ENGINES
from cress.executor.runtimes.enter import entry
from cress.model.reports import Cause, Ended
from cress.model.run import Run
from tests.executor.harness import Client, SupervisorProcess, shell, supervisor, until

COMMANDS = {"crun": "crun", "runc": "runc", "bubblewrap": "bwrap"}
NOT_HERE = "containers need root and one of crun, runc, bubblewrap (Debian packages of these names)"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not any(map(shutil.which, COMMANDS.values())), reason=NOT_HERE
)


def host() -> tuple[object, ...]:
    """What of this machine a container must never change."""
    devices = tuple((os.stat(f"/dev/{name}").st_rdev, os.stat(f"/dev/{name}").st_mode) for name in ("null", "zero", "ptmx"))
    return devices, {each.name for each in Path("/dev").iterdir()} - {"pts"}


def groups(directory: Path) -> list[Path]:
    """Control groups that are left of a supervisor."""
    import zlib

    key = f"{zlib.crc32(os.fsencode(directory)):08x}"
    return [each for each in Path("/sys/fs/cgroup").glob("*/cress/*") if each.name.endswith(key)]


@pytest.fixture(params=[each.name for each in ENGINES])
def engine(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if shutil.which(COMMANDS[name]) is None:
        pytest.skip(f"{COMMANDS[name]} is not installed")
    return name


@pytest.fixture
def unchanged() -> Iterator[None]:
    """The machine is the same afterwards."""
    before = host()
    yield
    assert host() == before


@pytest.fixture
def parent(tmp_path: Path, unchanged: None) -> Iterator[SupervisorProcess]:
    with supervisor(tmp_path / "e") as process:
        yield process
    until(lambda: not [each for each in groups(tmp_path / "e") if any(each.iterdir())] or True)


@pytest.fixture
def client(parent: SupervisorProcess) -> Client:
    client = parent.start()
    assert client.inventory.container in COMMANDS, client.inventory.unlimited
    return client


def boxed(text: str, **more: object) -> Run:
    return shell(text, **{"runtime": "container", **more})  # type: ignore[arg-type]


ENDINGS = {
    "succeeds": ("true", 0),
    "a code of its own": ("exit 77", 77),
    "a code that could be a signal": ("exit 143", 143),
    "killed by itself": ("kill -9 $$", -9),
    "ended by a signal": ("kill -TERM $$", -15),
}


def test_every_engine_runs_programs_that_end_as_they_end(tmp_path: Path, engine: str, unchanged: None) -> None:
    with supervisor(tmp_path / "e", options=("--engine", engine)) as parent:
        client = parent.start()
        assert client.inventory.container == engine
        for attempt, (text, code) in enumerate(ENDINGS.values(), 1):
            end = client.run(boxed(text), attempt)
            assert (end.cause, end.code, end.error) == (Cause.EXITED, code, ""), text
        end = client.run(boxed("ps -e -o pid=,args=; ls /dev; touch /etc/x /usr/x /dev/x; touch /tmp/cress-own-tmp work-is-mine"), 9)
        out, err = parent.output(9), parent.output(9, "stderr")
        assert out.splitlines()[0].split() == ["1", "/dev/pause"]
        assert {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"} <= set(out.split())
        assert err.count("Read-only file system") == 2, err
        assert not Path("/tmp/cress-own-tmp").exists()
        assert (tmp_path / "e/attempts/9/work/work-is-mine").exists()
        client.launch(Run(job=1, command=("sleep", "1000"), runtime="container"), 10)
        client.wait_started(10)
        client.stop(10, grace=300)
        assert (client.wait_ended(10).cause, client.ended[10].code) == (Cause.STOPPED, -15)
        assert parent.said().count("container") == 0
    assert groups(tmp_path / "e") == []
    assert list((tmp_path / "e/containers").iterdir()) == [tmp_path / "e/containers/pause"]
