"""Make the frozen data directories again: ``python -m tests.upgrade.make TREE`` with the sources of a release.

Runs a real center and real executors of that release with a little of everything, and packs what they leave: after a
clean stop of the center (``stopped``), and after kill -9 later on (``killed``, a snapshot with a log behind it).
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from tests.upgrade.release import DATA, Cluster, wait_until

GROUPS = """\
Name: research
ResourceQuota: 6
SchedPolicy: BackFill
Weight: 2

Name: web
ResourceQuota: 4; Mon-Fri 09:00-18:00 = 5
SchedPolicy: Priority
"""
DEVICES = "devices:\n  gpu: {count: 2, model: V100M16}\n"
SLEEP = "exec sleep 100000"
# The program inside an attempt's folder is not part of what an upgrade must read.
LEFT_OUT = ("supervisor.sock", "api.sock", "executors.sock", "attempts", "versions.json")


def job(name: str, command: str = SLEEP, **keys: Any) -> dict[str, Any]:
    """A job of a little CPU and memory."""
    return {"name": name, "command": command, "resource": "<0.1, 10M>", **keys}


def first_life(cluster: Cluster) -> None:
    """Jobs of all types and in all states, and nodes in several."""
    folder = str(cluster.folder)
    cluster.ask("/v1/groups", {"text": GROUPS}, method="PUT")
    wide = cluster.submit(
        job("done", "echo done", tasks=3),
        job("failed", "exit 3", retries=1, backoff="100ms"),
        job("backoff", "exit 4", retries=3, backoff="1d"),
        job(
            "array",
            f"case $CRESS_TASK_INDEX in 1) exit 0;; 2) exit 5;; *) {SLEEP};; esac",
            tasks=8,
            max_running=4,
            group="research",
        ),
        job("gang", tasks=2, gang=True, ports="dynamic", group="research"),
        job("held", hold=True),
        job("gpu", resource={"cpu": "0.1", "memory": "10M", "gpu": "0.46"}, requirement='Zone = "eu"'),
        job("licensed", licences={"matlab": 2}),
        job("cancelled"),
        {**job("grower", "trap '' TERM; while :; do sleep 1; done", tasks=8, stop_grace="1h"), "resource": "<1, 10M>"},
        Idempotency_Key="first",
    )
    cluster.submit(
        job("later", after={str(wide[3]): "any"}),
        job("web", type="service", tasks=2, group="web", ports={"http": "dynamic"}, minimum=1),
        job("db", type="database", tasks=1, group="web"),
        job("nightly", type="cron", when="0 3 29 2 *", directory=folder),
        job("often", type="cron", when="* * * * *", overlap="forbid", directory=folder),
        {
            "name": "etl",
            "type": "dag",
            "steps": {
                "load": {"command": "true", "resource": "<0.1, 10M>"},
                "sum": {"command": SLEEP, "resource": "<0.1, 10M>", "after": ["load"]},
                "plot": {"command": "true", "resource": "<0.1, 10M>", "after": ["sum"]},
            },
        },
    )
    settle(cluster, {"running": {"array": 4, "gang": 2, "gpu": 1, "licensed": 1, "web": 2, "db": 1, "etl.sum": 1}})
    settle(cluster, {"running": {"often": 1}, "state": {"done": "succeeded", "failed": "failed"}})
    cluster.ask(f"/v1/jobs/{wide[8]}/cancel", {})
    settle(cluster, {"state": {"cancelled": "cancelled"}})
    cluster.ask("/v1/nodes/n3/cordon", {"reason": "a fan is loud"})
    cluster.submit(job("large", resource="<4, 8G>", requirement='Zone = "us"'))
    # ``web`` takes back what ``default`` has borrowed; its victims do not listen to SIGTERM.
    cluster.submit({**job("claimant", tasks=3, group="web"), "resource": "<1, 10M>"})
    wait_until(lambda: any(each["preempted"] for each in jobs(cluster)) or claims(cluster), "a preemption")


def second_life(cluster: Cluster) -> None:
    """More of it, so that the log has starts, ends and orders of people."""
    cluster.submit(
        job("again", "echo again", tasks=2, group="research"),
        job("array2", tasks=20, max_running=3, group="research"),
        job("held2", hold=True),
        Idempotency_Key="second",
    )
    settle(cluster, {"running": {"array2": 3}, "state": {"again": "succeeded"}})
    by_name = {name: each["id"] for name, each in named(cluster).items()}
    cluster.ask(f"/v1/jobs/{by_name['held']}/release", {})
    cluster.ask(f"/v1/jobs/{by_name['licensed']}/cancel", {})
    cluster.ask("/v1/nodes/n3/uncordon", {})
    cluster.ask("/v1/nodes/n2/cordon", {"reason": "a disk is slow"})
    cluster.ask("/v1/groups", {"text": GROUPS.replace("Weight: 2", "Weight: 3")}, method="PUT")
    cluster.ask(f"/v1/jobs/{by_name['web']}/scale", {"tasks": 3})
    settle(cluster, {"running": {"held": 1}, "state": {"licensed": "cancelled"}})


def jobs(cluster: Cluster) -> list[dict[str, Any]]:
    """All jobs, members of families too."""
    found: list[dict[str, Any]] = cluster.ask("/v1/jobs?limit=1000")["jobs"]
    for family in [each["id"] for each in found if each["type"] != "batch"]:
        found += cluster.ask(f"/v1/jobs?limit=1000&family={family}")["jobs"]
    return list({each["id"]: each for each in found}.values())


def named(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The jobs by name; of a family and its members the family, of others the oldest."""
    return {each["name"]: each for each in sorted(jobs(cluster), key=lambda each: -each["id"])}


