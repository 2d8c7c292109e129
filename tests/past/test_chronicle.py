"""The story of a job, a node or a group: one line each, from the log alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.lifecycle.inputs import Awaited, Hold, Scale, Update
from cress.model.errors import InputError
from cress.model.waits import WaitFor
from cress.past.chronicle import Subject, story
from cress.past.recorded_log import RecordedLog
from tests.lifecycle.builders import job
from tests.lifecycle.kept import service
from tests.past.recorder import UTC, Recorder, busy_day

SECOND = 1_000_000


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> RecordedLog:
    """The log of one eventful day."""
    return RecordedLog(busy_day(tmp_path_factory.mktemp("day")))


def lines(log: RecordedLog, name: str) -> list[str]:
    """The texts of a story."""
    return [entry.text for entry in story(log, name)[1]]


def test_a_job_that_preempts_and_ends(day: RecordedLog) -> None:
    assert lines(day, "page") == [
        "2 (page) submitted by bob to group web: 2 tasks",
        "2 (page) room is kept for it on n1; 1 running task stops for it",
        "2 (page) preempts 1.6 on n1",
        "2.0 (page) starts on n1; 1 running task left for it",
        "2 (page) room is kept for it on n1; 1 running task stops for it",
        "2 (page) preempts 1.4 on n1",
        "2.1 (page) starts on n1; 1 running task left for it",
        "2.0 (page) ended: succeeded",
        "2.1 (page) ended: succeeded",
        "2 (page) the job is over: succeeded",
    ]


def test_the_victim_says_for_whom(day: RecordedLog) -> None:
    told = lines(day, "1")
    why = "preempted for job 2 (page) of group web"
    rule = "group web is owed its quota (uses 0 of 4 cores), and group ads uses 8 of 4 cores"
    assert f"1.6 (long) is told to stop within 5 s: {why}: {rule}" in told
    assert f"1.6 (long) ended: preempted, signal 15; {why}; it runs again" in told
    # A program that runs on over a restart of the center is told once.
    assert sum(text.startswith("1.1 (long) runs as process") for text in told) == 1


def test_a_cancelled_and_a_failed_job(day: RecordedLog) -> None:
    assert lines(day, "dropped")[1:] == [
        "4 (dropped) it starts no more tasks, and its tasks are stopped by ann",
        "4 (dropped) the job is over: cancelled",
    ]
    assert "5.0 (last) ended: failed, exit code 3" in lines(day, "last")


def test_a_node_and_a_group(day: RecordedLog) -> None:
    node = lines(day, "n2")
    assert node[0] == "its executor is connected"
    assert any("no longer connected" in text for text in node)
    assert any("starts on n2" in text for text in node)
    group = lines(day, "web")
    assert group[0] == "the groups are applied; its quota holds from now on"
    assert not any("(long)" in text for text in group)


def test_only_a_part_of_the_time(day: RecordedLog) -> None:
    _, entries = story(day, "page", UTC + 50 * SECOND)
    assert {entry.kind for entry in entries} == {"ended", "over"}


def test_names_that_mean_several_things_or_nothing(tmp_path: Path) -> None:
    it = Recorder(tmp_path)
    it.submit(job(1, group="ads", name="web"))
    log = RecordedLog(it.close())
    with pytest.raises(InputError, match="job:web or group:web"):
        story(log, "web")
    assert story(log, "job:web")[0].kind == "job"
    assert story(log, "group:web")[0].name == "web"
    with pytest.raises(InputError, match="the log knows no job, node or group 'nobody'"):
        story(log, "nobody")


def test_a_job_that_waits_for_something_outside_says_what_became_of_it(tmp_path: Path) -> None:
    it, thing, page = Recorder(tmp_path), WaitFor("path", "/in/a.csv"), WaitFor("url", "https://a")
    (there,) = it.submit(job(1, group="ads", name="there", wait_for=(thing,)))
    (never,) = it.submit(job(1, group="ads", name="never", wait_for=(thing, page)))
    it.step(Awaited(job=there, what=thing))
    it.step(Awaited(job=never, what=page, problem="it is not in a folder in which jobs may wait for files"))
    log = RecordedLog(it.close())
    assert lines(log, "there")[:2] == [
        "1 (there) submitted by ann to group ads: 1 task, waiting for path /in/a.csv",
        "1 (there) path /in/a.csv is there",
    ]
    assert lines(log, "never")[:2] == [
        "2 (never) submitted by ann to group ads: 1 task, waiting for path /in/a.csv and url https://a",
        "2 (never) url https://a: it is not in a folder in which jobs may wait for files",
    ]


def test_the_story_of_a_service_tells_what_its_users_did(tmp_path: Path) -> None:
    it = Recorder(tmp_path)
    (number,) = it.submit(service(2, "shop", group="ads", gang=True))
    it.step(Scale(job=number, tasks=3))
    it.step(Hold(job=number, held=True, by="eve"), Hold(job=number, held=False, by="eve"))
    it.step(Update(job=number, spec=service(3, "shop", group="ads", gang=True, priority=4)))
    it.step(Scale(job=99, tasks=3))
    subject, entries = story(RecordedLog(it.close()), "shop")
    assert subject == Subject("job", str(number))
    assert [entry.text for entry in entries if entry.job == number] == [
        "1 (shop) submitted by ann to group ads: a service of 2 tasks, all at once",
        "1 (shop) scaled to 3 tasks",
        "1 (shop) held by eve",
        "1 (shop) released by eve",
        "1 (shop) updated to version 2",
    ]
