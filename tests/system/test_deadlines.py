"""Deadlines with real processes: who yields to a tight job that arrives late, who does not, and a center that is killed
meanwhile.
"""

from __future__ import annotations

from tests.system.cluster import Cluster, wait_until

GROUPS = """\
Name: news
ResourceQuota: 3
SchedPolicy: Urgency

Name: lab
ResourceQuota: 2
SchedPolicy: Urgency

Name: web
ResourceQuota: 3
"""
# Stays until it may go; a stop is taken note of after a second, so that a center can be killed meanwhile.
STAYS = ["sh", "-c", "trap 'sleep 1; exit 1' TERM; while [ ! -e go ]; do sleep 0.05; done"]


def submitted(cluster: Cluster, group: str, **keys: object) -> int:
    with cluster.client() as client:
        job = {"command": STAYS, "group": group, "resource": "<1, 64M>", "directory": str(cluster.folder), **keys}
        return client.submit([job]).jobs[0].id


def outcomes(cluster: Cluster, job: int) -> list[str]:
    with cluster.client() as client:
        return sorted(attempt.outcome for task in client.tasks(job).tasks for attempt in task.attempts)


def test_a_tight_job_takes_room_inside_its_range_although_the_center_is_killed(bare: Cluster) -> None:
    bare.start_center("--groups", str(bare.file("Group.conf", GROUPS)))
    bare.start_executor("n1", "cpu=8, memory=8G")
    # The lab borrows three cores beyond its quota; the cluster is full.
    lab, web = submitted(bare, "lab", tasks=5), submitted(bare, "web", tasks=3)
    with bare.client() as client:
        wait_until(lambda: client.job(lab).tasks.running == 5 and client.job(web).tasks.running == 3, "a full cluster")

        # A group above its quota takes from nobody else, however near its deadline is, and its own here are gone with
        # their deadlines.
        greedy = submitted(bare, "lab", resource="<6, 64M>", time_limit="60s", deadline="65s")
        wait_until(lambda: client.job(greedy).reason, "why it waits")
        assert outcomes(bare, web) == ["running"] * 3

        tight = submitted(
            bare, "news", command=["sh", "-c", "sleep 1"], resource="<2, 64M>", time_limit="40s", deadline="45s"
        )
        bare.kill_center()
        bare.start_center()
        wait_until(lambda: client.job(tight).state == "succeeded", "the tight job")
        deadline = client.job(tight).deadline
        assert deadline is not None
        assert (deadline.forecast, deadline.slack > 0) == ("met", True)
        assert outcomes(bare, web) == ["running"] * 3
        assert outcomes(bare, lab).count("preempted") == 2
        client.cancel(greedy)
        (bare.folder / "go").touch()
        wait_until(lambda: client.job(lab).state == client.job(web).state == "succeeded", "all others")
