"""A running cluster of the release before is upgraded under load: center first, then agents, then supervisors."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.upgrade.release import OLD, Cluster, libraries_of_old, unpack, wait_until

TODAY = Path(__file__).parents[2]
EXECUTORS = ("n1", "n2")
KEPT = "echo kept $CRESS_JOB_NAME.$CRESS_TASK_INDEX $CRESS_ATTEMPT $$ >> ran; exec sleep 100000"
ONCE = "echo once $CRESS_JOB_NAME $CRESS_ATTEMPT $$ >> ran"


class Submits:
    """Jobs that come in all the time, each sent again with its key until it is acknowledged."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self.acknowledged: dict[str, int] = {}
        self._cluster, self._prefix = cluster, prefix
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._over.wait(0.1):
            name = f"{self._prefix}{number}"
            try:
                (id,) = self._cluster.submit(job(self._cluster, name, ONCE), Idempotency_Key=name)
            except (OSError, AssertionError, ValueError):
                continue  # no center listens, or it stops: the same job again
            self.acknowledged[name] = id
            number += 1

    def wait_for_more(self) -> None:
        """Wait until jobs that were submitted from now on have run."""
        first = len(self.acknowledged) + 1
        wait_until(
            lambda: all(ran(self._cluster, "once")[f"{self._prefix}{number}"] for number in range(first, first + 3)),
            "new jobs",
        )


def job(cluster: Cluster, name: str, command: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "command": command, "directory": str(cluster.folder), "resource": "<0.1, 10M>", **keys}


def lines(cluster: Cluster, kind: str) -> Iterator[tuple[str, int, int]]:
    """Name, attempt and process of every start of this kind."""
    for line in (cluster.folder / "ran").read_text().splitlines():
        found, name, attempt, pid = line.split()
        if found == kind:
            yield name, int(attempt), int(pid)


def ran(cluster: Cluster, kind: str) -> Counter[str]:
    """How often tasks of this kind were started, by name."""
    return Counter(name for name, _, _ in lines(cluster, kind))


def attempts(cluster: Cluster, jobs: list[int]) -> list[Any]:
    """The attempts of these jobs with their nodes and times."""
    fields = ("id", "node", "outcome", "placed", "started", "ended")
    return [
        [{field: attempt[field] for field in fields} for attempt in task["attempts"]]
        for number in jobs
        for task in cluster.ask(f"/v1/jobs/{number}/tasks")["tasks"]
    ]


def supervisor(cluster: Cluster, name: str) -> int:
    return int((cluster.data / "executors" / name / "supervisor.lock").read_text())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    # Another tree to come from, such as one whose loops are compiled already.
    tree = os.environ.get("CRESS_UPGRADE_FROM")
    cluster = Cluster(Path(tree) if tree else unpack(f"{OLD}/sources", tmp_path), libraries_of_old())
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.long
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_no_task_notices_and_nothing_is_lost_or_run_twice(cluster: Cluster, number: int) -> None:
    cluster.start_center()
    for name in EXECUTORS:
        cluster.start_executor(name, "--resource", "<4, 8G>")
    kept = cluster.submit(
        job(cluster, "array", KEPT, tasks=4),
        job(cluster, "gang", KEPT, tasks=2, gang=True, ports="dynamic"),
        job(cluster, "keep", KEPT, on_partition="keep"),
    )
    (service,) = cluster.submit(job(cluster, "service", KEPT, type="service", tasks=2))
    wait_until(lambda: (cluster.folder / "ran").exists() and len(ran(cluster, "kept")) == 9, "the tasks that stay")
    wait_until(lambda: all(each[-1]["started"] for each in attempts(cluster, [*kept, service])), "their reports")
    before, started = attempts(cluster, [*kept, service]), list(lines(cluster, "kept"))
    supervisors = {name: supervisor(cluster, name) for name in EXECUTORS}

    def unnoticed() -> None:
        """Nothing that ran before the upgrade has stopped, moved or been started again."""
        assert list(lines(cluster, "kept")) == started
        for _, _, pid in started:
            os.kill(pid, 0)
        assert attempts(cluster, [*kept, service]) == before

    with Submits(cluster, "first") as submits:
        submits.wait_for_more()
        # The center first: it speaks with agents and supervisors of the release before.
        cluster.stop_center(number)
        cluster.tree = TODAY
        cluster.start_center()
        for name in EXECUTORS:
            wait_until(lambda: cluster.is_up(name), f"{name} being up")  # noqa: B023
        submits.wait_for_more()
        unnoticed()
        # Agents, each with the supervisor that was there.
        for name in EXECUTORS:
            cluster.stop_agent(name)
            cluster.start_executor(name)
            submits.wait_for_more()
        assert {name: supervisor(cluster, name) for name in EXECUTORS} == supervisors
        unnoticed()
        # A restart of the upgraded center, and of an upgraded agent, changes nothing either.
        cluster.stop_center(signal.SIGKILL)
        cluster.start_center()
        cluster.stop_agent("n1")
        cluster.start_executor("n1")
        submits.wait_for_more()
        unnoticed()
    # What the release before had started ends, and is told, under the new one.
    for id in (*kept, service):
        cluster.ask(f"/v1/jobs/{id}/cancel", {})
    for id in (*kept, service):
        wait_until(lambda: cluster.ask(f"/v1/jobs/{id}")["state"] == "cancelled", "the end of what stayed")  # noqa: B023
    # Supervisors at leisure: an executor that is stopped ends its own, and the next start brings the new one.
    with Submits(cluster, "second") as more:
        for name in EXECUTORS:
            cluster.ask(f"/v1/nodes/{name}/drain", {"deadline": 60})
            wait_until(lambda: not cluster.ask(f"/v1/nodes/{name}")["tasks"], f"{name} being idle")  # noqa: B023
            cluster.executors[name].terminate()
            cluster.executors[name].wait(60)
            cluster.start_executor(name)
            cluster.ask(f"/v1/nodes/{name}/uncordon", {})
            assert supervisor(cluster, name) != supervisors[name]
            more.wait_for_more()
    acknowledged = submits.acknowledged | more.acknowledged
    wait_until(lambda: set(acknowledged) <= set(ran(cluster, "once")), "all that was acknowledged")
    assert {name: count for name, count in ran(cluster, "once").items() if count != 1} == {}
    wait_until(
        lambda: all(cluster.ask(f"/v1/jobs/{id}")["state"] == "succeeded" for id in acknowledged.values()), "their ends"
    )
