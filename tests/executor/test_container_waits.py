"""Waits in the start of a container: for the engine, and for the kernel to move processes between control groups."""

import os
import time
from pathlib import Path

import pytest

from cress.executor.runtimes import cgroups
from cress.executor.runtimes.cgroups import Cgroups, ReadyForMoves
from cress.executor.runtimes.container import ContainerRuntime
from cress.executor.runtimes.engines.base import Box
from cress.executor.runtimes.engines.crun import Crun


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
