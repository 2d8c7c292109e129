"""Sweeps: several simulations at once, one process for each core; the results come in the order in which they were
asked for.

A simulation is a function of plain data, so it gives the same figures in any process. A *task* here is a tuple of its
arguments. The function also gets ``tell``, which it calls with the work done so far and the whole work.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")
Task = tuple[Any, ...]
# Called with a label, the work done so far and the whole work.
Progress = Callable[[str, int, int], None]
# The whole work of a sweep, as its progress counts it: so many steps for each task.
STEPS = 1000
# Seconds between two looks at the progress of the processes.
LOOK = 0.1


class Sweep(Protocol):
    """A way to run tasks."""

    def results(
        self, work: Callable[..., T], tasks: Sequence[Task], labels: Sequence[str], progress: Progress | None
    ) -> Iterator[T]:
        """Yield what ``work(*task, tell=…)`` returns for each task, in order.

        An exception of a task is raised in its turn. ``progress`` sees one bar for all tasks; a task alone has the bar
        of its label.
        """


class TaskFailed(RuntimeError):
    """Error: a task ended in a way that could not be passed on; the message tells it."""


class SharedProgress:
    """One progress bar for several tasks, from the part of each that is done."""

    def __init__(self, labels: Sequence[str], progress: Progress | None) -> None:
        self._label = labels[0] if len(labels) == 1 else f"{len(labels)} simulations"
        self._whole = STEPS * len(labels)
        self._progress = progress
        self.show(0)

    def show(self, steps: int) -> None:
        """Show that so many steps of all tasks are done."""
        if self._progress is not None:
            self._progress(self._label, steps, self._whole)


class LocalSweep:
    """Runs tasks in processes of this machine, at most ``processes`` at once (0: one for each core)."""

    def __init__(self, processes: int = 0) -> None:
        self.processes = processes or len(os.sched_getaffinity(0))

    def results(
        self, work: Callable[..., T], tasks: Sequence[Task], labels: Sequence[str], progress: Progress | None
    ) -> Iterator[T]:
        """Yield the results in order. One task, or one process, needs no other process."""
        shared = SharedProgress(labels, progress)
        if min(len(tasks), self.processes) > 1:
            yield from _Processes(work, tasks, self.processes, shared).results()
            return
        for i, task in enumerate(tasks):
            yield work(*task, tell=_steps_told(i, shared))


def _steps_told(before: int, shared: SharedProgress) -> Callable[[int, int], None]:
    """Return the ``tell`` of a task that runs in this process, after ``before`` others."""

    def tell(done: int, whole: int) -> None:
        shared.show(before * STEPS + steps_of(done, whole))

    return tell


def steps_of(done: int, whole: int) -> int:
    """Return the steps of a task of which this part is done."""
    return min(STEPS, STEPS * done // whole) if whole > 0 else 0


class _Processes:
    """Forks of this process, one for each task: they have its data and its compiled loops, and send one result."""

    def __init__(self, work: Callable[..., Any], tasks: Sequence[Task], most: int, shared: SharedProgress) -> None:
        # A simulation alone starts without it.
        from multiprocessing import get_context

        self._work, self._tasks, self._most, self._shared = work, tasks, most, shared
        self._fork = get_context("fork")
        # The steps done, which the processes write.
        self._steps = self._fork.RawArray("q", len(tasks))
        self._running: dict[Connection, tuple[int, Any]] = {}
        self._done: dict[int, tuple[bool, Any]] = {}
        self._begun = 0

    def results(self) -> Iterator[Any]:
        """Yield the results in order; processes that still run when the caller goes away are stopped."""
        try:
            for i in range(len(self._tasks)):
                while i not in self._done:
                    self._begin()
                    self._collect()
                # The next one runs while the caller is busy with this result.
                self._begin()
                succeeded, result = self._done.pop(i)
                if not succeeded:
                    raise result
                yield result
        finally:
            for _, process in self._running.values():
                process.kill()
            for _, process in self._running.values():
                process.join()

    def _begin(self) -> None:
        """Start the next tasks, as long as there are cores for them."""
        while self._begun < len(self._tasks) and len(self._running) < self._most:
            i = self._begun
            self._begun += 1
            ours, theirs = self._fork.Pipe(duplex=False)
            process = self._fork.Process(target=self._run, args=(i, theirs), daemon=True)
            # An interrupt in between would leave a process that nobody knows. The process itself never sees one.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process.start()
                self._running[ours] = (i, process)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def _collect(self) -> None:
        """Wait until a task has ended, or a moment; show the progress."""
        import pickle
        from multiprocessing.connection import Connection, wait

        for ready in wait(list(self._running), LOOK):
            assert isinstance(ready, Connection)
            i, process = self._running.pop(ready)
            try:
                self._done[i] = pickle.loads(ready.recv_bytes())  # noqa: S301, from our own fork
                self._steps[i] = STEPS
            except (EOFError, OSError):
                process.join()
                how = f"signal {-process.exitcode}" if process.exitcode < 0 else f"exit code {process.exitcode}"
                self._done[i] = False, TaskFailed(f"a process of the sweep ended with {how}")
            ready.close()
            process.join()
        self._shared.show(sum(self._steps))

    def _run(self, i: int, out: Connection) -> None:
        """Run one task in a fork, and send its result."""
        # Ctrl-C reaches all processes of a terminal; the parent stops its forks.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

        def tell(done: int, whole: int) -> None:
            self._steps[i] = steps_of(done, whole)

        out.send_bytes(outcome(self._work, self._tasks[i], tell))
        # Nothing of the parent, such as its buffered output, may be ended twice.
        os._exit(0)


def outcome(work: Callable[..., Any], task: Task, tell: Callable[[int, int], None]) -> bytes:
    """Run a task; return, pickled, whether it succeeded, and its result or its exception."""
    import pickle
    import traceback

    try:
        return pickle.dumps((True, work(*task, tell=tell)), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001, whatever it is, it is passed on
        text = "".join(traceback.format_exception(error))
        try:
            # Only an exception that can be read again is passed on.
            found = pickle.dumps((False, error), protocol=pickle.HIGHEST_PROTOCOL)
            pickle.loads(found)  # noqa: S301, our own
        except Exception:  # noqa: BLE001, an exception may be of any kind, and refuse to be pickled
            return pickle.dumps((False, TaskFailed(text)))
        else:
            return found
