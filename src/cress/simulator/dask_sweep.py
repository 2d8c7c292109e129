"""Sweeps on a Dask cluster: each simulation is one task on one of its workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import cress
from cress.model.errors import InputError
from cress.simulator.sweep import STEPS, Progress, SharedProgress, T, Task

# Seconds in which the scheduler of the cluster must answer, and within which the first worker must be there.
ANSWER, FIRST_WORKER = 10, 120
# Seconds between two looks at what has ended.
LOOK = 0.1


class DaskSweep:
    """Runs tasks on the workers of the Dask scheduler at ``address``, which have the same release of Cress.

    Each task takes one thread of a worker. A task whose worker is lost runs again on another one.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def results(
        self, work: Callable[..., T], tasks: Sequence[Task], labels: Sequence[str], progress: Progress | None
    ) -> Iterator[T]:
        """Yield the results in order. Raise ``InputError`` if the cluster cannot be reached or has another release."""
        try:
            dask: Any = import_module("distributed")
        except ImportError:
            raise InputError("needs Dask", hint="pip install 'cress[sim,dask]'", field="--dask") from None
        try:
            client = dask.Client(self._address, timeout=ANSWER, set_as_default=False)
        except (OSError, ValueError, TimeoutError):
            raise InputError(
                f"no scheduler of Dask answers at {self._address}",
                hint="its address, such as tcp://10.0.0.7:8786",
                field="--dask",
            ) from None
        with client:
            _check_workers(client)
            shared = SharedProgress(labels, progress)
            # What several tasks have in common, such as the workload, travels once.
            sent: dict[int, Any] = {}
            futures = [client.submit(_alone, work, *_sent(client, task, sent), pure=False) for task in tasks]
            try:
                for future in futures:
                    while not future.done():
                        time.sleep(LOOK)
                        shared.show(STEPS * sum(one.done() for one in futures))
                    yield future.result()
            finally:
                client.cancel(futures, force=True)


def _sent(client: Any, task: Task, sent: dict[int, Any]) -> list[Any]:
    """Return the arguments of a task, as they are on the cluster."""
    for argument in task:
        if id(argument) not in sent:
            # In a list, as Dask would scatter the elements of a list or a mapping one by one.
            (sent[id(argument)],) = client.scatter([argument], hash=False)
    return [sent[id(argument)] for argument in task]


def _alone(work: Callable[..., T], *task: Any) -> T:
    """Run a task on a worker, where nobody asks for its progress."""
    return work(*task, tell=_untold)


def _untold(done: int, whole: int) -> None:
    """Tell nobody."""


def _release() -> str:
    """Return the release of Cress."""
    return cress.__version__


def _check_workers(client: Any) -> None:
    """Wait for the first worker. Raise ``InputError`` if there is none, or one with another release of Cress."""
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER)
    except TimeoutError:
        raise InputError(
            f"has no worker after {FIRST_WORKER} s", hint="a cluster with workers", field="--dask"
        ) from None
    for worker, release in client.run(_release, on_error="return").items():
        if release != cress.__version__:
            raise InputError(
                f"worker {worker} has another release of Cress ({release}), which may decide otherwise",
                hint=f"cress {cress.__version__} on every worker",
                field="--dask",
            )
