# Written by tools/blocking_client.py: edit aio/operations.py.
"""Operations on jobs that need several calls, to a center that may be away for a while."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing

import msgspec

from cress.client import calls
from cress.client.blocking import applied
from cress.client.blocking.patient import PatientHttp
from cress.client.blocking.runtime import sleep
from cress.client.blocking.uploads import with_uploads
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


def submit(
    jobs: Sequence[JobFile | Mapping[str, object]], key: str, center: PatientHttp, *, strict: bool = False
) -> list[Submitted]:
    """Submit jobs together; return one answer for each. All repetitions are one submit."""
    mappings = with_uploads([mapping_of(job) for job in jobs], center)
    page = center.ask(calls.submit(mappings, key, strict=strict))
    return list(page.jobs)


def apply(
    jobs: Sequence[JobFile | Mapping[str, object]],
    center: PatientHttp,
    *,
    dry_run: bool,
    wait: bool = False,
    timeout: float | None = None,
) -> list[AppliedJob]:
    """Create or update services, databases and cron jobs. With ``wait`` it raises JobFailed and TimeoutError."""
    if timeout is not None and not wait:
        raise ValueError("a timeout is for wait=True")
    mappings = with_uploads([mapping_of(job) for job in jobs], center, send=not dry_run)
    page = center.ask(calls.apply(mappings, dry_run=dry_run))
    if wait:
        applied.ready(page.jobs, timeout, center)
    return list(page.jobs)


def check(jobs: Sequence[JobFile | Mapping[str, object]], center: PatientHttp) -> list[Submitted]:
    """Return the answer that a submit would get, and store nothing."""
    mappings = with_uploads([mapping_of(job) for job in jobs], center, send=False)
    page = center.ask(calls.submit(mappings, dry_run=True))
    return list(page.jobs)


def plan(jobs: Sequence[JobFile | Mapping[str, object]], seconds: float, center: PatientHttp) -> ConsequencesView:
    """Return what a submit would do, and store nothing."""
    mappings = with_uploads([mapping_of(job) for job in jobs], center, send=False)
    return center.ask(calls.what_if({"jobs": mappings}, seconds))


def wait(id: int, timeout: float | None, center: PatientHttp) -> JobView:
    """Wait for the end of the job, and return its view. Raises ``TimeoutError``."""
    deadline = None if timeout is None else time.monotonic() + timeout
    waiting = Waiting()
    while True:
        left = LONG_WAIT if deadline is None else max(0.0, min(LONG_WAIT, deadline - time.monotonic()))
        view = center.ask(calls.job(id, wait=waiting.until(left)))
        if view.state in OVER_WORDS:
            return view
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"job {id} ({view.name}) is {view.state} after {timeout:g} s{because(view)}")
        waiting.look(view)


def result(id: int, timeout: float | None, center: PatientHttp) -> JobView:
    """Return the view of the succeeded job. Raises ``JobFailed``, ``TimeoutError``."""
    view = wait(id, timeout, center)
    if view.state == "succeeded":
        return view
    raise failure(view, center)


def failure(view: JobView, center: PatientHttp, failed: Sequence[TaskView] | None = None) -> JobFailed:
    """Return the error of an unsuccessful job; ``failed`` are its first failed tasks, if known."""
    if view.type in {"dag", "cron"}:
        return _failed_member(view, center)
    if failed is None:
        page = center.ask(calls.tasks(view.id, TasksQuery(limit=MOST_FAILED, state="failed")))
        failed = page.tasks
    codes = {task.index: task.attempts[-1].code for task in failed if task.attempts}
    stderr, told = "", ""
    for task in failed[:1]:
        if task.attempts:
            told = f"; task {task.index} {_how(task.attempts[-1])}"
            stderr = _tail(view.id, task.index, task.attempts[-1].id, center)
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


def _failed_member(view: JobView, center: PatientHttp) -> JobFailed:
    """Return the error of an unsuccessful dag, from its first failed step."""
    steps = jobs(JobsQuery(family=view.id, state="failed"), MOST_FAILED, center)
    counts = f": {view.reason}" if view.reason else ""
    head = f"job {view.id} ({view.name}) {view.state}{counts}"
    if not steps:
        return JobFailed(head, view, {}, "")
    first = failure(steps[-1], center)
    return JobFailed(f"{head}; {first}", view, first.codes, first.stderr)


def _how(attempt: AttemptView) -> str:
    if attempt.error:
        return f"on {attempt.node}: {attempt.error}"
    if attempt.code is None:
        return f"ended on {attempt.node} and its outcome is unknown"
    if attempt.code < 0:
        return f"was ended by signal {-attempt.code} on {attempt.node}"
    return f"exited with {attempt.code} on {attempt.node}"


def _tail(id: int, task: int, attempt: int, center: PatientHttp) -> str:
    """Return the last lines that an attempt wrote to stderr; empty if they are no longer kept."""
    kept = b""
    try:
        call = calls.logs(id, task, "stderr", 0, follow=False, attempt=attempt)
        with closing(center.read(call, follow=False)) as pieces:
            for piece in pieces:
                kept = (kept + piece)[-STDERR_BYTES:]
    except ClientError:
        pass
    if len(kept) == STDERR_BYTES and b"\n" in kept:
        kept = kept.partition(b"\n")[2]
    return kept.decode(errors="replace").rstrip()


def tasks(id: int, state: str, center: PatientHttp) -> list[TaskView]:
    """Return all tasks of a job, or those in one state, by index."""
    found: list[TaskView] = []
    after: int | None = None
    while True:
        page = center.ask(calls.tasks(id, TasksQuery(limit=PAGE, after=after, state=state)))
        found += page.tasks
        after = page.next
        if after is None:
            return found


def nodes(where: str, rank: str, center: PatientHttp) -> list[NodeView]:
    """Return all nodes."""
    page = center.ask(calls.nodes(where, rank))
    found = list(page.nodes)
    while page.next is not None:
        page = center.ask(calls.nodes(where, rank, page.next))
        found += page.nodes
    return found


def jobs(query: JobsQuery, most: int, center: PatientHttp) -> list[JobView]:
    """Return the newest ``most`` jobs that match a query."""
    found: list[JobView] = []
    before = None
    while len(found) < most:
        query = msgspec.structs.replace(query, before=before, limit=min(PAGE, most - len(found)))
        page = center.ask(calls.jobs(query))
        found += page.jobs
        before = page.next
        if before is None:
            break
    return found


def members(id: int, center: PatientHttp) -> list[JobView]:
    """Return the members of a family, oldest first."""
    found = jobs(JobsQuery(family=id), MOST_MEMBERS, center)
    return found[::-1]


def as_completed(ids: Iterable[int], timeout: float | None, center: PatientHttp) -> Generator[int, None, None]:
    """Yield the id of each job when it has ended. Raises ``TimeoutError``, which names the others."""
    deadline = None if timeout is None else time.monotonic() + timeout
    missing = sorted(set(ids))
    pause = SOON
    waiting = {id: Waiting() for id in missing}
    while missing:
        views = _views(missing, center)
        over = [id for id in missing if views[id].state in OVER_WORDS]
        yield from over
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
            center.ask(calls.job(missing[0], wait=patience))
        else:
            sleep(_most(pause, deadline, now))
            pause = min(pause * 1.3, SELDOM)


def _most(seconds: float, deadline: float | None, now: float) -> float:
    return seconds if deadline is None else min(seconds, deadline - now)


def _views(ids: Sequence[int], center: PatientHttp) -> dict[int, JobView]:
    """Return the present views of jobs. Jobs with ids close to each other are read together."""
    found: dict[int, JobView] = {}
    if len(ids) > 1 and ids[-1] - ids[0] < 4 * PAGE:
        before: int | None = ids[-1] + 1
        while before is not None and before > ids[0]:
            page = center.ask(calls.jobs(JobsQuery(before=before, limit=PAGE)))
            found |= {job.id: job for job in page.jobs}
            before = page.next
    for id in ids:
        # Members of services and databases are not listed.
        if id not in found:
            found[id] = center.ask(calls.job(id))
    return found


def lines(
    id: int, task: int, stream: str, attempt: int | None, center: PatientHttp, *, follow: bool
) -> Generator[str, None, None]:
    """Yield the output of a task line by line, of its last attempt or of ``attempt``; the connection may break off.

    With ``follow`` it goes on until the task ends, attempt by attempt.
    """
    seen, pause, waiting = 0, SOON, Waiting()
    while True:
        view = center.ask(calls.task(id, task))
        wanted = _next_attempt(view, attempt, seen)
        if wanted:
            with closing(_lines_of(id, task, wanted, stream, center, follow=follow)) as found:
                yield from found
            seen, pause = wanted, SOON
            if not follow or attempt is not None:
                return
        elif not follow or view.state in OVER_WORDS:
            if not seen:
                # There is nothing to read, and the center says why.
                call = _log(id, task, stream, 0, attempt, follow=False)
                with closing(center.read(call, follow=False)) as none:
                    next(none, None)
            return
        else:
            if waiting.is_due():
                waiting.look(center.ask(calls.job(id)))
            sleep(pause)
            pause = min(pause * 1.3, SELDOM)


def _log(id: int, task: int, stream: str, offset: int, attempt: int | None, *, follow: bool) -> PreparedCall[bytes]:
    return calls.logs(id, task, stream, offset, follow=follow, attempt=attempt)


def _next_attempt(task: TaskView, only: int | None, seen: int) -> int | None:
    """Return the attempt to read: at first the last one, then the later ones in order."""
    known = [attempt.id for attempt in task.attempts if (only is None or attempt.id == only) and attempt.id > seen]
    if not known:
        return None
    return known[0] if seen else known[-1]


def _lines_of(
    id: int, task: int, attempt: int, stream: str, center: PatientHttp, *, follow: bool
) -> Generator[str, None, None]:
    offset, begun = 0, b""
    while True:
        with closing(_pieces(id, task, stream, offset, attempt, center, follow=follow)) as pieces:
            for piece in pieces:
                offset = piece.end
                *whole, begun = (begun + piece).split(b"\n")
                for line in whole:
                    yield line.decode(errors="replace")
        # The answer also ends when the center stops, so the attempt is checked.
        view = center.ask(calls.task(id, task))
        ended = any(shown.id == attempt and shown.outcome != "running" for shown in view.attempts)
        if not follow or ended:
            break
        sleep(SOON)
    if begun:
        yield begun.decode(errors="replace")


def _pieces(
    id: int, task: int, stream: str, offset: int, attempt: int | None, center: PatientHttp, *, follow: bool
) -> Generator[Piece, None, None]:
    """Yield a log from byte ``offset`` on, over as many connections as needed. Raises ClientError."""
    broken = True
    while broken:
        begun = broken = False
        try:
            call = _log(id, task, stream, offset, attempt, follow=follow)
            with closing(center.read(call, follow=follow)) as pieces:
                for piece in pieces:
                    begun, offset = True, piece.end
                    yield piece
        except ClientError as error:
            # ``center`` has tried the beginning until its patience ended, so an error there is final.
            if not begun or not error.passing:
                raise
            broken = True
            sleep(SOON)


# Most running tasks among which a ready one is sought.
MOST_RUNNING = 100


def running_task(id: int, center: PatientHttp) -> int:
    """Return the first running task of a job, a ready one if there is any. Raises Refused if none runs."""
    page = center.ask(calls.tasks(id, TasksQuery(state="running", limit=MOST_RUNNING)))
    ready = [task.index for task in page.tasks if task.ready is not False]
    found = ready or [task.index for task in page.tasks]
    if not found:
        view = center.ask(calls.job(id))
        raise Refused(f"no task of job {id} runs ({view.reason or f'it is {view.state}'})", "not_accepted")
    return found[0]


def output(id: int, task: int, stream: str, attempt: int | None, center: PatientHttp) -> str:
    """Return the whole output of a task so far, as a text."""
    written = bytearray()
    with closing(_pieces(id, task, stream, 0, attempt, center, follow=False)) as pieces:
        for piece in pieces:
            written += piece
    return written.decode(errors="replace")
