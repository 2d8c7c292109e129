"""The name service over the API: where tasks are, and what a stream tells of them."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from cress.client import Client
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
            assert next(lines) == {"places": [], "gone": [launches[1].attempt], "all": False}


def test_without_following_the_stream_ends_at_once(center: Center) -> None:
    answer = center.http.get("/v1/names/web/watch", params={"follow": "false"})
    assert 'event: places\ndata: {"places":[],"gone":[],"all":true}\n\n' in answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_a_stream_ends_with_its_center(tmp_path: Path) -> None:
    with Center(tmp_path / "data") as center, client(center) as calls:
        answers = calls.watch_names("web")
        assert next(answers) == ()
        assert center.stop() == 0
        assert list(answers) == []


def test_a_name_needs_the_token(center: Center) -> None:
    assert httpx.get(f"{center.address['url']}/v1/names/web", trust_env=False).status_code == 401
