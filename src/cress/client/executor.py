"""``cress.Executor``: an executor of ``concurrent.futures`` whose calls are tasks of the cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent import futures
from types import TracebackType
from typing import ParamSpec, TypeVar, Unpack

from cress.client.blocking.client import Client
from cress.client.executor_thread import ExecutorThread, PendingCall
from cress.client.job_keywords import CallKeys

P = ParamSpec("P")
T = TypeVar("T")


class Executor(futures.Executor):
    """Runs calls on the cluster of ``client`` (default: ``Client()``); all threads of the program may use it.

    Calls submitted shortly after each other travel together, as one array job with ``chunk`` calls for each task. By
    default there are a few tasks for each one that can run at once. ``python``, ``spool`` and ``keys`` are those of
    ``Client.map``. ``Future.result`` raises the exception of a call, with the traceback of the task as its cause; a
    task that died in every attempt raises ``TaskDied``.

    A future can be cancelled until its task begins. Leaving a ``with`` waits for all calls; Ctrl-C cancels them. A
    program that ends without ``shutdown`` cancels the remaining calls.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        chunk: int | None = None,
        python: str = "",
        spool: str | os.PathLike[str] | None = None,
        **keys: Unpack[CallKeys],
    ) -> None:
        if chunk is not None and chunk < 1:
            raise ValueError("chunk must be 1 or more")
        self._mine = client is None
        self._client = Client() if client is None else client
        self._thread = ExecutorThread(self._client.patient, chunk, python, spool, dict(keys))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> futures.Future[T]:
        """Call ``fn`` on the cluster. Raises ``CannotSend`` at once for objects that cannot be pickled."""
        from cress.client.packing import dump_call

        future: futures.Future[T] = futures.Future()
        self._thread.add(PendingCall(future, dump_call(fn, args, kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. With ``cancel_futures`` calls whose tasks have not begun are cancelled."""
        self._thread.stop(cancel=cancel_futures)
        if wait:
            self._thread.join()
            if self._mine:
                self._client.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self._thread.abort()
        self.shutdown()
