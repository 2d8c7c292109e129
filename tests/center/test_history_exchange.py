"""Centers that share a store but no history: each copies what it lacks from the others."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from cress.center.leader.mover import weight_of
from cress.store.history import History
from cress.store.history_mark import write_mark
from tests.center.program import Center, eventually
from tests.servers.logs import empty_place
from tests.servers.zookeeper import Ensemble
from tests.store.test_sqlite import attempt, record


def _worked_alone(data: Path, *jobs: int) -> None:
    """Give a center a history of jobs that ended while the others did not run."""
    data.mkdir(mode=0o700)
    now = time.time_ns() // 1000
    with closing(History(f"sqlite:///{data / 'history.db'}")) as history:
        for number in jobs:
            job = record(number, name=f"j{number}", group="lab", user="ann", ended=now)
            ran = msgspec.structs.replace(attempt(10 * number, number, 0), placed=now - 60_000_000, ended=now)
            write_mark(data / "history.mark", history.add([(job, None)], [ran], {number: weight_of(ran, job)}))


def test_a_center_that_did_not_run_for_a_time_gets_what_ended_meanwhile(zookeeper: Ensemble, tmp_path: Path) -> None:
    """Found by a fail-over: a job had ended 100 s before, and the new leader said that it is not kept any more."""
    place = empty_place(zookeeper)
    _worked_alone(tmp_path / "one", 1, 2, 3001)
    _worked_alone(tmp_path / "two", 2, 3)
    with (
        Center(tmp_path / "one", forked=True, store=place) as first,
        Center(tmp_path / "two", forked=True, store=place, standby=True) as second,
    ):
        for center in (first, second):
            for number in (1, 2, 3, 3001):
                job: Any = eventually(partial(_found, center, number))
                assert (job["name"], job["state"]) == (f"j{number}", "succeeded")
                tasks = center.get(f"/v1/jobs/{number}/tasks", stale="ok")["tasks"]
                assert [each["node"] for each in tasks[0]["attempts"]] == ["n1"]
            used = center.get("/v1/usage", stale="ok")["usage"]
            assert sum(each["succeeded"] for each in used) == 4
            assert sum(each["core_seconds"] for each in used) == 4 * 60


def _found(center: Center, number: int) -> object:
    answer = center.http.get(f"/v1/jobs/{number}", params={"stale": "ok"})
    return answer.json() if answer.status_code == 200 else None
