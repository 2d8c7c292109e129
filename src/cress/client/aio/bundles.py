"""Bundles in transit: submit, poll, end."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any

from cress.client import calls
from cress.client.aio import operations
from cress.client.aio.patient import AsyncPatientHttp
from cress.client.aio.runtime import in_thread, sleep
from cress.client.bundle import GONE, LATE, SELDOM, SOON, ChunkBundle, ChunkResult, Patience, late
from cress.client.errors import ClientError, JobFailed, TaskDied
from cress.client.jobs import Job, plain_keys
from cress.model.errors import InputError
from cress.model.records import OVER_WORDS
from cress.model.resources import Dimensions
from cress.model.vectors import parse_vector
from cress.protocol.job_views import JobView

# The least part of a core that tasks ask for, in thousandths, and the memory of a task that names no resource.
CORE, LEAST_PART, MEMORY = 1000, 100, "512M"


async def submit(bundle: ChunkBundle, job: Job, key: str, center: AsyncPatientHttp) -> None:
    """Submit the job of a bundle."""
    made = await operations.submit([job], key, center)
    bundle.job = made[0].id


async def places(resource: Any, center: AsyncPatientHttp) -> int:
    """Return roughly how many tasks with this request can run at the same time, at least 1."""
    nodes = await operations.nodes("", "", center)
    dimensions = Dimensions()
    try:
        asked: Any = plain_keys({"resource": "<1>" if resource is None else resource})["resource"]
        cpu = parse_vector(asked, dimensions)[dimensions.index["cpu"]]
    except InputError:
        cpu = 1000  # custom dimensions, or a mistake that the center will report
    up = (node.capacity_amounts.get("cpu", 0) for node in nodes if node.state == "up")
    return max(1, sum(amount // max(cpu, 1) for amount in up))


async def part_of_a_core(center: AsyncPatientHttp) -> str:
    """Return a request of less than a core if no node has a whole one free, but some node has a part.

    Empty: the usual request. A map whose tasks name no resource then runs beside services instead of waiting for them.
    """
    nodes = await operations.nodes("", "", center)
    free = [
        node.capacity_amounts.get("cpu", 0) - node.used_amounts.get("cpu", 0) for node in nodes if node.state == "up"
    ]
    most = max(free, default=0)
    if not LEAST_PART <= most < CORE:
        return ""
    return f"<{most // LEAST_PART * LEAST_PART / CORE:g}, {MEMORY}>"


async def parts(
    bundle: ChunkBundle, center: AsyncPatientHttp, deadline: Patience | None = None
) -> AsyncGenerator[ChunkResult, None]:
    """Yield all parts of a bundle as they arrive; parts of tasks that died are errors.

    Raises TimeoutError if nothing new has arrived by the deadline.
    """
    pause = SOON
    while bundle.missing:
        found = await poll(bundle, pause, center)
        for part in found:
            yield part
        if not found and deadline is not None and time.monotonic() >= deadline.at:
            raise TimeoutError(late(bundle, deadline.seconds))
        pause = SOON if found else min(pause * 1.5, SELDOM)


async def poll(bundle: ChunkBundle, wait: float, center: AsyncPatientHttp) -> list[ChunkResult]:
    """Return new results; if there are none, query the job and wait up to ``wait`` seconds."""
    found: list[ChunkResult] = await in_thread(bundle.look)
    if found or not bundle.missing:
        return found
    view = bundle.view = await center.ask(calls.job(bundle.job, wait=wait))
    bundle.waiting.look(view)
    found = await died(bundle, view, center)
    if found or view.state not in OVER_WORDS:
        return found
    now = time.monotonic()
    bundle.over_since = bundle.over_since or now
    if view.state == "cancelled" or now - bundle.over_since > LATE:
        return await _give_up(bundle, view)
    await sleep(wait)
    return []


async def _give_up(bundle: ChunkBundle, view: JobView) -> list[ChunkResult]:
    found: list[ChunkResult] = await in_thread(bundle.look)
    sentence = f"job {view.id} ({view.name}) {view.state}{f': {view.reason}' if view.reason else ''}"
    if view.state == "succeeded":
        sentence += f", but there are no results in {bundle.spool.address}: is this a folder that all nodes share?"
    return found + [bundle.failed(chunk, TaskDied(sentence)) for chunk in sorted(bundle.missing)]


async def died(bundle: ChunkBundle, view: JobView, center: AsyncPatientHttp) -> list[ChunkResult]:
    """Return the results of chunks whose tasks failed and are not retried."""
    if not view.tasks.failed:
        return []
    tasks = await operations.tasks(view.id, "failed", center)
    mine = [task for task in tasks if task.index in bundle.missing]
    if not mine:
        return []
    # A task may fail after its result was written.
    found: list[ChunkResult] = await in_thread(bundle.look)
    told: JobFailed | None = None
    for number, task in enumerate(task for task in mine if task.index in bundle.missing):
        if told is None or number < operations.MOST_FAILED:
            told = await operations.failure(view, center, [task])
        found.append(bundle.failed(task.index, TaskDied(str(told))))
    return found


async def end(bundle: ChunkBundle, center: AsyncPatientHttp) -> None:
    """Cancel the rest of a bundle, and remove its folder."""
    try:
        if bundle.job and (bundle.missing or bundle.unwanted):
            await center.ask(calls.cancel(bundle.job))
            await operations.wait(bundle.job, GONE, center)
    except (ClientError, TimeoutError):
        pass  # the folder is removed in any case, and tasks that find nothing end
    await in_thread(bundle.spool.clear)
