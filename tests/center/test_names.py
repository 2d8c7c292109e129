"""The name service over the API: where tasks are, and what a stream tells of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx

from cress.client import Client
from tests.budget import slowness_now
from tests.center.program import PATIENCE, Center, eventually


def client(center: Center) -> Client:
    return Client(center.address["url"], center.token, timeout=PATIENCE)


def test_a_name_is_told_from_the_start_of_its_task_to_its_end(center: Center) -> None:
    with center.executor() as executor, client(center) as calls:
        id = center.submit(name="web")
        (launch,) = executor.launches()
        assert calls.resolve("web") == ()
        executor.started(launch.attempt)
        (place,) = eventually(lambda: calls.resolve("web"))
        assert (place.job, place.task, place.attempt, place.node, place.group) == (
            id,
            0,
            launch.attempt,
            "n1",
            "default",
        )
        assert (calls.resolve("web", group="default"), calls.resolve("web", group="other")) == ((place,), ())
        assert calls.resolve("nobody at all?") == ()
        executor.ended(launch.attempt)
        eventually(lambda: calls.resolve("web") == ())


def test_a_stream_begins_with_all_and_goes_on_with_changes(center: Center) -> None:
    with center.executor() as executor, client(center) as calls:
        center.submit(name="web", tasks=2)
        first, second = (launch.attempt for launch in executor.launches())
        answers = calls.watch_names("web")
        assert next(answers) == ()
        executor.started(first)
        assert [place.attempt for place in next(answers)] == [first]
        executor.started(second)
        assert [place.attempt for place in next(answers)] == [first, second]
        executor.ended(first)
        assert [place.attempt for place in next(answers)] == [second]
        again = calls.watch_names("web")
        assert [place.attempt for place in next(again)] == [second]
        center.post("/v1/jobs/1/cancel")  # told to stop: gone, although it has not ended
        assert next(answers) == next(again) == ()


def test_only_changes_are_sent(center: Center) -> None:
    with center.executor() as executor:
        center.submit(name="web", tasks=2)
        launches = executor.launches()
        executor.started(*(launch.attempt for launch in launches))
        with center.http.stream("GET", "/v1/names/web/watch") as answer:
            lines = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
            told = next(lines)["places"]
            while len(told) < 2:  # the reports may still be on their way
                told += next(lines)["places"]
            for _ in range(3):
                center.submit(name="other", hold=True)
            executor.ended(launches[1].attempt)
            change = next(lines)
            assert (change["places"], change["gone"], change["all"]) == ([], [launches[1].attempt], False)


def test_without_following_the_stream_ends_at_once(center: Center) -> None:
    answer = center.http.get("/v1/names/web/watch", params={"follow": "false"})
    (change,) = told_in(answer)
    assert (change["places"], change["gone"], change["all"]) == ([], [], True)
    assert f"id: {change['revision']}\nevent: places\n" in answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")


def told_in(answer: httpx.Response) -> list[Any]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


def since(center: Center, revision: str, **query: str) -> list[Any]:
    """What a reader is told who was cut off behind a revision."""
    asked = {"follow": "false", "after": revision} | query
    return told_in(center.http.get("/v1/names/web/watch", params=asked))


def test_a_reader_that_was_cut_off_goes_on_without_a_gap(center: Center) -> None:
    with center.executor() as executor:
        center.submit(name="web", tasks=2)
        first, second = (launch.attempt for launch in executor.launches())
        executor.started(first)
        page = eventually(lambda: (page := center.get("/v1/names/web"))["places"] and page)
        assert since(center, page["revision"]) == []
        executor.started(second)
        executor.ended(first)
        eventually(lambda: [each["attempt"] for each in center.get("/v1/names/web")["places"]] == [second])
        (change,) = since(center, page["revision"])
        assert [place["attempt"] for place in change["places"]] == [second]
        assert (change["gone"], change["all"]) == ([first], False)
        assert since(center, change["revision"]) == []
        (of_header,) = told_in(
            center.http.get(
                "/v1/names/web/watch",
                params={"follow": "false"},
                headers={"Last-Event-ID": page["revision"]},
            )
        )
        assert of_header == change
        assert [each["all"] for each in since(center, "another.life-3")] == [True]
        assert "is not a revision" in center.get("/v1/names/web/watch", 422, after="yesterday")["message"]


def test_an_end_is_told_at_once_also_right_after_a_start(center: Center) -> None:
    with center.executor() as executor, client(center) as calls:
        center.submit(name="web", tasks=2)
        first, second = (launch.attempt for launch in executor.launches())
        answers = calls.watch_names("web")
        assert next(answers) == ()
        took = []
        for _ in range(3):
            executor.started(first, second)
            while len(next(answers)) < 2:
                pass
            executor.ended(first, second)
            begun = time.monotonic()
            while next(answers):
                pass
            took.append(time.monotonic() - begun)
            center.submit(name="web", tasks=2)
            first, second = (launch.attempt for launch in executor.launches())
        assert min(took) < 0.15 * slowness_now().wall, took


def test_a_stream_ends_with_its_center(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center, client(center) as calls:
        answers = calls.watch_names("web")
        assert next(answers) == ()
        assert center.stop() == 0
        assert list(answers) == []


def test_a_name_needs_the_token(center: Center) -> None:
    assert httpx.get(f"{center.address['url']}/v1/names/web", trust_env=False).status_code == 401
