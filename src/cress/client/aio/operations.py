"""Operations on jobs that need several calls, to a center that may be away for a while."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing

import msgspec

from cress.client import calls
from cress.client.aio import applied
from cress.client.aio.patient import AsyncPatientHttp
from cress.client.aio.runtime import sleep
from cress.client.aio.uploads import with_uploads
from cress.client.calls import PreparedCall
from cress.client.errors import ClientError, JobFailed, Refused
from cress.client.jobs import JobFile, mapping_of
from cress.client.waiting import Waiting, because
from cress.model.records import OVER_WORDS
from cress.protocol.cluster_views import NodeView
from cress.protocol.job_views import AppliedJob, AttemptView, JobView, Submitted, TaskView
from cress.protocol.logs import Piece
from cress.protocol.queries import JobsQuery, TasksQuery
from cress.protocol.trial_views import ConsequencesView

# Seconds that the center may wait for the end of a job; it answers as soon as the job ends.
LONG_WAIT = 20.0
# Seconds between two polls, at first and at most.
SOON, SELDOM = 0.02, 0.5
# Tasks or jobs of one page.
PAGE = 500
# Most members of a family that are listed, the newest ones.
MOST_MEMBERS = 10_000
# Most failed tasks in an error, and most bytes of the first one's stderr.
MOST_FAILED, STDERR_BYTES = 10, 2_000


async def submit(
    jobs: Sequence[JobFile | Mapping[str, object]], key: str, center: AsyncPatientHttp, *, strict: bool = False
) -> list[Submitted]:
    """Submit jobs together; return one answer for each. All repetitions are one submit."""
    mappings = await with_uploads([mapping_of(job) for job in jobs], center)
    page = await center.ask(calls.submit(mappings, key, strict=strict))
    return list(page.jobs)


async def apply(
    jobs: Sequence[JobFile | Mapping[str, object]],
    center: AsyncPatientHttp,
    *,
    dry_run: bool,
    wait: bool = False,
    timeout: float | None = None,
) -> list[AppliedJob]:
    """Create or update services, databases and cron jobs. With ``wait`` it raises JobFailed and TimeoutError."""
    if timeout is not None and not wait:
        raise ValueError("a timeout is for wait=True")
    mappings = await with_uploads([mapping_of(job) for job in jobs], center, send=not dry_run)
    page = await center.ask(calls.apply(mappings, dry_run=dry_run))
    if wait:
        await applied.ready(page.jobs, timeout, center)
    return list(page.jobs)


async def check(jobs: Sequence[JobFile | Mapping[str, object]], center: AsyncPatientHttp) -> list[Submitted]:
    """Return the answer that a submit would get, and store nothing."""
    mappings = await with_uploads([mapping_of(job) for job in jobs], center, send=False)
    page = await center.ask(calls.submit(mappings, dry_run=True))
    return list(page.jobs)


async def plan(
    jobs: Sequence[JobFile | Mapping[str, object]], seconds: float, center: AsyncPatientHttp
) -> ConsequencesView:
    """Return what a submit would do, and store nothing."""
    mappings = await with_uploads([mapping_of(job) for job in jobs], center, send=False)
    return await center.ask(calls.what_if({"jobs": mappings}, seconds))


async def wait(id: int, timeout: float | None, center: AsyncPatientHttp) -> JobView:
    """Wait for the end of the job, and return its view. Raises ``TimeoutError``."""
    deadline = None if timeout is None else time.monotonic() + timeout
    waiting = Waiting()
    while True:
        left = LONG_WAIT if deadline is None else max(0.0, min(LONG_WAIT, deadline - time.monotonic()))
        view = await center.ask(calls.job(id, wait=waiting.until(left)))
        if view.state in OVER_WORDS:
            return view
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"job {id} ({view.name}) is {view.state} after {timeout:g} s{because(view)}")
        waiting.look(view)


async def result(id: int, timeout: float | None, center: AsyncPatientHttp) -> JobView:
    """Return the view of the succeeded job. Raises ``JobFailed``, ``TimeoutError``."""
    view = await wait(id, timeout, center)
    if view.state == "succeeded":
        return view
    raise await failure(view, center)


async def failure(view: JobView, center: AsyncPatientHttp, failed: Sequence[TaskView] | None = None) -> JobFailed:
    """Return the error of an unsuccessful job; ``failed`` are its first failed tasks, if known."""
    if view.type in {"dag", "cron"}:
        return await _failed_member(view, center)
    if failed is None:
        page = await center.ask(calls.tasks(view.id, TasksQuery(limit=MOST_FAILED, state="failed")))
        failed = page.tasks
    codes = {task.index: task.attempts[-1].code for task in failed if task.attempts}
    stderr, told = "", ""
    for task in failed[:1]:
        if task.attempts:
            told = f"; task {task.index} {_how(task.attempts[-1])}"
            stderr = await _tail(view.id, task.index, task.attempts[-1].id, center)
    counts = view.tasks
    some = f": {counts.failed:,} of {counts.total:,} tasks failed" if counts.failed and counts.total > 1 else ""
    reason = ""
    if view.reason and not told:
        # The reason of a cancelled job begins with its state: cancelled by ann.
        again = view.reason.startswith(f"{view.state} ")
        reason = view.reason.removeprefix(view.state) if again else f": {view.reason}"
    lines = "".join(f"\n  {line}" for line in stderr.splitlines())
    state = view.state if view.state in OVER_WORDS else "fails"
    return JobFailed(f"job {view.id} ({view.name}) {state}{some}{reason}{told}{lines}", view, codes, stderr)


async def _failed_member(view: JobView, center: AsyncPatientHttp) -> JobFailed:
    """Return the error of an unsuccessful dag, from its first failed step."""
    steps = await jobs(JobsQuery(family=view.id, state="failed"), MOST_FAILED, center)
    counts = f": {view.reason}" if view.reason else ""
    head = f"job {view.id} ({view.name}) {view.state}{counts}"
    if not steps:
        return JobFailed(head, view, {}, "")
    first = await failure(steps[-1], center)
    return JobFailed(f"{head}; {first}", view, first.codes, first.stderr)


def _how(attempt: AttemptView) -> str:
    if attempt.error:
        return f"on {attempt.node}: {attempt.error}"
    if attempt.code is None:
        return f"ended on {attempt.node} and its outcome is unknown"
    if attempt.code < 0:
        return f"was ended by signal {-attempt.code} on {attempt.node}"
    return f"exited with {attempt.code} on {attempt.node}"


async def _tail(id: int, task: int, attempt: int, center: AsyncPatientHttp) -> str:
    """Return the last lines that an attempt wrote to stderr; empty if they are no longer kept."""
    kept = b""
    try:
        call = calls.logs(id, task, "stderr", 0, follow=False, attempt=attempt)
        async with aclosing(center.read(call, follow=False)) as pieces:
            async for piece in pieces:
                kept = (kept + piece)[-STDERR_BYTES:]
    except ClientError:
        pass
    if len(kept) == STDERR_BYTES and b"\n" in kept:
        kept = kept.partition(b"\n")[2]
    return kept.decode(errors="replace").rstrip()


async def tasks(id: int, state: str, center: AsyncPatientHttp) -> list[TaskView]:
    """Return all tasks of a job, or those in one state, by index."""
    found: list[TaskView] = []
    after: int | None = None
    while True:
        page = await center.ask(calls.tasks(id, TasksQuery(limit=PAGE, after=after, state=state)))
        found += page.tasks
        after = page.next
        if after is None:
            return found


async def nodes(where: str, rank: str, center: AsyncPatientHttp) -> list[NodeView]:
    """Return all nodes."""
    page = await center.ask(calls.nodes(where, rank))
    found = list(page.nodes)
    while page.next is not None:
        page = await center.ask(calls.nodes(where, rank, page.next))
        found += page.nodes
    return found


async def jobs(query: JobsQuery, most: int, center: AsyncPatientHttp) -> list[JobView]:
    """Return the newest ``most`` jobs that match a query."""
    found: list[JobView] = []
    before = None
    while len(found) < most:
        query = msgspec.structs.replace(query, before=before, limit=min(PAGE, most - len(found)))
        page = await center.ask(calls.jobs(query))
        found += page.jobs
        before = page.next
        if before is None:
            break
    return found


async def members(id: int, center: AsyncPatientHttp) -> list[JobView]:
    """Return the members of a family, oldest first."""
    found = await jobs(JobsQuery(family=id), MOST_MEMBERS, center)
    return found[::-1]


async def as_completed(
    ids: Iterable[int], timeout: float | None, center: AsyncPatientHttp
) -> AsyncGenerator[int, None]:
    """Yield the id of each job when it has ended. Raises ``TimeoutError``, which names the others."""
    deadline = None if timeout is None else time.monotonic() + timeout
    missing = sorted(set(ids))
    pause = SOON
    waiting = {id: Waiting() for id in missing}
    while missing:
        views = await _views(missing, center)
        over = [id for id in missing if views[id].state in OVER_WORDS]
        for id in over:
            yield id
        missing = [id for id in missing if id not in over]
        now = time.monotonic()
        if missing and deadline is not None and now >= deadline:
            first = views[missing[0]]
            why = f"; the first of them, {first.id} ({first.name}), is {first.state}{because(first)}"
            raise TimeoutError(f"{len(missing)} jobs are not over after {timeout:g} s{why}")
        if missing and all(views[id].state == "waiting" for id in missing):
            # No warning while others of the jobs run.
            waiting[missing[0]].look(views[missing[0]])
        if over:
            pause = SOON
        elif len(missing) == 1:
            patience = waiting[missing[0]].until(_most(LONG_WAIT, deadline, now))
            await center.ask(calls.job(missing[0], wait=patience))
        else:
            await sleep(_most(pause, deadline, now))
            pause = min(pause * 1.3, SELDOM)


def _most(seconds: float, deadline: float | None, now: float) -> float:
    return seconds if deadline is None else min(seconds, deadline - now)


async def _views(ids: Sequence[int], center: AsyncPatientHttp) -> dict[int, JobView]:
    """Return the present views of jobs. Jobs with ids close to each other are read together."""
    found: dict[int, JobView] = {}
    if len(ids) > 1 and ids[-1] - ids[0] < 4 * PAGE:
        before: int | None = ids[-1] + 1
        while before is not None and before > ids[0]:
            page = await center.ask(calls.jobs(JobsQuery(before=before, limit=PAGE)))
            found |= {job.id: job for job in page.jobs}
            before = page.next
    for id in ids:
        # Members of services and databases are not listed.
        if id not in found:
            found[id] = await center.ask(calls.job(id))
    return found


async def lines(
    id: int, task: int, stream: str, attempt: int | None, center: AsyncPatientHttp, *, follow: bool
) -> AsyncGenerator[str, None]:
    """Yield the output of a task line by line, of its last attempt or of ``attempt``; the connection may break off.

    With ``follow`` it goes on until the task ends, attempt by attempt.
    """
    seen, pause, waiting = 0, SOON, Waiting()
    while True:
        view = await center.ask(calls.task(id, task))
        wanted = _next_attempt(view, attempt, seen)
        if wanted:
            async with aclosing(_lines_of(id, task, wanted, stream, center, follow=follow)) as found:
                async for line in found:
                    yield line
            seen, pause = wanted, SOON
            if not follow or attempt is not None:
                return
        elif not follow or view.state in OVER_WORDS:
            if not seen:
                # There is nothing to read, and the center says why.
                call = _log(id, task, stream, 0, attempt, follow=False)
                async with aclosing(center.read(call, follow=False)) as none:
                    await anext(none, None)
            return
        else:
            if waiting.is_due():
                waiting.look(await center.ask(calls.job(id)))
            await sleep(pause)
            pause = min(pause * 1.3, SELDOM)


def _log(id: int, task: int, stream: str, offset: int, attempt: int | None, *, follow: bool) -> PreparedCall[bytes]:
    return calls.logs(id, task, stream, offset, follow=follow, attempt=attempt)


def _next_attempt(task: TaskView, only: int | None, seen: int) -> int | None:
    """Return the attempt to read: at first the last one, then the later ones in order."""
    known = [attempt.id for attempt in task.attempts if (only is None or attempt.id == only) and attempt.id > seen]
    if not known:
        return None
    return known[0] if seen else known[-1]


async def _lines_of(
    id: int, task: int, attempt: int, stream: str, center: AsyncPatientHttp, *, follow: bool
) -> AsyncGenerator[str, None]:
    offset, begun = 0, b""
    while True:
        async with aclosing(_pieces(id, task, stream, offset, attempt, center, follow=follow)) as pieces:
            async for piece in pieces:
                offset = piece.end
                *whole, begun = (begun + piece).split(b"\n")
                for line in whole:
                    yield line.decode(errors="replace")
        # The answer also ends when the center stops, so the attempt is checked.
        view = await center.ask(calls.task(id, task))
        ended = any(shown.id == attempt and shown.outcome != "running" for shown in view.attempts)
        if not follow or ended:
            break
        await sleep(SOON)
    if begun:
        yield begun.decode(errors="replace")


async def _pieces(
    id: int, task: int, stream: str, offset: int, attempt: int | None, center: AsyncPatientHttp, *, follow: bool
) -> AsyncGenerator[Piece, None]:
    """Yield a log from byte ``offset`` on, over as many connections as needed. Raises ClientError."""
    broken = True
    while broken:
        begun = broken = False
        try:
            call = _log(id, task, stream, offset, attempt, follow=follow)
            async with aclosing(center.read(call, follow=follow)) as pieces:
                async for piece in pieces:
                    begun, offset = True, piece.end
                    yield piece
        except ClientError as error:
            # ``center`` has tried the beginning until its patience ended, so an error there is final.
            if not begun or not error.passing:
                raise
            broken = True
            await sleep(SOON)


# Most running tasks among which a ready one is sought.
MOST_RUNNING = 100


async def running_task(id: int, center: AsyncPatientHttp) -> int:
    """Return the first running task of a job, a ready one if there is any. Raises Refused if none runs."""
    page = await center.ask(calls.tasks(id, TasksQuery(state="running", limit=MOST_RUNNING)))
    ready = [task.index for task in page.tasks if task.ready is not False]
    found = ready or [task.index for task in page.tasks]
    if not found:
        view = await center.ask(calls.job(id))
        raise Refused(f"no task of job {id} runs ({view.reason or f'it is {view.state}'})", "not_accepted")
    return found[0]


async def output(id: int, task: int, stream: str, attempt: int | None, center: AsyncPatientHttp) -> str:
    """Return the whole output of a task so far, as a text."""
    written = bytearray()
    async with aclosing(_pieces(id, task, stream, 0, attempt, center, follow=False)) as pieces:
        async for piece in pieces:
            written += piece
    return written.decode(errors="replace")
