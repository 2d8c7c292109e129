"""Handles for asyncio: ``handles`` as coroutines."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cress.client import calls, operations
from cress.client.effects import RetryBudget, aiterate, arun, retried
from cress.client.exec_result import Executed, executed
from cress.client.handles import Handle
from cress.model.records import OVER_WORDS
from cress.protocol.views import JobView, TaskView

if TYPE_CHECKING:
    from cress.client.asynchttp import AsyncHttp


class AsyncJobHandle(Handle):
    """A job of a center. Every method asks it again, and raises ``ClientError``.

    A center that is away for a while is waited for, as long as the client's ``budget`` lasts.
    """

    def __init__(self, http: AsyncHttp, budget: RetryBudget, id: int, name: str = "", note: str = "") -> None:
        super().__init__(id, name, note)
        self._http = http
        self._budget = budget

    async def view(self) -> JobView:
        """The job as it is now: state, counts of tasks, reason, and all that was submitted."""
        return await arun(retried(calls.job(self.id), self._budget), self._http)

    async def state(self) -> str:
        """``waiting``, ``running``, ``succeeded``, ``failed``, ``timed out``, ``out of memory``, ``lost`` or
        ``cancelled``.
        """
        return (await self.view()).state

    async def reason(self) -> str:
        """Return why it waits, or why it was not run; otherwise empty."""
        return (await self.view()).reason

    async def done(self) -> bool:
        """Return whether the job has ended, in whatever way."""
        return await self.state() in OVER_WORDS

    async def wait(self, timeout: float | None = None) -> JobView:  # noqa: ASYNC109 – the same names as in JobHandle
        """The job when it is over; ``TimeoutError`` after ``timeout`` seconds."""
        return await arun(operations.wait(self.id, timeout, self._budget), self._http)

    async def result(self, timeout: float | None = None) -> JobView:  # noqa: ASYNC109 – the same names as in JobHandle
        """The job when it has succeeded; ``JobFailed`` says why it did not, ``TimeoutError`` that it is not over."""
        return await arun(operations.result(self.id, timeout, self._budget), self._http)

    async def tasks(self, state: str = "") -> list[TaskView]:
        """Its tasks by index with all their attempts, or those in one state."""
        return await arun(operations.tasks(self.id, state, self._budget), self._http)

    async def task(self, index: int = 0) -> TaskView:
        """One of its tasks."""
        return await arun(retried(calls.task(self.id, index), self._budget), self._http)

    def logs(
        self, task: int = 0, stream: str = "stdout", *, follow: bool = False, attempt: int | None = None
    ) -> AsyncIterator[str]:
        """The lines that a task wrote to ``stdout`` or ``stderr`` in its last attempt, or in ``attempt``.

        With ``follow`` they come as they are written, until the task is over, attempt by attempt. A line has no newline
        at its end; bytes that are no UTF-8 are replaced.
        """
        operation = operations.lines(self.id, task, stream, attempt, self._budget, follow=follow)
        return aiterate(operation, self._http)

    async def output(self, task: int = 0, stream: str = "stdout", *, attempt: int | None = None) -> str:
        """All that a task has written so far."""
        return await arun(operations.output(self.id, task, stream, attempt, self._budget), self._http)

    async def cancel(self) -> JobView:
        """Stop it and all its tasks; one that is over stays as it is."""
        return await arun(retried(calls.cancel(self.id), self._budget), self._http)

    async def hold(self) -> JobView:
        """Start nothing more of it until it is released; what runs goes on."""
        return await arun(retried(calls.hold(self.id), self._budget), self._http)

    async def release(self) -> JobView:
        """Let it start again."""
        return await arun(retried(calls.release(self.id), self._budget), self._http)

    async def signal(self, signal: str, task: int | None = None) -> JobView:
        """Send a signal, such as ``INT``, to the processes of a running task; ``None``: of all that run."""
        return await arun(retried(calls.signal(self.id, signal, task), self._budget), self._http)

    async def exec(
        self,
        command: Sequence[str],
        task: int | None = None,
        *,
        stdin: str | bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Executed:
        """Run a command in a task that runs, to its end; when this is cancelled the command is ended.

        Without ``task`` in the first one that is ready; ``task`` of the result says which. Not tried again: nobody
        knows what it has done.
        """
        if task is None:
            task = await arun(operations.running_task(self.id, self._budget), self._http)
        begin = functools.partial(self._http.begin_exec, self.id, command, task, environment)
        running = await asyncio.to_thread(begin)
        try:
            return await asyncio.to_thread(executed, running, stdin, task)
        finally:
            # Whoever is cancelled does not wait for the thread, which ends with the connection.
            running.close()

    async def scale(self, tasks: int) -> JobView:
        """Change the task count of a service or database."""
        return await arun(retried(calls.scale(self.id, tasks), self._budget), self._http)

    async def members(self) -> list[AsyncJobHandle]:
        """The runs of a cron job, the steps of a dag, the tasks of a service as jobs: oldest first."""
        views = await arun(operations.members(self.id, self._budget), self._http)
        return [AsyncJobHandle(self._http, self._budget, view.id, view.name) for view in views]

    async def resume(self) -> AsyncJobHandle:
        """Run the steps of a dag that did not succeed, as a new dag."""
        made = (await arun(retried(calls.resume(self.id), self._budget), self._http)).jobs[0]
        return AsyncJobHandle(self._http, self._budget, made.id, made.name, made.note)
