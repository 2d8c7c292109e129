"""Leases with real processes: a worker's lease is lent and taken back, its holder falls silent, the center is killed
meanwhile.
"""

from __future__ import annotations

import time

from cress import Client
from cress.client import LeaseView
from tests.system.cluster import Cluster, wait_until

# Notes its end; goes at the first signal.
WORKER = ["sh", "-c", "trap 'echo told >> said; exit 0' TERM; echo up >> said; while :; do sleep 0.05; done"]
# Never goes by itself.
STUBBORN = ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"]


def begin(cluster: Cluster, *options: str) -> Client:
    given = [word for option in ("lending=on", *options) for word in ("--option", option)]
    cluster.start_center(*given)
    cluster.start_executor("n1", "cpu=4, memory=8G")
    return Client(data=cluster.data)


def one(client: Client, id: str = "") -> LeaseView:
    (found,) = client.leases.get(id) if id else client.leases.list(workload="dask")
    return found


def held(client: Client, workload: str = "dask") -> LeaseView:
    def look() -> LeaseView | None:
        found = client.leases.list(workload=workload)
        return found[0] if found and found[0].state == "held" else None

    found = wait_until(look, "a lease that is held")
    assert found is not None
    return found


def test_what_a_worker_does_not_use_is_lent_and_taken_back_although_the_center_is_killed(bare: Cluster) -> None:
    with begin(bare, "reclaim_grace=1s") as client:
        client.leases.request(
            "<4, 512M>", workload="dask", command=WORKER, directory=bare.folder, term="10min", stop_grace="20s"
        )
        lease = held(client)
        assert lease.uses == lease.holds == {"cpu": "4", "memory": "512M"}
        batch = client.submit({"command": STUBBORN, "resource": "<3, 64M>", "time_limit": "60s", "stop_grace": "10min"})
        assert wait_until(batch.reason, "why it waits")

        lease = client.leases.use(lease.id, "<1, 64M>")
        wait_until(lambda: batch.state() == "running", "the loan")
        (loan,) = one(client, lease.id).lent
        assert (loan.job, loan.amounts["cpu"]) == (batch.id, "3")

        bare.kill_center()
        bare.start_center()
        assert one(client, lease.id).lent == (loan,)
        (table,) = [line for line in bare.cress("leases").stdout.splitlines() if "dask" in line]
        assert f"{batch.id}.0" in table

        lease = client.leases.use(lease.id, "<4, 512M>")
        assert (lease.uses["cpu"], lease.wants["cpu"]) == ("1", "4")
        bare.kill_center()
        bare.start_center()
        # Its own grace is much longer than that of loans.
        wait_until(lambda: one(client, lease.id).uses == lease.holds, "what was lent is back")
        assert wait_until(lambda: batch.state() == "waiting", "the borrower waits again")
        (attempt,) = batch.task().attempts
        assert (attempt.outcome, attempt.error) == (
            "preempted",
            "the workload whose lease it borrowed from needs it back",
        )
        client.leases.release(lease.job or 0)
        wait_until(lambda: client.leases.list() == [], "no lease")
        assert (bare.folder / "said").read_text().split() == ["up", "told"]
        wait_until(lambda: batch.state() == "running", "the borrower runs again")
        batch.cancel()


def test_a_holder_that_falls_silent_loses_its_leases(bare: Cluster) -> None:
    with begin(bare) as client:
        client.leases.request("<1, 64M>", workload="dask", count=2, term="3s")
        client.leases.request("<1, 64M>", workload="spark", term="10min")
        lease = held(client)
        until = time.monotonic() + 4
        while time.monotonic() < until:
            client.leases.renew(lease.id)
            time.sleep(0.2)
        assert held(client).expires is not None
        bare.kill_center()
        bare.start_center()
        wait_until(lambda: client.leases.list(workload="dask") == [], "the end of the silent holder's leases")
        assert client.job(lease.job or 0).reason() == "nothing was heard of the holder for its term"
        assert held(client, "spark").workload == "spark"


def test_tasks_of_a_holder_run_inside_its_lease(bare: Cluster) -> None:
    with begin(bare) as client:
        client.leases.request("<4, 1G>", workload="dask", count=1)
        lease = held(client)
        assert lease.idle == lease.holds
        task = client.leases.submit(lease.id, {"command": STUBBORN, "resource": "<3, 64M>"})
        wait_until(lambda: task.state() == "running", "the task")
        (inside,) = one(client, lease.id).tasks
        assert (inside.job, inside.amounts["cpu"]) == (task.id, "3")
        assert one(client, lease.id).idle["cpu"] == "1"
        task.cancel()
        wait_until(lambda: one(client, lease.id).idle == lease.holds, "all of it is idle")
        (more,) = client.leases.grow(lease.id)
        assert (more.state, more.workload) == ("waiting", "dask")
        client.leases.shrink(lease.id)
        wait_until(lambda: client.leases.get(more.job or 0)[0].state == "held", "the other lease")
