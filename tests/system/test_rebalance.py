"""Moving running tasks with real processes: a service spreads, a gang gets its nodes, the center is killed
meanwhile.
"""

from __future__ import annotations

import re
import signal
from functools import partial

import pytest

from cress.client import Client
from tests.system.cluster import PATIENCE, Cluster, wait_until

# Goes two seconds after the signal; says if it ever runs beside itself.
SLOW = """
mkdir lock || { echo twice >> said; exit 1; }
echo up >> said
trap 'sleep 2; rmdir lock; exit 1' TERM
while :; do sleep 0.05; done
"""
# Goes as soon as the test lets it go.
HELD = "trap 'until [ -e go ]; do sleep 0.05; done; exit' TERM; while :; do sleep 0.05; done"
WEB = """
- name: web
  type: service
  tasks: 3
  minimum: 2
  resource: <0.1, 64M>
  command: exec sleep 600
"""

pytestmark = pytest.mark.long


def nodes_of(client: Client, job: int) -> dict[int, str]:
    """The node of each running task of a job."""
    found = {}
    for task in client.tasks(job).tasks:
        if task.state == "running" and task.attempts:
            found[task.index] = task.attempts[-1].node
    return found


def _is_on(client: Client, job: int, name: str) -> bool:
    return nodes_of(client, job) == {0: name}


def half_full(cluster: Cluster, command: str = "sleep 600") -> dict[str, int]:
    """Movable jobs of two cores on n1 and n2, which have four, beside an empty n3; the jobs by node."""
    jobs = {}
    with cluster.client() as client:
        for name in ("n1", "n2"):
            cluster.start_executor(name, "<4, 1G>")
            keys = {"resource": "<2, 64M>", "movable": True, "stop_grace": "10s", "directory": str(cluster.folder)}
            made = client.submit([{"command": command if name == "n1" else "sleep 600", "name": f"on-{name}", **keys}])
            filler = client.submit([{"command": "sleep 600", "resource": "<2, 64M>"}])
            jobs[name] = made.jobs[0].id
            wait_until(partial(nodes_of, client, filler.jobs[0].id), "a full node")
            wait_until(partial(_is_on, client, jobs[name], name), f"a task on {name}")
            if name == "n2":
                client.cancel(filler.jobs[0].id)
                client.cancel(filler.jobs[0].id - 2)
    cluster.start_executor("n3", "<4, 1G>")
    return jobs


def test_a_service_whose_tasks_are_all_on_the_first_node_spreads(bare: Cluster) -> None:
    bare.start_center()
    bare.start_executor("n1", "<4, 1G>")
    bare.cress("apply", bare.file("web.yaml", WEB))
    with bare.client() as client:
        wait_until(lambda: set(nodes_of(client, 1).values()) == {"n1"} and len(nodes_of(client, 1)) == 3, "web on n1")
        bare.start_executor("n2", "<4, 1G>")
        bare.start_executor("n3", "<4, 1G>")
        told = bare.cress("rebalance")
        assert told.stdout.startswith(
            "2 moves, which lose no work; 3 running tasks may move\non more nodes: 1 service (1)\n"
        )
        assert set(nodes_of(client, 1).values()) == {"n1"}
        done = bare.cress("rebalance", "--apply")
        assert done.returncode == 0, done.stderr
        assert re.findall(r"^1\.\d moved from n1 to (n[23])$", done.stdout, re.MULTILINE) in (
            ["n2", "n3"],
            ["n3", "n2"],
        )
        assert done.stdout.endswith("2 of 2 tasks moved\n")
        assert sorted(nodes_of(client, 1).values()) == ["n1", "n2", "n3"]
        again = bare.cress("rebalance", "--goal", "spread", "--apply")
        assert again.stdout == "there is nothing worth moving: 3 running tasks may move\n"


def test_a_gang_gets_its_nodes(bare: Cluster) -> None:
    bare.start_center()
    half_full(bare)
    with bare.client() as client:
        gang = client.submit(
            [{"command": "sleep 600", "resource": "<4, 64M>", "tasks": 2, "gang": True, "name": "gang"}]
        )
        number = gang.jobs[0].id
        wait_until(lambda: client.job(number).reason, "a reason")
        done = bare.cress("rebalance", "--for", "gang", "--apply")
        assert done.returncode == 0, done.stderr
        assert f"job {number} starts: " in done.stdout
        assert done.stdout.count(" moved from ") == 1
        wait_until(lambda: client.job(number).state == "running", "the gang")
        running = bare.cress("rebalance", "--for", "gang")
        assert (running.returncode, "does not wait" in running.stderr) == (3, True)


def test_a_center_that_is_killed_goes_on_and_no_task_runs_twice(bare: Cluster) -> None:
    bare.start_center()
    jobs = half_full(bare, SLOW)
    with bare.client() as client:
        moving = jobs["n1"]
        plan = client.plan_moves(goals=("nodes",))
        (move,) = [each for each in plan.moves if each.job == moving] or plan.moves
        client.begin_moves(plan)
        bare.kill_center()
        bare.start_center()
        wait_until(lambda: client.last_round().state != "moving", "the end of the round")
        last = client.last_round()
        assert (last.state, last.problem, len(last.done)) == ("done", "", len(plan.moves))
        assert nodes_of(client, move.job or 0) == {0: move.to}
        said = (bare.folder / "said").read_text().split()
        assert "twice" not in said
        kinds = [each.kind for each in client.events(after=0, follow=False)]
        assert (kinds.count("task.moved"), kinds.count("rebalance.ended")) == (len(plan.moves), 1)


def test_ctrl_c_ends_a_round_after_the_step_under_way(bare: Cluster) -> None:
    bare.start_center()
    bare.start_executor("n1", "<4, 1G>")
    held = WEB.replace("exec sleep 600", HELD) + f"  stop_grace: 5min\n  directory: {bare.folder}\n"
    bare.cress("apply", bare.file("web.yaml", held))
    with bare.client() as client:
        wait_until(lambda: len(nodes_of(client, 1)) == 3, "web on n1")
        bare.start_executor("n2", "<4, 1G>")
        bare.start_executor("n3", "<4, 1G>")
        with bare.running("rebalance", "--apply") as process:
            wait_until(lambda: client.last_round().under_way, "the first step")
            process.send_signal(signal.SIGINT)
            wait_until(lambda: "DELETE /v1/rebalance" in bare.cress("audit", "--wide").stdout, "the request to stop")
            (bare.folder / "go").touch()
            out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, err
        assert "1 of 2 tasks moved" in out
        assert "interrupted; 1 of 2 tasks moved" in err
        last = client.last_round()
        assert (last.state, len(last.done), len(last.left), last.under_way) == ("stopped", 1, 1, ())
        assert len(nodes_of(client, 1)) == 3
        assert bare.cress("rebalance", "--apply").stdout.endswith("1 of 1 task moved\n")
