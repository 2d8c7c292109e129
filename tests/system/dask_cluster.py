"""Dask clusters for tests: small workers, tasks that note each of their runs, and the processes that are there."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cress import Client
    from cress.integrations.dask import CressCluster
    from tests.system.cluster import Cluster

# Where workers find this module.
ROOT = Path(__file__).parents[2]


def begin(
    cluster: Cluster, *options: str, nodes: int = 2, resource: str = "cpu=2, memory=2G", groups: str = ""
) -> Client:
    """Start a center and nodes; return a client."""
    from cress import Client

    words = [word for option in options for word in ("--option", option)]
    cluster.start_center(*words, *(("--groups", str(cluster.file("Group.conf", groups))) if groups else ()))
    for number in range(nodes):
        cluster.start_executor(f"n{number + 1}", resource)
    return Client(data=cluster.data)


def dask(cluster: Cluster, **more: Any) -> CressCluster:
    """A Dask cluster on a center of this machine, of leases of one core."""
    from cress.integrations.dask import CressCluster

    given: dict[str, Any] = {"cores": 1, "memory": "400MiB", "host": "127.0.0.1", "dashboard_address": ":0"}
    own = {"data": cluster.data, "local_directory": cluster.folder, "directory": ROOT}
    return CressCluster(**(given | own | more))


def noted(path: str, seconds: float, key: int) -> int:
    """A task that notes where and that it was begun."""
    with open(path, "a") as file:  # noqa: PTH123 – runs in a worker
        file.write(f"{key} {os.environ['CRESS_JOB_ID']}\n")
    time.sleep(seconds)
    return key * key


def runs(path: Path) -> Counter[int]:
    """How often each key was computed."""
    return Counter(int(line.split()[0]) for line in path.read_text().splitlines())


def pids(name: str) -> list[int]:
    """The processes of the workers of a lease, or of all leases of a cluster."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"cress.integrations.dask.program" in words and name.encode() in words:
                found.append(int(entry.name))
    return found


def told_by(cluster: CressCluster) -> str:
    """What a cluster has noted about its leases; workers, which may be dead, are not asked."""
    return str(cluster.get_logs(scheduler=False, workers=False)["Cluster"])
