"""Deadlines in job files: how they may be written, what is refused, and what the steps of a dag get."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from cress.model.critical_path import longest_behind
from cress.model.deadlines import deadline_of, met
from cress.model.errors import InputError
from cress.model.job import Condition, Job
from cress.model.jobfile.deadlines import WrittenDeadline, deadline, moment_of
from cress.model.jobfile.submit import parse_jobs
from cress.model.records import JobRecord, JobState
from cress.model.resources import Dimensions
from cress.model.run import Run
from cress.model.times import HOUR, MINUTE

DIMENSIONS = Dimensions()


def at(text: str) -> int:
    """A moment in UTC, in µs since the epoch."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


WRITTEN: list[tuple[object, WrittenDeadline]] = [
    ("6h", WrittenDeadline(within=6 * HOUR)),
    ("1h30m", WrittenDeadline(within=90 * MINUTE)),
    (90, WrittenDeadline(within=90_000_000)),
    ("2026-12-01 18:00", WrittenDeadline(clocks="2026-12-01 18:00:00")),
    ("2026-12-01 8:05", WrittenDeadline(clocks="2026-12-01 08:05:00")),
    ("2026-12-01T18:00:30", WrittenDeadline(clocks="2026-12-01 18:00:30")),
    ("2026-12-01 18:00Z", WrittenDeadline(moment=at("2026-12-01 18:00"))),
    ("2026-12-01T18:00:00.250+00:00", WrittenDeadline(moment=at("2026-12-01 18:00"))),
    ("2026-12-01 18:00 +02:00", WrittenDeadline(moment=at("2026-12-01 16:00"))),
    ("2026-12-01 18:00-0530", WrittenDeadline(moment=at("2026-12-01 23:30"))),
    ("2026-12-01 18:00 Europe/Berlin", WrittenDeadline(moment=at("2026-12-01 17:00"))),
]


@pytest.mark.parametrize(("value", "read"), WRITTEN)
def test_a_deadline_is_a_time_or_a_moment(value: object, read: WrittenDeadline) -> None:
    assert deadline(value) == read


@pytest.mark.parametrize(
    ("clocks", "utc"),
    [
        ("2026-12-01 18:00:00", "2026-12-01 17:00"),
        ("2026-07-01 18:00:00", "2026-07-01 16:00"),
        # Clocks are put back from 3 to 2 that night: the first time counts.
        ("2026-10-25 02:30:00", "2026-10-25 00:30"),
    ],
)
def test_a_moment_without_a_zone_is_one_of_the_cluster(clocks: str, utc: str) -> None:
    assert moment_of(clocks, ZoneInfo("Europe/Berlin")) == at(utc)


REFUSED: list[tuple[object, str, str]] = [
    ("tomorrow", "'tomorrow' is not a deadline", "6h"),
    ("18:00", "'18:00' is not a deadline", "2026-12-01 18:00"),
    ("2026-12-01", "'2026-12-01' has no time of day", "2026-12-01 18:00"),
    ("2026-13-01 18:00", "'2026-13-01 18:00' is not a moment", "24 hours"),
    ("2026-12-01 6:00pm", "there is no time zone 'pm'", "+02:00"),
    ("2026-12-01 18:00 Europe/Berlim", "there is no time zone 'Europe/Berlim'", "did you mean Europe/Berlin?"),
    ("2026-12-01 18:00 +25:00", "there is no offset +25:00", "+02:00"),
    (0, "a deadline of 0 leaves no time", "leave it out"),
    (["6h"], "a list is not a number", ""),
]


