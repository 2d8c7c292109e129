"""Attempts on nodes, past and running, over the real API; users see those of jobs that they may see."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.center.program import Center
from tests.center.test_users import own, user_of

__all__ = ["own"]


def outcomes(found: dict[str, Any]) -> list[tuple[str, int, int, str]]:
    return [(one["node"], one["job"], one["task"], one["outcome"]) for one in found["attempts"]]


def test_past_and_running_attempts_of_nodes(center: Center) -> None:
    with center.executor("n1") as n1:
        past = center.submit(name="past", resource="<1, 1G>")
        (launch,) = n1.launches()
        n1.started(launch.attempt)
        n1.ended(launch.attempt)
        running = center.submit(name="now", resource="<1, 1G>", time_limit="1h")
        (launch,) = n1.launches()
        n1.started(launch.attempt)
        found = center.get("/v1/attempts", nodes="n1, n2")
        assert outcomes(found) == [("n1", running, 0, "running"), ("n1", past, 0, "succeeded")]
        assert found["attempts"][0]["ended"] is None
        assert found["attempts"][0]["expected"] - found["attempts"][0]["started"] == pytest.approx(3600)
        assert found["attempts"][1]["ended"] >= found["attempts"][1]["placed"]
        # A page says when there is more, and a span leaves out what did not run in it.
        assert center.get("/v1/attempts", nodes="n1", limit=1)["more"]
        earlier = time.time() - 3600
        assert center.get("/v1/attempts", nodes="n1", since=earlier - 60, until=earlier)["attempts"] == []
        assert center.get("/v1/attempts", nodes="n2")["attempts"] == []
        assert center.get("/v1/attempts", 422)["faults"][0]["what"] == "no node is named"


def test_a_user_sees_attempts_of_visible_jobs_alone(own: Center) -> None:
    with user_of(own, "ann") as ann, user_of(own, "bob") as bob, own.executor("n1") as n1:
        answer = ann.post("/v1/jobs", json={"jobs": [{"command": "true", "group": "web"}]})
        number = answer.json()["jobs"][0]["id"]
        n1.launches()
        assert outcomes(ann.get("/v1/attempts", params={"nodes": "n1"}).json()) == [("n1", number, 0, "running")]
        assert bob.get("/v1/attempts", params={"nodes": "n1"}).json()["attempts"] == []
