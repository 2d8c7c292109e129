"""Slurm from Debian: slurmctld and one slurmd, from a folder, without accounting and without munge.

Without signatures it does less than in a real cluster, so the figure flatters it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers import PLACE, SLOTS, Array, Missing
from tests.ports import free_ports

PATIENCE = 20.0
_CONFIG = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={first}
SlurmdPort={second}
AuthType=auth/none
CredType=cred/none
MpiDefault=none
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
ReturnToService=2
SlurmUser=root
SlurmdUser=root
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.log
PluginDir={plugins}
SchedulerType=sched/builtin
SchedulerParameters=default_queue_depth=10000,sched_interval=1,sched_min_interval=0,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MaxArraySize=100001
MaxJobCount=200000
MinJobAge=2
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs={slots} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


@contextlib.contextmanager
def peer() -> Iterator[Array]:
    """Run a cluster of one node; yield a function that runs arrays on it."""
    root = PLACE / "slurm"
    if not root.is_dir():
        raise Missing("Slurm was not fetched (sh benchmarks/peers/fetch.sh)")
    if os.geteuid() != 0:
        raise Missing("Slurm needs root")
    plugins = next((path.parent for path in root.rglob("auth_none.so")), root)
    home = Path(tempfile.mkdtemp(prefix="slurm-"))
    for name in ("state", "spool"):
        (home / name).mkdir()
    first, second = free_ports(2)
    config = home / "slurm.conf"
    host = socket.gethostname().split(".")[0]
    config.write_text(_CONFIG.format(host=host, first=first, second=second, home=home, plugins=plugins, slots=SLOTS))
    environment = {
        "PATH": os.environ["PATH"],
        "SLURM_CONF": str(config),
        "LD_LIBRARY_PATH": f"{plugins}:{next(root.rglob('libmunge.so.2'), plugins).parent}",
    }
    daemons: list[subprocess.Popen[bytes]] = []
    null = subprocess.DEVNULL
    try:
        # slurmd starts /usr/sbin/slurmstepd, which must be there in its eyes; Debian installs it by another name.
        (home / "sbin").mkdir()
        (home / "sbin/slurmstepd").symlink_to(_found(root, "slurmstepd"))
        seen = f"mount -t overlay overlay -o lowerdir={home}/sbin:/usr/sbin /usr/sbin"
        inside = ["unshare", "--mount", "sh", "-c", f'{seen} && exec "$@"', "sh"]
        for command in (
            [_found(root, "slurmctld"), "-D", "-i"],
            [*inside, _found(root, "slurmd"), "-D", "-N", host],
        ):
            daemon = subprocess.Popen(command, env=environment, cwd=home, stdout=null, stderr=null)
            daemons.append(daemon)
        _wait_for_node(root, environment, home)

        def run(tasks: int) -> float:
            script = home / "array.sh"
            script.write_text("#!/bin/sh\nexec /bin/true\n")
            words = [_found(root, "sbatch"), "--wait", "--quiet", f"--array=0-{tasks - 1}", "--output=/dev/null"]
            begin = time.perf_counter()
            subprocess.run([*words, str(script)], env=environment, cwd=home, check=True, stdout=subprocess.DEVNULL)
            return time.perf_counter() - begin

        yield run
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait()
        shutil.rmtree(home, ignore_errors=True)


def _wait_for_node(root: Path, environment: dict[str, str], home: Path) -> None:
    end = time.monotonic() + PATIENCE
    words = [_found(root, "sinfo"), "--noheader", "--format=%T"]
    while True:
        told = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        if told.stdout.strip() == "idle":
            return
        if time.monotonic() > end:
            logs = "".join(path.read_text(errors="replace")[-500:] for path in home.glob("*.log"))
            raise Missing(f"Slurm's node did not come up: {told.stdout} {told.stderr} {logs}")
        time.sleep(0.2)


def _found(root: Path, name: str) -> str:
    """Return the path of a program, also where it has the name of the distribution (``slurmd-wlm``)."""
    paths = [
        path for path in root.rglob(f"{name}*") if path.parent.name in ("bin", "sbin") and os.access(path, os.X_OK)
    ]
    if not paths:
        raise Missing(f"{name} is not in {root}")
    return str(min(paths, key=lambda path: len(path.name)))
