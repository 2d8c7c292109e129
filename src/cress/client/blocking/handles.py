# Written by tools/blocking_client.py: edit aio/handles.py.
"""Handles: jobs that were submitted, to wait for, read and steer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cress.client import calls
from cress.client.blocking import operations
from cress.client.blocking.patient import PatientHttp
from cress.client.blocking.runtime import in_thread
from cress.client.exec_result import Executed, executed
from cress.client.handle import Handle
from cress.model.records import OVER_WORDS
from cress.protocol.job_views import JobView, TaskView


class JobHandle(Handle):
    """A job of a center. Every method asks it again, and raises ``ClientError``.

    A center that is away for a while is waited for, as long as the client's ``patience`` lasts.
    """

    def __init__(self, center: PatientHttp, id: int, name: str = "", note: str = "") -> None:
        super().__init__(id, name, note)
        self._center = center

    def view(self) -> JobView:
        """The job as it is now: state, counts of tasks, reason, and all that was submitted."""
        return self._center.ask(calls.job(self.id))

    def state(self) -> str:
        """``waiting``, ``running``, ``succeeded``, ``failed``, ``timed out``, ``out of memory``, ``lost`` or
        ``cancelled``.
        """
        view = self.view()
        return view.state

    def reason(self) -> str:
        """Return why it waits, or why it was not run; otherwise empty."""
        view = self.view()
        return view.reason

    def done(self) -> bool:
        """Return whether the job has ended, in whatever way."""
        return self.state() in OVER_WORDS

    def wait(self, timeout: float | None = None) -> JobView:
        """The job when it is over; ``TimeoutError`` after ``timeout`` seconds."""
        return operations.wait(self.id, timeout, self._center)

    def result(self, timeout: float | None = None) -> JobView:
        """The job when it has succeeded; ``JobFailed`` says why it did not, ``TimeoutError`` that it is not over."""
        return operations.result(self.id, timeout, self._center)

    def tasks(self, state: str = "") -> list[TaskView]:
        """Its tasks by index with all their attempts, or those in one state."""
        return operations.tasks(self.id, state, self._center)

    def task(self, index: int = 0) -> TaskView:
        """One of its tasks."""
        return self._center.ask(calls.task(self.id, index))

    def logs(
        self, task: int = 0, stream: str = "stdout", *, follow: bool = False, attempt: int | None = None
    ) -> Iterator[str]:
        """The lines that a task wrote to ``stdout`` or ``stderr`` in its last attempt, or in ``attempt``.

        With ``follow`` they come as they are written, until the task is over, attempt by attempt. A line has no newline
        at its end; bytes that are no UTF-8 are replaced.
        """
        return operations.lines(self.id, task, stream, attempt, self._center, follow=follow)

    def output(self, task: int = 0, stream: str = "stdout", *, attempt: int | None = None) -> str:
        """All that a task has written so far."""
        return operations.output(self.id, task, stream, attempt, self._center)

    def cancel(self) -> JobView:
        """Stop it and all its tasks; one that is over stays as it is."""
        return self._center.ask(calls.cancel(self.id))

    def hold(self) -> JobView:
        """Start nothing more of it until it is released; what runs goes on."""
        return self._center.ask(calls.hold(self.id))

    def release(self) -> JobView:
        """Let it start again."""
        return self._center.ask(calls.release(self.id))

    def signal(self, signal: str, task: int | None = None) -> JobView:
        """Send a signal, such as ``INT``, to the processes of a running task; ``None``: of all that run."""
        return self._center.ask(calls.signal(self.id, signal, task))

    def exec(
        self,
        command: Sequence[str],
        task: int | None = None,
        *,
        stdin: str | bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Executed:
        """Run a command in a task that runs, to its end. Not tried again: nobody knows what it has done.

        Without ``task`` in the first one that is ready; ``task`` of the result says which. In asyncio a command whose
        caller is cancelled is ended. ``client.http.exec`` gives a command to talk to while it runs, with a terminal
        too.
        """
        if task is None:
            task = operations.running_task(self.id, self._center)
        running = self._center.http.exec(self.id, command, task, environment=environment)
        try:
            return in_thread(executed, running, stdin, task)
        finally:
            # Whoever is cancelled does not wait for the thread, which ends with the connection.
            running.close()

    def scale(self, tasks: int) -> JobView:
        """Change the task count of a service or database."""
        return self._center.ask(calls.scale(self.id, tasks))

    def members(self) -> list[JobHandle]:
        """The runs of a cron job, the steps of a dag, the tasks of a service as jobs: oldest first."""
        views = operations.members(self.id, self._center)
        return [JobHandle(self._center, view.id, view.name) for view in views]

    def resume(self) -> JobHandle:
        """Run the steps of a dag that did not succeed, as a new dag."""
        page = self._center.ask(calls.resume(self.id))
        made = page.jobs[0]
        return JobHandle(self._center, made.id, made.name, made.note)
