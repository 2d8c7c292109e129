"""Dependencies from task to task: the jobs that can have them, and the indices of their tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cress.model.errors import InputError
from cress.model.job import Condition, Job, JobType

# The hint for jobs whose tasks do not start one by one.
_WHOLE = f"{Condition.OK.value}, which waits for the whole job"
Ranges = Iterable[tuple[int, int]]
# Maximum number of tasks of one submit that wait for single tasks: the scheduler has an entry for each of them at once.
MOST_WAITING = 100_000


def needs_tasks(job: Job) -> bool:
    """Return True if each task of the job starts when the same task of another one has succeeded."""
    return any(condition is Condition.TASKS for _, condition in job.after)


def check_follower(job: Job) -> None:
    """Raise ``InputError`` if the tasks of this job cannot wait for single tasks of another one."""
    word = Condition.TASKS.value
    if job.plan is not None or job.is_lease:
        kind = "lease" if job.is_lease else job.type.value
        raise InputError(f"a {kind} cannot wait for single tasks ({word})", hint=_WHOLE)
    if job.when:
        raise InputError(f"a step with `when` cannot wait for single tasks ({word})", hint=_WHOLE)
    if job.gang:
        raise InputError(f"the tasks of a gang start together; they cannot wait for single tasks ({word})", hint=_WHOLE)
    if sum(condition is Condition.TASKS for _, condition in job.after) > 1:
        raise InputError(f"tasks can wait for those of one job only ({word})", hint=f"{word} once; {_WHOLE}")


def check_number(waiting: int) -> None:
    """Raise ``InputError`` if too many tasks of one submit wait for single tasks."""
    if waiting > MOST_WAITING:
        raise InputError(
            f"{waiting:,} tasks of this submit wait for single tasks ({Condition.TASKS.value}), "
            f"and at most {MOST_WAITING:,} can",
            hint=f"several submits, fewer tasks, or {_WHOLE}",
        )


def check_pair(first: Job, then: Job, name: str) -> None:
    """Raise ``InputError`` if tasks of ``then`` cannot wait for those of ``first``, the job ``name``."""
    if first.plan is not None or first.type is not JobType.BATCH or first.is_lease:
        kind = "lease" if first.is_lease else first.type.value
        raise InputError(f"{name} is a {kind}; only tasks of a batch job can be waited for", hint=_WHOLE)
    if first.gang:
        raise InputError(f"{name} is a gang, whose tasks succeed together", hint=_WHOLE)
    if then.tasks > first.tasks:
        raise InputError(
            f"{name} has {_tasks(first.tasks)}, and this job {then.tasks}: the others would never start",
            hint=f"at most {_tasks(first.tasks)}",
        )


def check_indices(first: Job, its: Ranges, then: Job, own: Ranges, name: str) -> None:
    """Raise ``InputError`` unless the tasks of ``then`` have the indices of those tasks of ``first`` that they wait
    for.

    ``its`` and ``own`` are the indices of both jobs as ranges; empty: from 0.
    """
    if not (its or own):
        return
    their = list(_first(then.tasks, its or [(0, first.tasks - 1)]))
    if their != list(_first(then.tasks, own or [(0, then.tasks - 1)])):
        raise InputError(
            f"the tasks of {name} have other indices than those of this job, so none would have its counterpart",
            hint=f"the same indices: {_shown(their)}",
        )


def _first(count: int, ranges: Ranges) -> Iterator[tuple[int, int]]:
    """Yield the first ``count`` indices of ranges, as ranges that do not touch."""
    open_: tuple[int, int] | None = None
    for low, high in ranges:
        if count <= 0:
            break
        last = min(high, low + count - 1)
        count -= last - low + 1
        if open_ is not None and open_[1] + 1 == low:
            open_ = (open_[0], last)
            continue
        if open_ is not None:
            yield open_
        open_ = (low, last)
    if open_ is not None:
        yield open_


def _shown(ranges: list[tuple[int, int]]) -> str:
    words = [str(low) if low == high else f"{low}-{high}" for low, high in ranges[:5]]
    return ",".join(words) + ",…" * (len(ranges) > len(words))


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"
