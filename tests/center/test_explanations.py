"""Explanations through the API: reason, expected start and remedies, by a fork of the center."""

from __future__ import annotations

import time

import pytest

from tests.center.program import Center, eventually


def test_a_waiting_job_is_explained(center: Center) -> None:
    with center.executor("n1") as n1:
        running = center.submit(name="one", resource="<3, 1G>", time_limit="1h")
        (launch,) = n1.launches()
        n1.started(launch.attempt)
        eventually(lambda: center.get(f"/v1/jobs/{running}")["started"])
        waiting = center.submit(name="two", resource="<2, 1G>")
        found = center.get(f"/v1/jobs/{waiting}/explanation")
        assert found["job"] == waiting
        assert found["reason"] == center.get(f"/v1/jobs/{waiting}")["reason"]
        assert found["start"]["likely"] == pytest.approx(time.time() + 3600, abs=60)
        assert found["start"]["because"] == running
        assert found["nearest"] == [{"node": "n1", "lacks": ["cpu 1"]}]
        assert [remedy["text"] for remedy in found["remedies"]] == [
            "with cpu of at most 1", "with one more node like n1", f"when job {running} ends",
        ]  # fmt: skip
        # Nothing of this has happened.
        assert center.get("/v1/state")["jobs_waiting"] == 1
        assert center.get(f"/v1/jobs/{running}/explanation")["reason"] == ""


def test_a_job_that_does_not_exist_is_not_found(center: Center) -> None:
    center.get("/v1/jobs/99/explanation", 404)