@pytest.mark.parametrize(("value", "what", "hint"), REFUSED)
def test_what_is_no_deadline_is_refused_with_what_would_be_right(value: object, what: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        deadline(value)
    assert caught.value.what == what
    assert hint in caught.value.hint


JOBS: list[tuple[dict[str, object], str]] = [
    ({"type": "service"}, "jobs[0].Deadline: belongs to jobs of type batch, cron or dag (this one is of type service)"),
    (
        {"type": "database"},
        "jobs[0].Deadline: belongs to jobs of type batch, cron or dag (this one is of type database)",
    ),
]


@pytest.mark.parametrize(("keys", "told"), JOBS)
def test_what_does_not_end_has_no_deadline(keys: dict[str, object], told: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_jobs([{"command": "x", "name": "x", "Deadline": "6h", **keys}], dimensions=DIMENSIONS, user="ann")
    assert str(caught.value) == told


def test_a_run_of_a_cron_job_has_a_deadline_of_its_own() -> None:
    entry = {"command": "x", "name": "x", "type": "cron", "when": "@daily"}
    (spec,) = parse_jobs([{**entry, "deadline": "6h"}], dimensions=DIMENSIONS, user="ann")
    assert spec.job.within == 6 * HOUR
    with pytest.raises(InputError, match="deadline: is a moment, and each run has its own"):
        parse_jobs([{**entry, "deadline": "2026-12-01 18:00"}], dimensions=DIMENSIONS, user="ann")


def test_the_deadline_belongs_to_the_whole_dag() -> None:
    steps: dict[str, dict[str, object]] = {"a": {"command": "x"}, "b": {"command": "x", "after": ["a"]}}
    specs = parse_jobs([{"type": "dag", "steps": steps, "deadline": "6h"}], dimensions=DIMENSIONS, user="ann")
    assert [spec.job.within for spec in specs] == [6 * HOUR, 0, 0]
    steps["b"]["deadline"] = "1h"
    with pytest.raises(InputError, match="deadline: belongs to the whole dag"):
        parse_jobs([{"type": "dag", "steps": steps}], dimensions=DIMENSIONS, user="ann")


def step(minutes: int | None, *after: tuple[int, Condition], family: int = -1, **more: Any) -> Job:
    limit = None if minutes is None else minutes * MINUTE
    places = tuple((-place - 1, condition) for place, condition in after)
    return Job(id=0, group="", request=(), time_limit=limit, after=places, family=family, **more)


ENDS: list[tuple[JobState, int, dict[str, int], bool | None]] = [
    # submitted at 6:00
    (JobState.SUCCEEDED, 7, {"within": HOUR}, True),
    (JobState.SUCCEEDED, 8, {"within": HOUR}, False),
    (JobState.SUCCEEDED, 8, {"deadline": 8 * HOUR}, True),
    (JobState.FAILED, 7, {"deadline": 8 * HOUR}, False),
    (JobState.TIMED_OUT, 7, {"deadline": 8 * HOUR}, False),
    (JobState.CANCELLED, 7, {"deadline": 8 * HOUR}, None),
    (JobState.CANCELLED, 9, {"deadline": 8 * HOUR}, False),
    (JobState.SUCCEEDED, 7, {}, None),
]


@pytest.mark.parametrize(("state", "ended", "keys", "expected"), ENDS)
def test_a_deadline_is_met_by_a_success_in_time(
    state: JobState, ended: int, keys: dict[str, int], expected: bool | None
) -> None:
    job = JobRecord(
        id=1, name="a", group="lab", user="ann", type="batch", gang=False, time_limit=None, request=(), state=state,
        submitted=6 * HOUR, ended=ended * HOUR, tasks=1, succeeded=1, failed=0, cancelled=0, started=0, priority=0,
    )  # fmt: skip
    run = Run(job=1, command=("x",), **keys)  # type: ignore[arg-type]
    assert met(job, run) is expected
    cron = msgspec.structs.replace(job, type="cron")
    assert deadline_of(cron, run) == 0


OK, ANY, FAILED = Condition.OK, Condition.ANY, Condition.FAILED
WHOLE = step(None, family=0)
PATHS: list[tuple[str, list[Job], list[int]]] = [
    ("a chain", [WHOLE, step(5), step(10, (1, OK)), step(20, (2, OK))], [0, 30, 20, 0]),
    ("the longer branch counts", [WHOLE, step(5), step(10, (1, OK)), step(20, (1, ANY))], [0, 20, 0, 0]),
    ("a step without a limit counts nothing", [WHOLE, step(5), step(None, (1, OK)), step(7, (2, OK))], [0, 7, 7, 0]),
    ("a clean-up after a failure counts nothing", [WHOLE, step(5), step(10, (1, FAILED))], [0, 0, 0]),
    ("tasks one after another", [WHOLE, step(5), step(10, (1, OK), tasks=5, max_running=2)], [0, 30, 0]),
    ("other jobs of the submit count nothing", [WHOLE, step(5), step(10, (1, OK), family=0)], [0, 0, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "jobs", "minutes"), PATHS)
def test_the_longest_chain_behind_each_step(what: str, jobs: list[Job], minutes: list[int]) -> None:
    assert longest_behind(jobs) == [each * MINUTE for each in minutes], what
