"""The program that runs in a lease: Dask workers that retire when the lease is taken.

``python -m cress.integrations.dask.program JSON``, with the JSON of ``Ask.command``. A worker that is told to stop
(SIGTERM) has the rest of its grace for moving its data: the cluster retires it, and if the cluster is silent, it asks
the Dask scheduler itself. Its exit code is 0, also if the scheduler is gone: then the lease ends. Exit code 1 means
that the scheduler was not reached.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from distributed import Security, Status, Worker

# Seconds that a worker waits for the cluster to retire it, and between two attempts of its own.
PATIENCE = 2.0
PAUSE = 0.5


class LeaseWorker(Worker):
    """A worker that closes without waiting for its tasks: their results would be lost, and others need its lease."""

    async def close(self, *args: Any, **options: Any) -> str | None:  # type: ignore[override]  # its bases do not agree
        """Close the worker."""
        return await super().close(*args, **{**options, "executor_wait": False})


def main(words: Sequence[str]) -> int:
    """Run the workers of a lease to their end; return the exit code."""
    given = json.loads(words[0])
    # The user's modules are found in the directory of the cluster, after all other ones.
    sys.path.append(os.getcwd())  # noqa: PTH109 – what sys.path has are texts
    return asyncio.run(one(given) if len(given["names"]) == 1 else several(given))


async def one(given: Mapping[str, Any]) -> int:
    """Run one worker."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    security = Security(require_encryption=True, **given["tls"]) if given["tls"] else None
    worker = LeaseWorker(
        given["scheduler"],
        name=given["names"][0],
        nthreads=given["nthreads"],
        memory_limit=given["memory_limit"],
        death_timeout=given["death_timeout"],
        local_directory=given["local_directory"] or None,
        security=security,
        **given["options"],
    )
    begun, stop = asyncio.ensure_future(_begun(worker)), asyncio.ensure_future(told.wait())
    await asyncio.wait({begun, stop}, return_when=asyncio.FIRST_COMPLETED)
    if not begun.done():
        begun.cancel()
        return 0
    try:
        begun.result()
    except (TimeoutError, OSError, RuntimeError, ValueError) as error:
        print(f"the Dask scheduler at {given['scheduler']} was not reached: {error}", file=sys.stderr)  # noqa: T201 – the task's log
        return 1
    over = asyncio.ensure_future(worker.finished())
    await asyncio.wait({over, stop}, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait({over}, timeout=PATIENCE)
    while not over.done():
        await _retire(worker)
        await asyncio.wait({over}, timeout=PAUSE)
    stop.cancel()
    return 0


async def _begun(worker: Worker) -> None:
    await worker


async def _retire(worker: Worker) -> None:
    """Ask the scheduler to move the data of a worker and to close it; without another worker it does neither."""
    if worker.status is Status.running:
        # If the connection breaks, the worker closes itself.
        with suppress(OSError, RuntimeError):
            await worker.scheduler.retire_workers(workers=[worker.address], close_workers=True)


async def several(given: Mapping[str, Any]) -> int:
    """Run several workers, each in its own process; if one fails, stop the others and return its exit code."""
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "cress.integrations.dask.program", json.dumps({**given, "names": [name]}))
        )
        for name in given["names"]
    ]

    def tell() -> None:
        for process in processes:
            with suppress(ProcessLookupError):
                process.terminate()

    # All of them get the executor's signal; a signal from elsewhere is passed on.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, tell)
    code = 0
    for finished in asyncio.as_completed([process.wait() for process in processes]):
        ended = await finished
        if ended:
            code = code or ended
            tell()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of tasks that still run would keep the process alive.
    os._exit(status)
