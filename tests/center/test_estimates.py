"""Estimates of a live center: what ran before it was started counts."""

from __future__ import annotations

from pathlib import Path

from tests.center.program import Center, eventually

GROUPS = """
Name: lab
ResourceQuota: 4
SchedPolicy: BackFill
Estimates: predicted
"""


def test_a_center_that_starts_again_knows_how_long_jobs_ran(tmp_path: Path) -> None:
    def submit(center: Center, name: str, cpu: int, limit: str) -> int:
        return center.submit(name=name, group="lab", resource={"cpu": cpu}, time_limit=limit)

    with Center(tmp_path, forked=True) as center:
        center.put_groups(GROUPS)
        with center.executor() as executor:
            submit(center, "quick", 1, "1h")
            executor.ended(executor.launches()[0].attempt)
        center.stop()
    with Center(tmp_path, forked=True) as center, center.executor() as executor:
        submit(center, "long", 3, "10m")
        executor.started(executor.launches()[0].attempt)
        submit(center, "wide", 4, "1h")

        def passes() -> bool:
            """A job with a limit of an hour starts beside one that waits for ten minutes, if it is known to be
            quick.
            """
            number = submit(center, "quick", 1, "1h")
            return bool(center.get(f"/v1/jobs/{number}")["state"] == "running")

        # The past is read while the center works already.
        eventually(passes)
        number = submit(center, "quick", 1, "1h")
        assert center.get(f"/v1/jobs/{number}")["estimate"]["median"] < 1
