"""Two sorting tasks on one disk, and with a disk each: a real center and executor, disks that the kernel slows down.

The disks are file systems in memory behind loop devices, each limited to ``RATE`` bytes/s of reading and of writing by
the throttle of control groups (version 1), in which the executor and its tasks are. Mounts are in a namespace of their
own, and loop devices go with them: whatever happens, nothing is left when the last process is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.result import Result
from cress.cli.local import LocalCluster, LocalSetup
from cress.executor.runtimes import linux
from cress.executor.runtimes.cgroups import device_of

RATE = 20_000_000
IMAGE = 256 * 2**20
# What one task sorts: it is written as runs, read, and written again.
MEGABYTES = 48
TASKS = 2
GROUPS = Path("/sys/fs/cgroup/blkio")
# An image in memory is not a disk that others use, too.
MEMORY = "/dev/shm"  # noqa: S108
PATIENCE = 300
# A disk that two share gives each half, but the one with a disk for itself waits for processors as well.
LEAST = 1.5


def results() -> Iterator[Result]:
    """Seconds until both have sorted, on one disk and on two, and what a disk each is worth."""
    lacks = _lacks()
    if lacks:
        yield Result(f"disks: not measured, {lacks}", 0, "s")
        return
    group = GROUPS / f"cress-bench-{os.getpid()}"
    folder = Path(tempfile.mkdtemp(prefix="cress-disks-", dir=MEMORY))
    group.mkdir()
    try:
        words = [sys.executable, "-m", "benchmarks.disks", str(group), str(folder)]
        child = subprocess.run(words, stdout=subprocess.PIPE, check=True)
        for each in json.loads(child.stdout):
            yield Result(**each)
    finally:
        _empty(group)
        shutil.rmtree(folder, ignore_errors=True)


def _lacks() -> str:
    """What this machine lacks for the measurement; empty: nothing."""
    if os.geteuid() != 0:
        return "it needs root"
    if not (GROUPS / "blkio.throttle.read_bps_device").exists():
        return "there is no throttle of control groups of version 1"
    missing = [each for each in ("losetup", "mkfs.ext4", "mount") if shutil.which(each) is None]
    return f"{missing[0]} is not installed" if missing else ""


def _empty(group: Path) -> None:
    """Wait until nobody is left in the group, and remove it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)


# --- in a process of its own ------------------------------------------------------------------------------------------


def _measured(group: Path, folder: Path) -> Iterator[Result]:
    linux.private_mounts()
    for name in ("disk1", "disk2"):
        image = folder / f"{name}.img"
        with image.open("wb") as file:
            file.truncate(IMAGE)
        _run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image))
        (folder / name).mkdir()
        _run("mount", "-o", "loop", str(image), str(folder / name))
        for limit in ("read", "write"):
            (group / f"blkio.throttle.{limit}_bps_device").write_text(f"{device_of(str(folder / name))} {RATE}")
    (group / "cgroup.procs").write_text(str(os.getpid()))
    together = _sorted(folder, ("disk1",), "")
    apart = _sorted(folder, ("disk1", "disk2"), "ExclusiveDisk = True")
    name = f"{TASKS} tasks that each sort {MEGABYTES} MB at {RATE // 10**6} MB/s"
    yield Result(f"{name}: on one disk", together, "s")
    yield Result(f"{name}: a disk each", apart, "s")
    yield Result("one disk for both takes so many times as long", together / apart, "times", LEAST, at_least=True)


def _run(program: str, *arguments: str) -> None:
    subprocess.run([shutil.which(program) or program, *arguments], stdout=subprocess.DEVNULL, check=True)


def _sorted(folder: Path, disks: tuple[str, ...], requirement: str) -> float:
    """Seconds from the start of the first task to the end of the last on a node that has these disks."""
    reports = folder / f"reports{len(disks)}"
    reports.mkdir()
    listed = [f"  - {{path: {folder / each}, bandwidth: {RATE}}}" for each in disks]
    devices = folder / f"devices{len(disks)}.yaml"
    devices.write_text("\n".join(["disks:", *listed]) + "\n")
    setup = LocalSetup(data=folder / f"data{len(disks)}", resource="<2, 1G>", executor=("--devices", str(devices)))
    cluster = LocalCluster(setup, lambda sentence: print(sentence, file=sys.stderr))
    script = Path(__file__).with_name("external_sort.py")
    job: dict[str, object] = {
        "name": "sort",
        "command": [sys.executable, str(script), str(MEGABYTES), str(reports)],
        "resource": f"<1, 200M, 0, {RATE // TASKS}>",
        "tasks": TASKS,
    }
    if requirement:
        job["requirement"] = requirement
    try:
        cluster.start()
        with cluster.client() as client:
            sort = client.submit([job]).jobs[0].id
            view = client.job(sort, wait=PATIENCE)
            if view.state != "succeeded":
                sys.exit(f"the sort is {view.state}: {view.reason}")
    finally:
        cluster.stop()
    told = [json.loads(each.read_text()) for each in reports.iterdir()]
    used = {each["disk"] for each in told}
    if len(told) != TASKS or used != set(disks):
        sys.exit(f"{len(told)} tasks worked on {', '.join(sorted(used))}")
    return float(max(each["ended"] for each in told) - min(each["began"] for each in told))


if __name__ == "__main__":
    print(json.dumps([asdict(each) for each in _measured(Path(sys.argv[1]), Path(sys.argv[2]))]))
