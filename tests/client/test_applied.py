"""Following what was applied: each case is a service, as it looks again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from cress.client.applied import Progress
from cress.client.blocking.applied import follow
from cress.client.blocking.http import Http
from cress.client.blocking.patient import PatientHttp
from cress.client.calls import PreparedCall
from cress.client.retries import RetryBudget
from cress.client.waiting import Waiting
from cress.protocol.job_views import AppliedJob, JobView, ServiceView, TaskCounts
from tests.cli.test_families import view


def looks(*services: ServiceView | str) -> list[JobView]:
    """The views of a job, one for each look, the last one again and again; a text is the state of a job that is
    over.
    """
    made = []
    for each in services:
        more: dict[str, Any] = (
            {"state": each, "reason": f"{each} by ann"} if isinstance(each, str) else {"service": each}
        )
        made.append(view("service", TaskCounts(total=1), **more))
    return made


class Answers:
    """A connection whose answers are the views of jobs a, b, …: the next one of each with every look."""

    def __init__(self, jobs: Sequence[list[JobView]]) -> None:
        self.jobs = jobs
        self.number = 0

    def ask(self, call: PreparedCall[JobView]) -> JobView:
        views = self.jobs[int(call.path.rsplit("/", 1)[-1])]
        return views[min(self.number, len(views) - 1)]

    def sleep(self, seconds: float) -> None:
        self.number += 1
        assert self.number < 1000, "it has no end"


def followed(
    versions: Sequence[int | None], *jobs: list[JobView], timeout: float | None = None
) -> list[tuple[str, Progress]]:
    """What is told of jobs a, b, …, without what they wait for meanwhile."""
    applied = [AppliedJob(id=n, name="ab"[n], what="updated", version=version) for n, version in enumerate(versions)]
    told: list[tuple[str, Progress]] = []
    answers = Answers(jobs)
    center = PatientHttp(cast(Http, answers), RetryBudget(0))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("cress.client.blocking.applied.sleep", answers.sleep)
        follow(applied, timeout, center, lambda job, progress: told.append((job.name, progress)))
    return [(name, progress) for name, progress in told if not progress.waits]


def of(ready: int, version: int = 2, **more: Any) -> ServiceView:
    return ServiceView(wanted=1, ready=ready, version=version, updated=ready, **more)


def crashing(failures: int) -> ServiceView:
    return of(0, failing=f"task 0 failed {failures} times before it was ever ready", failures=failures)


def problems(told: list[tuple[str, Progress]]) -> list[tuple[str, str]]:
    return [(name, progress.problem.partition(";")[0]) for name, progress in told]


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        ([of(0), of(1)], ""),
        (
            [of(0), of(1, 3, returned=True, returned_version=2, returned_because="version 2 was rolled back")],
            "version 2 was rolled back",
        ),
        ([of(0), of(1, 3)], "version 3 has taken the place of version 2 before that was ready"),
        ([of(0), of(0, failing="task 0 was not ready 5m after its start")], "task 0 was not ready 5m after its start"),
        # An earlier version that was rolled back is another matter.
        ([of(0, returned=True, returned_version=1, returned_because="no"), of(1)], ""),
        ([of(0), "cancelled"], "cancelled by ann"),
        ([of(0), crashing(3)], "task 0 failed 3 times before it was ever ready"),
        # Of which it was told before that it is ready: not all of its tasks are new.
        ([ServiceView(wanted=2, ready=2, version=2, updated=1), of(1)], ""),
    ],
)
def test_how_one_ends(job: list[ServiceView | str], problem: str) -> None:
    (told,) = followed([2], looks(*job))
    assert problems([told]) == [("a", problem)]
    assert told[1].ready == (not problem)


def test_what_needs_another_job_of_the_file_is_given_time() -> None:
    database = looks(*[of(0)] * 6, of(1))
    web = looks(of(0), crashing(3), crashing(3), crashing(4), crashing(5), crashing(5), crashing(5), crashing(6), of(1))
    assert followed([2, 2], database, web) == [("a", Progress(ready=True)), ("b", Progress(ready=True))]
    hopeless = looks(of(0), *(crashing(number) for number in range(3, 20)))
    told = followed([2, 2], database, hopeless)
    assert problems(told) == [("a", ""), ("b", "task 0 failed 11 times before it was ever ready")]
    # Both are in a bad way.
    assert problems(followed([2, 2], looks(of(0), crashing(3)), looks(of(0), of(0), crashing(3)))) == [
        ("a", "task 0 failed 3 times before it was ever ready"),
        ("b", "task 0 failed 3 times before it was ever ready"),
    ]


def test_what_has_no_version_has_nothing_to_wait_for() -> None:
    assert followed([None], looks(of(0))) == [("a", Progress(ready=True))]


def test_the_end_of_patience() -> None:
    (told,) = followed([2], looks(of(0, waits="update in progress")), timeout=0.0)
    assert told[1] == Progress(problem="not ready after 0 s: update in progress; the applied changes go on", late=True)


def test_a_reason_is_told_when_it_lasts_and_seldom_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("cress.client.waiting.time.monotonic", lambda: now[0])
    waiting, told = Waiting(5.0), []
    for second in range(60):
        now[0] = float(second)
        if waiting.tells(f"again in {second} s"):
            told.append(second)
    assert told == [5, 10, 20, 40]
    assert waiting.until(30.0) == 21.0
    assert not any(Waiting(5.0).tells("at once") for _ in range(3))
