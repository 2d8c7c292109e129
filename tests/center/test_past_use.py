"""The use of the past hour, day and week in the API: sampled, kept through a restart, and of no consequence if lost."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cress.center.committing.use_curves import FILE, UseCurves
from cress.model.times import SECOND
from tests.center.inside import Inside


def newest(points: list[float | None]) -> float | None:
    """The last point that is known."""
    return next((point for point in reversed(points) if point is not None), None)


def test_the_use_of_the_past_is_there_after_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with Inside(tmp_path) as center:
            curves = UseCurves(center.committer, tmp_path)
            await center.join("n1", 4)
            await center.submit(tasks=3, resource="<2, 256G>")
            await curves.sample()
            (group,) = (await center.call("GET", "/v1/groups"))["groups"]
            for span, step in (("hour", 15), ("day", 300), ("week", 1800)):
                found: Any = await center.call("GET", f"/v1/use?span={span}")
                assert found["step"] == step
                assert (newest(found["use"]["cpu"]), newest(found["use"]["memory"])) == (1.0, 0.5)
                assert newest(found["groups"]["default"]) == group["ratio"]
                assert (newest(found["tasks"]["running"]), newest(found["tasks"]["waiting"])) == (2, 1)
                assert len({len(points) for part in ("use", "groups", "tasks") for points in found[part].values()}) == 1
            # A kind of another release, from the file.
            center.committer.past_use.add(center.committer.clock.utc() / SECOND, {("other", "x"): 1.0})
            one = await center.call("GET", "/v1/use?group=default")
            assert (list(one["groups"]), one["use"], one["tasks"]) == (["default"], {}, {})
            wrong = await center.call("GET", "/v1/use?span=month", status=422)
            assert wrong["faults"][0]["what"] == "'month' is not a span"
            assert "hour" in wrong["faults"][0]["hint"]
            # A write that was begun before comes to its end first.
            with ThreadPoolExecutor(1) as pool:
                with curves._writes:
                    last = pool.submit(curves.close)
                    await asyncio.sleep(0.05)
                    assert not (tmp_path / FILE).exists()
                last.result()
        async with Inside(tmp_path) as center:
            UseCurves(center.committer, tmp_path)
            found = await center.call("GET", "/v1/use?span=day")
            assert newest(found["use"]["cpu"]) == 1.0
            # Damage costs the curves only; the log says so.
            (tmp_path / FILE).write_bytes(b"damaged")
            curves = UseCurves(center.committer, tmp_path)
            assert (await center.call("GET", "/v1/use"))["use"] == {}
            (tmp_path / FILE).unlink()
            (tmp_path / FILE).mkdir()
            curves.close()

    with caplog.at_level(logging.WARNING, "cress.center"):
        asyncio.run(run())
    assert [record.message for record in caplog.records if "begin anew" in record.message]
