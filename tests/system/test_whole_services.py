"""A service that starts as a whole, as real processes: none of its tasks starts before all can; lost ones are replaced
one by one.
"""

from __future__ import annotations

from tests.system.cluster import Cluster, wait_until

SEARCH = """
name: search
type: service
tasks: 2
gang: true
resource: <2, 64M>
max_per_node: 1
command: 'echo $CRESS_NODE >> {folder}/said; exec sleep 600'
"""


def test_the_tasks_of_a_service_start_together(bare: Cluster) -> None:
    bare.start_center()
    for name in ("n1", "n2"):
        bare.start_executor(name, "<2, 256M>")
    said = bare.folder / "said"
    with bare.client() as client:
        other = client.submit([{"command": "sleep 600", "resource": "<1, 64M>", "nodes": "n2"}]).jobs[0].id
        wait_until(lambda: client.job(other).state == "running", "the other job")
        sent = bare.cress("submit", bare.file("search.yaml", SEARCH.format(folder=bare.folder)))
        assert sent.returncode == 0, sent.stderr
        search = other + 1
        wait_until(lambda: "all tasks of the service" in client.job(search).reason, "the reason")
        assert not said.exists()
        client.cancel(other)
        wait_until(lambda: said.exists() and len(said.read_text().splitlines()) == 2, "the start")
        assert sorted(said.read_text().splitlines()) == ["n1", "n2"]
        members = client.jobs(family=search).jobs
        placed = {task.attempts[0].placed for member in members for task in client.tasks(member.id).tasks}
        assert len(placed) == 1
