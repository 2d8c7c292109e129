"""Advance reservations with real processes: a foreign job leaves at the start and runs again later, the group's job
runs inside, the center is killed.
"""

from __future__ import annotations

import time

from cress.client import Client
from tests.system.cluster import Cluster, wait_until

GROUPS = """
Name: a
ResourceQuota: 2
Users: *

Name: b
ResourceQuota: 1
Users: *
"""


def runs(client: Client, job: int) -> bool:
    return client.job(job).tasks.running == 1


def submitted(client: Client, **keys: object) -> int:
    job = {"command": "exec sleep 600", "resource": "<2, 64M>", "stop_grace": "1s", **keys}
    return client.submit([job]).jobs[0].id


def test_a_reservation_and_a_maintenance_window_of_a_real_cluster(bare: Cluster) -> None:
    bare.start_center("--groups", str(bare.file("Group.conf", GROUPS)), "--option", "preemption=off")
    bare.start_executor("n1", "<2, 1G>")
    with bare.client() as client:
        foreign = submitted(client, group="a", name="foreign")
        wait_until(lambda: runs(client, foreign), "the foreign job")
        tried = bare.cress(
            "reserve", "exam", "--group", "b", "--nodes", "n[1-3]", "--from", "+4s", "--for", "8s", "--dry-run"
        )
        assert tried.returncode == 0, tried.stderr
        assert tried.stdout.endswith("1 running task has to stop at its start unless it ends before\n")
        assert client.reservations().reservations == ()
        made = bare.cress("reserve", "exam", "--group", "b", "--nodes", "n[1-3]", "--from", "+4s", "--for", "8s")
        assert made.returncode == 0, made.stderr
        again = bare.cress("reserve", "other", "--nodes", "n1", "--from", "+1s", "--for", "1h")
        assert again.returncode == 3
        assert again.stderr.startswith("cress reserve: nodes: node n1 is reserved by exam from ")
        own = submitted(client, group="b", name="own")
        long = submitted(client, group="a", name="long", time_limit="1h")
        assert runs(client, foreign)
        bare.kill_center()
        bare.start_center("--groups", str(bare.folder / "Group.conf"), "--option", "preemption=off")
        wait_until(lambda: runs(client, own), "the job of the group")
        (view,) = client.reservations().reservations
        assert (view.state, view.used, view.group, view.nodes) == ("active", 1, "b", {"n1": 1})
        waits = wait_until(lambda: client.job(foreign).reason, "the reason")
        assert waits.startswith("node n1 is kept for reservation exam of group b until "), waits
        (first, *_) = client.task(foreign, 0).attempts
        assert (first.outcome, first.error) == ("preempted", "node n1 is kept for reservation exam of group b")
        client.cancel(own)
        wait_until(lambda: client.job(own).tasks.running == 0, "an end")
        time.sleep(0.5)
        assert not runs(client, foreign)
        wait_until(lambda: runs(client, foreign), "the foreign job again")
        assert client.reservations().reservations == ()
        client.cancel(long)
        closed = bare.cress("reserve", "patch", "--nodes", "n1", "--from", "now", "--for", "5s")
        assert closed.returncode == 0, closed.stderr
        wait_until(lambda: not runs(client, foreign), "a drained node")
        assert client.node("n1").reason.startswith("maintenance patch until ")
        wait_until(lambda: runs(client, foreign), "an open node")