def claims(cluster: Cluster) -> bool:
    """Whether somebody is being preempted: it is told in the reason of who waits."""
    return any("preempt" in each["reason"] or "yield" in each["reason"] for each in jobs(cluster))


def settle(cluster: Cluster, wanted: dict[str, dict[str, Any]]) -> None:
    """Wait until so many tasks of these jobs run, and these jobs have these states."""

    def settled() -> bool:
        by_name = named(cluster)
        return all(
            running(cluster, by_name[name]["id"]) == count for name, count in wanted.get("running", {}).items()
        ) and all(by_name[name]["state"] == state for name, state in wanted.get("state", {}).items())

    wait_until(settled, str(wanted))


def running(cluster: Cluster, number: int) -> int:
    """How many tasks of a job have told that they run."""
    found = cluster.ask(f"/v1/jobs/{number}")
    if found["type"] == "cron":
        return sum(each["tasks"]["running"] for each in cluster.ask(f"/v1/jobs?family={number}")["jobs"])
    tasks = cluster.ask(f"/v1/jobs/{number}/tasks?limit=1000")["tasks"]
    return sum(task["state"] == "running" for task in tasks)


def answers(cluster: Cluster) -> dict[str, Any]:
    """Everything that the API tells of the cluster, by path."""
    found = jobs(cluster)
    paths = ["/v1/groups", "/v1/licences", "/v1/nodes?limit=1000", "/v1/nodes/n1", "/v1/names/web?group=web"]
    told = {path: cluster.ask(path) for path in paths}
    told["jobs"] = found
    told["tasks"] = {
        each["id"]: cluster.ask(f"/v1/jobs/{each['id']}/tasks?limit=1000")["tasks"]
        for each in found
        if each["type"] in ("batch", "service", "database")
    }
    return told


def pack(cluster: Cluster, name: str, told: dict[str, Any], into: Path) -> None:
    """Pack the data directory with the answers that were given before its center ended."""
    place = cluster.folder / name
    shutil.copytree(cluster.data, place / "d", ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(into / f"{name}.tar.xz", "w:xz", preset=9) as archive:
        text = json.dumps(told, indent=1).encode()
        member = tarfile.TarInfo("manifest.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
        archive.add(place / "d", "d", filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def pack_sources(tree: Path, into: Path) -> None:
    """Pack the sources of the release: all but the simulator, which no running cluster needs."""

    def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if "__pycache__" in member.name or "/simulator" in member.name else _plain(member)

    with tarfile.open(into / "sources.tar.xz", "w:xz", preset=9) as archive:
        archive.add(tree / "src" / "cress", "src/cress", filter=wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path, help="the sources of the release")
    parser.add_argument("--out", type=Path, help="the folder for what is made; default: that of the release here")
    arguments = parser.parse_args()
    tree = arguments.tree.resolve()
    code = "import cress; print(cress.__version__)"
    environment = {"PYTHONPATH": str(tree / "src"), "PATH": "/usr/bin"}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    out = arguments.out or DATA / said.stdout.strip()
    cluster = Cluster(tree)
    try:
        devices = cluster.folder / "devices.yaml"
        devices.write_text(DEVICES)
        options = "--dimension", "gpu", "--licence", "matlab=3"
        cluster.start_center(*options, "--option", "term=10min", "--option", "grace=10min")
        cluster.start_executor(
            "n1",
            "--resource",
            "<4, 8G>",
            "--label",
            "zone=eu",
            "--devices",
            str(devices),
            "--rack",
            "r1",
            "--ports",
            "20000-20999",
        )
        cluster.start_executor("n2", "--resource", "<4, 8G>", "--rack", "r2", "--ports", "21000-21999")
        cluster.start_executor("n3", "--resource", "<4, 8G>", "--label", "zone=us", "--ports", "22000-22999")
        first_life(cluster)
        told = answers(cluster)
        cluster.stop_center()
        pack(cluster, "stopped", told, out)
        cluster.start_center(*options)
        for name in ("n1", "n2", "n3"):
            wait_until(lambda: cluster.is_up(name), f"{name} being up")  # noqa: B023
        second_life(cluster)
        told = answers(cluster)
        cluster.stop_center(signal.SIGKILL)
        pack(cluster, "killed", told, out)
        pack_sources(tree, out)
    finally:
        cluster.stop()
    for made in sorted(out.iterdir()):
        sys.stdout.write(f"{made.stat().st_size:9,} {made}\n")


if __name__ == "__main__":
    main()
