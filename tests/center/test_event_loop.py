"""Nothing holds the event loop for long: the processor time of each of its steps beside large requests."""

from __future__ import annotations

import asyncio
import math
import time
from pathlib import Path
from typing import Any

import pytest

from cress.center.process.garbage import Collector
from tests.center.inside import Inside, inside

# Seconds of the processor. A machine at work on other things makes single steps longer, too: so some rounds.
LONGEST = 0.06
ROUNDS = 3


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The processor time of each step of the loop."""
    found: list[float] = []
    run = asyncio.events.Handle._run

    def measured(handle: Any) -> None:
        begin = time.thread_time()
        run(handle)
        found.append(time.thread_time() - begin)

    monkeypatch.setattr(asyncio.events.Handle, "_run", measured)
    return found


@pytest.mark.long
def test_large_requests_are_cut_into_short_steps(tmp_path: Path, steps: list[float]) -> None:
    longest: dict[str, float] = {}

    async def story(center: Inside) -> None:
        await center.join()
        with Collector():
            for path, body in (
                ("/v1/jobs", {"jobs": [{"command": ["true"]}] * 10_000}),
                ("/v1/jobs/hold", {"jobs": list(range(1, 10_001))}),
                ("/v1/jobs/cancel", {"jobs": list(range(1, 10_001))}),
            ):
                # What is compiled or imported at the first use is not the request's.
                warm = {"jobs": body["jobs"][:1]}
                assert (await center.http.post(path, json=warm)).status_code < 300
                answer = asyncio.create_task(center.http.post(path, json=body))
                await asyncio.sleep(0)
                steps.clear()
                assert (await answer).status_code < 300
                longest[path] = min(longest.get(path, math.inf), max(steps[1:]))

    # A step that is long by itself is long every time.
    for number in range(ROUNDS):
        data = tmp_path / str(number)
        data.mkdir()
        inside(data, story)
        if max(longest.values()) < LONGEST:
            return
    raise AssertionError(longest)


def test_the_first_request_is_a_short_step(tmp_path: Path, steps: list[float]) -> None:
    longest: list[float] = []

    async def story(center: Inside) -> None:
        with Collector():
            # The step in which garbage was collected is over.
            await asyncio.sleep(0)
            steps.clear()
            for path in ("/v1/state", "/v1/jobs", "/v1/groups"):
                await center.get(path)
            longest.append(max(steps))

    for number in range(ROUNDS):
        data = tmp_path / str(number)
        data.mkdir()
        inside(data, story)
        if longest[-1] < LONGEST:
            return
    raise AssertionError(longest)
