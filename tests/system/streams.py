"""Work that keeps coming while things are killed, and writes down when and how often it ran."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Self

from cress.client import ClientError
from tests.system.cluster import Cluster, wait_until

# One line for each run of a task: the job's name, the attempt. Appending so little is atomic.
NOTE = 'echo "$CRESS_JOB_NAME $CRESS_ATTEMPT" >> ran'


# Seconds between two submits.
PAUSE = 0.01


def noted(folder: Path) -> Counter[str]:
    """How often each job ran, by name."""
    path = folder / "ran"
    return Counter(line.split()[0] for line in path.read_text().splitlines()) if path.exists() else Counter()


class Submits:
    """Submits one small job after the other from a thread, each under a name of its own: ``s1``, ``s2``, ….

    ``acknowledged`` is what the center has promised, id by name; ``under_way`` is the number that is being submitted.
    ``script`` is what the tasks do before they write down that they ran.
    """

    def __init__(self, cluster: Cluster, first: int = 1, script: str = "") -> None:
        self.acknowledged: dict[str, int] = {}
        self.under_way = first - 1
        self._cluster = cluster
        self._script = script
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._submit)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _submit(self) -> None:
        try:
            with self._cluster.client() as client:
                while not self._stopping.is_set():
                    self.under_way += 1
                    name = f"s{self.under_way}"
                    job = {
                        "command": NOTE,
                        "name": name,
                        "directory": str(self._cluster.folder),
                        "resource": "<0.1, 1M>",
                    }
                    # When it fails nobody knows whether it was taken; the next one has another name.
                    with contextlib.suppress(ClientError):
                        self.acknowledged[name] = client.submit([job]).jobs[0].id
                    # The machine that runs this runs the tasks too: a queue that only grows would tell nothing.
                    time.sleep(PAUSE)
        except BaseException as error:  # noqa: BLE001 – raised again where the test can see it
            self._failure = error

    def wait_for_new(self) -> float:
        """Wait until a job ran that was not submitted before this call; the seconds that it took."""
        begin, last = time.monotonic(), self.under_way
        path = self._cluster.folder / "ran"
        read = path.stat().st_size if path.exists() else 0

        def ran() -> bool:
            with path.open("rb") as file:
                file.seek(read)
                return any(int(line.split()[0][1:]) > last for line in file.read().splitlines() if line[:1] == b"s")

        wait_until(lambda: path.exists() and ran(), "a start of something new")
        return time.monotonic() - begin

    def settle(self) -> None:
        """Wait until everything that was acknowledged is over."""
        with self._cluster.client() as client:
            wait_until(lambda: not client.jobs(state="waiting", limit=1).jobs, "the end of the queue")
            wait_until(
                lambda: not any(job.name.startswith("s") for job in client.jobs(state="running").jobs), "the last end"
            )
