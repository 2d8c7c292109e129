"""Handles: submitted jobs to wait for, read and control."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from cress.client import calls
from cress.client.aio import operations
from cress.client.aio.patient import AsyncPatientHttp
from cress.client.aio.runtime import in_thread
from cress.client.exec_result import Executed, executed
from cress.client.handle import Handle
from cress.model.records import OVER_WORDS
from cress.protocol.job_views import ExplanationView, JobView, TaskView


class AsyncJobHandle(Handle):
    """A job of a center. Every method queries the center, and raises ``ClientError``.

    A center that is away is waited for, up to the client's ``patience``.
    """

    def __init__(self, center: AsyncPatientHttp, id: int, name: str = "", note: str = "") -> None:
        super().__init__(id, name, note)
        self._center = center

    async def view(self) -> JobView:
        """Return the present view of the job: state, counts of tasks, reason, and all submitted keys."""
        return await self._center.ask(calls.job(self.id))

    async def state(self) -> str:
        """Return ``waiting``, ``running``, ``succeeded``, ``failed``, ``timed out``, ``out of memory``, ``lost`` or
        ``cancelled``.
        """
        view = await self.view()
        return view.state

    async def reason(self) -> str:
        """Return why the job waits, or why it was not run; otherwise empty."""
        view = await self.view()
        return view.reason

    async def explain(self) -> ExplanationView:
        """Explain why the job waits, when it will start, and which single changes would let it start now."""
        return await self._center.ask(calls.explanation(self.id))

    async def done(self) -> bool:
        """Return whether the job has ended, in any way."""
        return await self.state() in OVER_WORDS

    async def wait(self, timeout: float | None = None) -> JobView:
        """Wait for the end of the job, and return its view. Raises ``TimeoutError`` after ``timeout`` seconds."""
        return await operations.wait(self.id, timeout, self._center)

    async def result(self, timeout: float | None = None) -> JobView:
        """Return the view of the succeeded job. Raises ``JobFailed`` with the reason, and ``TimeoutError``."""
        return await operations.result(self.id, timeout, self._center)

    async def tasks(self, state: str = "") -> list[TaskView]:
        """Return the tasks by index with all their attempts, or those in one state."""
        return await operations.tasks(self.id, state, self._center)

    async def task(self, index: int = 0) -> TaskView:
        """Return one of the tasks."""
        return await self._center.ask(calls.task(self.id, index))

    def logs(
        self, task: int = 0, stream: str = "stdout", *, follow: bool = False, attempt: int | None = None
    ) -> AsyncIterator[str]:
        """Yield the lines that a task wrote to ``stdout`` or ``stderr`` in its last attempt, or in ``attempt``.

        With ``follow`` they come as they are written, until the task ends, attempt by attempt. Lines have no newline at
        the end; bytes that are not UTF-8 are replaced.
        """
        return operations.lines(self.id, task, stream, attempt, self._center, follow=follow)

    async def output(self, task: int = 0, stream: str = "stdout", *, attempt: int | None = None) -> str:
        """Return the whole output of a task so far."""
        return await operations.output(self.id, task, stream, attempt, self._center)

    async def cancel(self) -> JobView:
        """Cancel the job and all its tasks; a finished job stays as it is."""
        return await self._center.ask(calls.cancel(self.id))

    async def hold(self) -> JobView:
        """Hold the job: none of its tasks starts until it is released; running tasks go on."""
        return await self._center.ask(calls.hold(self.id))

    async def release(self) -> JobView:
        """Release the held job."""
        return await self._center.ask(calls.release(self.id))

    async def update(self, **values: Any) -> JobView:
        """Give the job new values of keys, such as ``time_limit="2h"``; ``None`` is the default of a key."""
        page = await self._center.ask(calls.update_jobs([self.id], values))
        return page.jobs[0]

    async def requeue(self, *, hold: bool = False) -> JobView:
        """Stop the running tasks of the job, which then wait again; ``hold``: until it is released."""
        page = await self._center.ask(calls.requeue_jobs([self.id], hold=hold))
        return page.jobs[0]

    async def retry(self, *, failed: bool = False) -> AsyncJobHandle:
        """Submit the ended job once more; ``failed``: only its tasks that did not succeed."""
        page = await self._center.ask(calls.retry(self.id, failed=failed))
        made = page.jobs[0]
        return AsyncJobHandle(self._center, made.id, made.name, made.note)

    async def signal(self, signal: str, task: int | None = None) -> JobView:
        """Send a signal, such as ``INT``, to the processes of a running task; ``None``: of all running tasks."""
        return await self._center.ask(calls.signal(self.id, signal, task))

    async def exec(
        self,
        command: Sequence[str],
        task: int | None = None,
        *,
        stdin: str | bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Executed:
        """Run a command in a running task, and wait for its end. It is never repeated, since its effects are unknown.

        The default is the first running task, or a ready one if there is any; ``task`` of the result names it. In
        asyncio, cancelling the caller ends the command. ``client.http.exec`` returns a command for interactive use,
        also with a terminal.
        """
        if task is None:
            task = await operations.running_task(self.id, self._center)
        running = await self._center.http.exec(self.id, command, task, environment=environment)
        try:
            return await in_thread(executed, running, stdin, task)
        finally:
            # A cancelled caller does not wait for the thread, which ends with the connection.
            running.close()

    async def scale(self, tasks: int) -> JobView:
        """Change the task count of a service or database."""
        return await self._center.ask(calls.scale(self.id, tasks))

    async def members(self) -> list[AsyncJobHandle]:
        """Return the runs of a cron job, the steps of a dag, or the tasks of a service as jobs, oldest first."""
        views = await operations.members(self.id, self._center)
        return [AsyncJobHandle(self._center, view.id, view.name) for view in views]

    async def resume(self) -> AsyncJobHandle:
        """Run the unsuccessful steps of a dag as a new dag."""
        page = await self._center.ask(calls.resume(self.id))
        made = page.jobs[0]
        return AsyncJobHandle(self._center, made.id, made.name, made.note)
