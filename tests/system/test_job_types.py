"""Services, cron jobs and dags by the command line, against a real center and a real executor."""

from __future__ import annotations

import json
import re
import signal
import subprocess

import pytest

from tests.system.cluster import Cluster, wait_until

SHOP = """\
name: shop
type: service
command: exec sleep 1000
tasks: 2
resource: <0.1, 20M>
ready_after: 300ms
backoff: 50ms
---
name: ticker
type: cron
command: echo tick
when: "* * * * *"
resource: <0.1, 20M>
"""
DAG = """\
name: etl
type: dag
resource: <0.1, 20M>
steps:
  load: {command: "true"}
  check: {command: "test -e FLAG", after: [load]}
  publish: {command: "true", after: [check]}
  alarm: {command: "true", after: {check: failed}}
"""


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def facts(cluster: Cluster, job: object) -> dict[str, str]:
    """What ``cress job`` says above its table."""
    lines = said(cluster.cress("job", job))
    head = lines[: lines.index("")] if "" in lines else lines
    pairs = [re.split(r"\s{2,}", line, maxsplit=1) for line in head]
    return {pair[0]: pair[1] for pair in pairs}


def test_a_service_is_applied_scaled_updated_taken_back_and_cancelled(own: Cluster) -> None:
    own.file("shop.yaml", SHOP)
    assert said(own.cress("validate", "shop.yaml")) == ["2 jobs: nothing is wrong"]
    assert said(own.cress("apply", "--dry-run", "shop.yaml")) == ["shop would be created", "ticker would be created"]
    assert said(own.cress("apply", "shop.yaml")) == ["job 1 (shop) created", "job 2 (ticker) created"]
    with own.client() as client:

        def ready() -> tuple[int, int, int]:
            service = client.job(1).service
            assert service is not None
            return service.ready, service.wanted, service.updated

        wait_until(lambda: ready() == (2, 2, 2), "two ready tasks")
        assert said(own.cress("apply", "shop.yaml")) == ["job 1 (shop) unchanged", "job 2 (ticker) unchanged"]
        assert client.job(1).service.version == 1  # type: ignore[union-attr]  # it is a service
        members = {task.job for task in client.tasks(1).tasks}
        assert len(members) == 2
        again = own.cress("submit", "shop.yaml")
        assert again.returncode == 3
        assert "there is a service shop in group default already, job 1" in again.stderr

        assert said(own.cress("scale", "shop", 3)) == ["job 1 (shop) will have 3 tasks"]
        wait_until(lambda: ready() == (3, 3, 3), "three ready tasks")
        assert members < {task.job for task in client.tasks(1).tasks}
        assert said(own.cress("apply", "--dry-run", "shop.yaml")) == [
            f"job 1 (shop) would be scaled; {BACK}",
            "  tasks: 3 -> 2",
            "job 2 (ticker) unchanged",
        ]

        own.file("bad.yaml", SHOP.replace("exec sleep 1000", "echo boom; exit 1"))
        assert said(own.cress("apply", "--diff", "bad.yaml"))[:3] == [
            f"job 1 (shop) would be updated; {BACK}",
            "  tasks: 3 -> 2",
            "  command: exec sleep 1000 -> echo boom; exit 1",
        ]
        assert client.job(1).service.version == 1  # type: ignore[union-attr]  # nothing has changed
        assert said(own.cress("apply", "bad.yaml"))[0] == (
            f"job 1 (shop) is being updated to version 2; {BACK} (follow it: cress job 1, or apply with --wait)"
        )
        wait_until(lambda: client.job(1).service.returned, "the bad version being taken back")  # type: ignore[union-attr]
        wait_until(lambda: ready() == (2, 2, 2), "the good version")
        told = facts(own, "shop")
        assert told["Ready"] == "2 of 2 tasks"
        assert told["Version"] == "3"
        assert told["Rolled back"].startswith("version 2 was rolled back: task ")
        assert told["Command"] == "/bin/sh -c 'exec sleep 1000'"

        now, before = own.cress("logs", "shop"), own.cress("logs", "shop", "--previous")
        assert now.stderr.startswith("cress logs: version 2 was rolled back: task ")
        assert now.stderr.endswith("; `cress logs 1 --previous` shows its output\n")
        assert "boom" not in now.stdout
        assert before.stdout == "boom\n"
        assert before.stderr.startswith("cress logs: version 2 as it was in its member ")
        events = [line.split()[2] for line in said(own.cress("events", "--job", "shop"))]
        assert [kind for kind in events if kind in ("job.scaled", "job.updated", "job.rolled_back")] == [
            "job.scaled",
            "job.updated",
            "job.rolled_back",
        ]

        rows = [line.split() for line in said(own.cress("job", "shop"))[-2:]]
        assert [(row[0], row[1], row[2], row[3]) for row in rows] == [
            ("0", "running", "yes", "n1"),
            ("1", "running", "yes", "n1"),
        ]
        listed = json.loads(own.cress("jobs", "--json", "--type", "service").stdout)["jobs"]
        assert [(job["id"], job["service"]["ready"]) for job in listed] == [(1, 2)]
        assert said(own.cress("jobs", "--type", "service"))[1].split()[:7] == [
            "1", "shop", "service", "default", listed[0]["user"], "running", "2/2",
        ]  # fmt: skip
        assert (
            len(json.loads(own.cress("jobs", "--json", "--family", "shop", "--state", "running").stdout)["jobs"]) == 2
        )

        own.file("patient.yaml", SHOP.replace("tasks: 2", "tasks: 2\nmax_unavailable: 2"))
        assert said(own.cress("apply", "patient.yaml"))[0] == "job 1 (shop) updated"  # no new version

        assert said(own.cress("cancel", "shop", "ticker")) == ["job 1 (shop) cancelled", "job 2 (ticker) cancelled"]
        wait_until(lambda: client.job(1).state == "cancelled", "its end")
        assert {task.state for task in client.tasks(1).tasks} == {"cancelled"}
        assert said(own.cress("apply", "shop.yaml"))[0].endswith("(shop) created")
        assert own.cress("cancel", "shop", "ticker").returncode == 0


