"""Waits in the start of a container: for the engine, and for the kernel to move processes between control groups."""

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cress.executor.runtimes import box, cgroups
from cress.executor.runtimes.cgroups import Cgroups, ReadyForMoves
from cress.executor.runtimes.container import ContainerRuntime
from cress.executor.runtimes.engines.base import Box
from cress.executor.runtimes.engines.crun import Crun
from cress.shell.executor.starting import StartError


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may move processes between control groups")
def test_a_process_stays_in_its_groups_while_the_kernel_is_kept_ready() -> None:
    own_file = Cgroups.find("ready", "/nowhere").own_file()
    if not own_file:
        pytest.skip("the groups of this process are not mounted here")
    groups = Path("/proc/self/cgroup").read_text()
    assert str(os.getpid()) in Path(own_file).read_text().split()
    with ReadyForMoves(own_file) as moves:
        moves.keep()
        assert Path("/proc/self/cgroup").read_text() == groups


@pytest.mark.parametrize("text", ["", "1:memory:/elsewhere\n0::/\n", "0::/elsewhere\n"])
def test_a_group_that_the_mounts_do_not_show_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    known = Cgroups("key", {"memory": str(tmp_path)}, str(tmp_path), ())
    (tmp_path / "elsewhere").mkdir()
    # A group of another process, at the path that this one has in its own part of the hierarchy.
    (tmp_path / "elsewhere/cgroup.procs").write_text("1\n")
    read = cgroups._read
    monkeypatch.setattr(cgroups, "_read", lambda path: text if path == "/proc/self/cgroup" else read(path))
    assert not known.own_file()
    with ReadyForMoves(known.own_file()) as moves:
        moves.keep()
    with ReadyForMoves(str(tmp_path / "missing")) as moves:
        moves.keep()
    assert not (tmp_path / "missing").exists()


def test_an_engine_that_works_is_not_looked_at_all_the_time(tmp_path: Path) -> None:
    looks: list[str] = []

    class Slow(Crun):
        def first(self, box: Box) -> int:
            looks.append(box.folder)
            return 0

    runtime = ContainerRuntime.__new__(ContainerRuntime)
    runtime.engine, runtime.cgroups = Slow(), Cgroups("key", {}, "", ())
    box = Box(folder=str(tmp_path), root="/", mounts=(), pause="", environment=(), hostname="", group="")
    box.log.write_text("there is no room\n")
    child = os.fork()
    if child == 0:
        time.sleep(0.2)
        os._exit(1)
    with pytest.raises(OSError, match="there is no room"):
        runtime._wait(box, child)
    assert len(looks) == 1
    with pytest.raises(ChildProcessError):
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("mount", "distant"),
    [
        ("/data rw - ext4 /dev/sdb", False),
        ("/net/home rw shared:5 - nfs4 server:/home", True),
        ("/net/home rw - fuse.sshfs server:/home", True),
        ("/home rw - autofs /etc/auto.home", True),
        ("/run/user/0/doc rw - fuse.portal portal", False),
        ("/proc/sys/fs/binfmt_misc rw - autofs systemd-1", False),
    ],
)
def test_the_supervisor_does_not_look_at_mounts_that_may_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mount: str, *, distant: bool
) -> None:
    """A server that is gone stopped all starts and kills of the node. A fork may wait for it."""
    (tmp_path / "mounts").write_text(f"22 1 8:1 / / rw - nfs server:/root rw\n30 22 0:5 / {mount} rw\n")
    monkeypatch.setattr(box, "_MOUNTS", tmp_path / "mounts")
    assert box.has_distant_mounts() is distant


class Direct(Crun):
    def direct(self, box: Box) -> list[str]:
        return ["crun"]


def asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the launcher is asked for a container, if the folder of one of its disks has gone."""
    known = ContainerRuntime("node1", {}, home, Direct(), Cgroups("key", {}, "", ()), launcher=cast("Any", object()))
    for name in ("_prepare", "_box"):
        monkeypatch.setattr(known, name, lambda *_: None)
    monkeypatch.setattr(known, "_program", "/bin/crun")
    devices = SimpleNamespace(folders=(f"{home}/gone",), owned=tuple)
    run = SimpleNamespace(root="", limits=())
    what = SimpleNamespace(run=run, folder=b"/", data=b"", context=SimpleNamespace(devices=devices))
    return known._is_asked(cast("Any", SimpleNamespace(ids=None)), cast("Any", what), {}, -1)


def test_a_folder_for_limits_that_has_gone_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told as if the node could make no process."""
    monkeypatch.setattr(box, "_MOUNTS", tmp_path / "mounts")
    (tmp_path / "mounts").write_text("30 22 0:5 / /data rw - ext4 /dev/sdb rw\n")
    with pytest.raises(StartError, match="the limits of the container could not be set: No such file") as caught:
        asked(tmp_path, monkeypatch)
    assert caught.value.node
    (tmp_path / "mounts").write_text("30 22 0:5 / /data rw - ceph server:/ rw\n")
    assert not asked(tmp_path, monkeypatch)
