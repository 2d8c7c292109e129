"""Handles: jobs that were submitted, to wait for, read and steer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cress.client import calls, operations
from cress.client.effects import RetryBudget, iterate, retried, run
from cress.client.exec_result import Executed, executed
from cress.client.job_keywords import Named
from cress.model.records import OVER_WORDS
from cress.protocol.views import JobView, TaskView

if TYPE_CHECKING:
    from cress.client.http import Client as Http


class Handle(Named):
    """The part shared by the handles of both clients: id, name and note of the submit."""

    def __init__(self, id: int, name: str = "", note: str = "") -> None:
        self.id = id
        self.name = name
        self.note = note

    def __repr__(self) -> str:
        return f"<job {self.id}{f' {self.name}' if self.name else ''}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and type(other) is type(self) and other.id == self.id

    def __hash__(self) -> int:
        return hash((type(self), self.id))


class JobHandle(Handle):
    """A job of a center. Every method asks it again, and raises ``ClientError``.

    A center that is away for a while is waited for, as long as the client's ``budget`` lasts.
    """

    def __init__(self, http: Http, budget: RetryBudget, id: int, name: str = "", note: str = "") -> None:
        super().__init__(id, name, note)
        self._http = http
        self._budget = budget

    def view(self) -> JobView:
        """The job as it is now: state, counts of tasks, reason, and all that was submitted."""
        return run(retried(calls.job(self.id), self._budget), self._http)

    def state(self) -> str:
        """``waiting``, ``running``, ``succeeded``, ``failed``, ``timed out``, ``out of memory``, ``lost`` or
        ``cancelled``.
        """
        return self.view().state

    def reason(self) -> str:
        """Return why it waits, or why it was not run; otherwise empty."""
        return self.view().reason

    def done(self) -> bool:
        """Return whether the job has ended, in whatever way."""
        return self.state() in OVER_WORDS

    def wait(self, timeout: float | None = None) -> JobView:
        """The job when it is over; ``TimeoutError`` after ``timeout`` seconds."""
        return run(operations.wait(self.id, timeout, self._budget), self._http)

    def result(self, timeout: float | None = None) -> JobView:
        """The job when it has succeeded; ``JobFailed`` says why it did not, ``TimeoutError`` that it is not over."""
        return run(operations.result(self.id, timeout, self._budget), self._http)

    def tasks(self, state: str = "") -> list[TaskView]:
        """Its tasks by index with all their attempts, or those in one state."""
        return run(operations.tasks(self.id, state, self._budget), self._http)

    def task(self, index: int = 0) -> TaskView:
        """One of its tasks."""
        return run(retried(calls.task(self.id, index), self._budget), self._http)

    def logs(
        self, task: int = 0, stream: str = "stdout", *, follow: bool = False, attempt: int | None = None
    ) -> Iterator[str]:
        """The lines that a task wrote to ``stdout`` or ``stderr`` in its last attempt, or in ``attempt``.

        With ``follow`` they come as they are written, until the task is over, attempt by attempt. A line has no newline
        at its end; bytes that are no UTF-8 are replaced.
        """
        operation = operations.lines(self.id, task, stream, attempt, self._budget, follow=follow)
        return iterate(operation, self._http)

    def output(self, task: int = 0, stream: str = "stdout", *, attempt: int | None = None) -> str:
        """All that a task has written so far."""
        return run(operations.output(self.id, task, stream, attempt, self._budget), self._http)

    def cancel(self) -> JobView:
        """Stop it and all its tasks; one that is over stays as it is."""
        return run(retried(calls.cancel(self.id), self._budget), self._http)

    def hold(self) -> JobView:
        """Start nothing more of it until it is released; what runs goes on."""
        return run(retried(calls.hold(self.id), self._budget), self._http)

    def release(self) -> JobView:
        """Let it start again."""
        return run(retried(calls.release(self.id), self._budget), self._http)

    def signal(self, signal: str, task: int | None = None) -> JobView:
        """Send a signal, such as ``INT``, to the processes of a running task; ``None``: of all that run."""
        return run(retried(calls.signal(self.id, signal, task), self._budget), self._http)

    def exec(
        self,
        command: Sequence[str],
        task: int | None = None,
        *,
        stdin: str | bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Executed:
        """Run a command in a task that runs, to its end. Not tried again: nobody knows what it has done.

        Without ``task`` in the first one that is ready; ``task`` of the result says which.
        ``client.http.exec`` gives a command to talk to while it runs, with a terminal too.
        """
        if task is None:
            task = run(operations.running_task(self.id, self._budget), self._http)
        with self._http.exec(self.id, command, task, environment=environment) as running:
            return executed(running, stdin, task)

    def scale(self, tasks: int) -> JobView:
        """Change the task count of a service or database."""
        return run(retried(calls.scale(self.id, tasks), self._budget), self._http)

    def members(self) -> list[JobHandle]:
        """The runs of a cron job, the steps of a dag, the tasks of a service as jobs: oldest first."""
        views = run(operations.members(self.id, self._budget), self._http)
        return [JobHandle(self._http, self._budget, view.id, view.name) for view in views]

    def resume(self) -> JobHandle:
        """Run the steps of a dag that did not succeed, as a new dag."""
        made = run(retried(calls.resume(self.id), self._budget), self._http).jobs[0]
        return JobHandle(self._http, self._budget, made.id, made.name, made.note)