BACK = "back to 2 tasks from 3, which was set by scaling"


def test_who_waits_for_an_apply_is_told_how_it_ended(own: Cluster) -> None:
    own.file("shop.yaml", SHOP)
    cron = "job 2 (ticker) unchanged"
    assert said(own.cress("apply", "--wait", "shop.yaml")) == [
        "job 1 (shop) created",
        "job 2 (ticker) created",
        "job 1 (shop) is ready: all tasks are of version 1",
    ]
    # What is rolled back, and what has nothing to go back to.
    bad = SHOP.replace("exec sleep 1000", "exit 1")
    own.file("bad.yaml", bad)
    done = own.cress("apply", "--wait", "bad.yaml")
    assert (done.returncode, done.stdout.splitlines()) == (1, ["job 1 (shop) is being updated to version 2", cron])
    assert done.stderr.startswith("cress apply: job 1 (shop): version 2 was rolled back: task ")
    own.file("first.yaml", bad.replace("shop", "first").partition("---")[0])
    done = own.cress("apply", "--wait", "--json", "first.yaml")
    assert done.returncode == 1
    (first,) = json.loads(done.stdout)["jobs"]
    assert (first["version"], first["ready"]) == (1, False)
    assert re.match(
        r"task \d failed \d times before it was ever ready: exit code 1; there is no earlier version", first["problem"]
    )
    hangs = SHOP.replace("shop", "hangs").replace("ready_after: 300ms", "ready: {command: exit 1}\nupdate_timeout: 1s")
    own.file("hangs.yaml", hangs.partition("---")[0])
    done = own.cress("apply", "--wait", "hangs.yaml")
    assert (done.returncode, re.sub(r"\d+", "N", done.stdout)) == (1, "job N (hangs) created\n"), done.stderr
    assert re.search(r"\(hangs\): task \d was not ready 1s after its start.*; there is no earlier version", done.stderr)
    assert own.cress("cancel", "first", "hangs").returncode == 0
    # One that takes its time, until another one takes its place; it is not ready in time either.
    own.file("slow.yaml", SHOP.replace("sleep 1000", "sleep 1001").replace("300ms", "60s"))
    done = own.cress("apply", "--wait", "--timeout", "100ms", "slow.yaml")
    assert (done.returncode, done.stdout.splitlines()) == (1, ["job 1 (shop) is being updated to version 4", cron])
    assert done.stderr.startswith("cress apply: job 1 (shop): not ready after 0.1 s: ")
    with own.running("apply", "--wait", "slow.yaml") as superseded, own.running("apply", "--wait", "slow.yaml") as left:
        for each in (superseded, left):
            assert each.stdout is not None
            assert each.stdout.readline() == "job 1 (shop) unchanged\n"
        left.send_signal(signal.SIGINT)
        _, err = left.communicate(timeout=60)
        assert (left.returncode, err) == (
            130,
            "cress apply: interrupted; the applied changes go on (see: cress job 1)\n",
        )
        assert (
            said(own.cress("apply", "--wait", "shop.yaml"))[-1] == "job 1 (shop) is ready: all tasks are of version 5"
        )
        _, err = superseded.communicate(timeout=60)
    assert superseded.returncode == 1
    assert "job 1 (shop): version 5 has taken the place of version 4 before that was ready" in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--wait", "--dry-run"), "cress apply: --wait: cannot be combined with --dry-run (only one of them)\n"),
        (("--wait", "--diff"), "cress apply: --wait: cannot be combined with --diff (only one of them)\n"),
        (("--timeout", "5s"), "cress apply: --timeout: has no effect without --wait (give --wait, too)\n"),
    ],
)
def test_what_waiting_for_an_apply_goes_with(shared: Cluster, arguments: tuple[str, ...], sentence: str) -> None:
    shared.file("shop.yaml", SHOP)
    done = shared.cress("apply", *arguments, "shop.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


def test_a_dag_goes_on_from_the_step_that_failed(shared: Cluster) -> None:
    flag = shared.folder / "flag"
    shared.file("dag.yaml", DAG.replace("FLAG", str(flag)))
    done = shared.cress("submit", "--wait", "dag.yaml")
    first = int(re.findall(r"job (\d+) ", done.stdout)[0])
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"job {first} (etl) failed: 1 of 4 steps failed"
    assert facts(shared, first)["Reason"] == "step check failed: exit code 1"
    steps = [line.split()[:4] for line in said(shared.cress("job", first))[-4:]]
    assert steps == [
        ["load", str(first + 1), "succeeded"],
        ["check", str(first + 2), "failed", "load"],
        ["publish", str(first + 3), "cancelled", "check"],
        ["alarm", str(first + 4), "succeeded", "check"],
    ]
    assert "is to start" not in facts(shared, f"{first + 3}")
    flag.touch()
    (line,) = said(shared.cress("resume", first))
    second = int(re.findall(r"job (\d+) ", line)[0])
    with shared.client() as client:
        wait_until(lambda: client.job(second).state not in ("waiting", "running"), "the end of the second")
        view = client.job(second)
        assert view.state == "succeeded"
        assert view.dag is not None
        assert [(step.name, step.state) for step in view.dag.steps] == [
            ("check", "succeeded"),
            ("publish", "succeeded"),
        ]
        before = {job.name for job in client.jobs(family=first).jobs}
        assert before == {"etl.load", "etl.check", "etl.publish", "etl.alarm"}
    # Two dags of that name are over: the latest is meant. The steps of each have names as well.
    assert facts(shared, "etl")["Job"] == str(second)
    assert facts(shared, "etl.load")["Member"] == f"0 of job {first}"
    assert said(shared.cress("job", "etl.load.0"))[0] == f"Task   {first + 1}.0"
    assert said(shared.cress("logs", second)) == [
        f"==> check (job {second + 1}, succeeded) <==",
        f"==> publish (job {second + 2}, succeeded) <==",
    ]
    assert "there is no job 'nobody'" in shared.cress("logs", "nobody.0").stderr
    refused = shared.cress("resume", second)
    assert refused.returncode == 3
    assert "has no unfinished steps" in refused.stderr


@pytest.mark.long
def test_a_cron_job_runs_at_its_minute(shared: Cluster) -> None:
    shared.file("tick.yaml", SHOP.split("---\n")[1])
    (line,) = said(shared.cress("apply", "tick.yaml"))
    number = int(re.findall(r"job (\d+) ", line)[0])
    with shared.client() as client:
        (run,) = wait_until(lambda: client.jobs(family=number, state="succeeded").jobs, "a run", patience=100.0)
        assert (run.name, run.family, run.index, run.command) == ("ticker", number, 0, ("/bin/sh", "-c", "echo tick"))
        cron = client.job(number).cron
        assert cron is not None
        assert (cron.last_job, cron.last_state, cron.runs) == (run.id, "succeeded", 1)
        assert cron.last is not None
        assert cron.last % 60 == 0
        assert b"".join(client.logs(run.id)) == b"tick\n"
        last = shared.cress("logs", number)
        assert (last.returncode, last.stdout) == (0, "tick\n")
        assert last.stderr.startswith("cress logs: the last run is job ")
    told = facts(shared, number)
    assert told["When"] == "* * * * * (UTC)"
    assert told["Last"].endswith(f"job {run.id}, succeeded")
    assert said(shared.cress("job", number))[-1].split()[:2] == [str(run.id), "succeeded"]
    assert said(shared.cress("cancel", number)) == [f"job {number} (ticker) cancelled"]
