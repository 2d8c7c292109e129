"""The thread behind ``Executor``: gathers calls into bundles, submits them, and sets the results of the futures."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from cress.client.blocking import bundles
from cress.client.blocking.patient import PatientHttp
from cress.client.bundle import GONE, SELDOM, SOON, ChunkBundle, ChunkResult, chunk_size, job_of, settled
from cress.client.spool import created

# Seconds without another call after which calls are sent; most seconds for which the first one waits for others,
# usually and while more tasks are in transit than can run.
QUIET, MOST, MOST_BUSY = 0.01, 0.5, 2.0
# Seconds between two checks for the end of the program while there is nothing to do.
IDLE = 0.5
# Seconds for which the number of tasks that can run is remembered.
PLACES_KNOWN = 60.0
CALLS = "calls"


class PendingCall:
    """A call: its ``future``, and the pickles of function and arguments."""

    __slots__ = ("future", "pickles", "told")

    def __init__(self, future: Future[Any], pickles: tuple[bytes, bytes]) -> None:
        self.future = future
        self.pickles = pickles
        # True once the future knows that it runs or is cancelled.
        self.told = False

    def begin(self) -> None:
        """Note that its task has begun, or that it was cancelled."""
        if not self.told:
            self.told = True
            self.future.set_running_or_notify_cancel()

    def fail(self, error: BaseException) -> None:
        """Fail the call, which will have no result."""
        self.begin()
        if not self.future.cancelled():
            self.future.set_exception(error)


class Sent:
    """A bundle in transit, with the calls of each chunk."""

    def __init__(self, bundle: ChunkBundle, chunks: list[list[PendingCall]]) -> None:
        self.bundle = bundle
        self.chunks = chunks

    def deliver(self, found: list[ChunkResult]) -> None:
        """Set the results on their futures."""
        for part in found:
            for entry, outcome in zip(self.chunks[part.chunk], part.outcomes, strict=True):
                result = settled(outcome)
                entry.begin()
                if entry.future.cancelled():
                    continue
                if result.error is not None:
                    entry.future.set_exception(result.error)
                else:
                    entry.future.set_result(result.value)
            self.chunks[part.chunk] = []
        for chunk in self.bundle.begun:
            for entry in self.chunks[chunk]:
                entry.begin()

    def drop_cancelled(self) -> None:
        """Notify the waiters of cancelled calls; skip chunks of which all calls are cancelled."""
        for chunk in sorted(self.bundle.missing - self.bundle.begun):
            cancelled = [entry for entry in self.chunks[chunk] if entry.future.cancelled()]
            for entry in cancelled:
                entry.begin()
            if len(cancelled) == len(self.chunks[chunk]):
                self.bundle.skip(chunk)

    def fail(self, error: BaseException) -> None:
        """Fail all calls that have no result yet."""
        for entries in self.chunks:
            for entry in entries:
                if not entry.future.done():
                    entry.fail(error)
        self.bundle.unwanted = True
        self.bundle.missing.clear()


class ExecutorThread(threading.Thread):
    """Runs until it is stopped and every call is settled."""

    def __init__(
        self, center: PatientHttp, chunk: int | None, python: str, spool: Any, keys: Mapping[str, Any]
    ) -> None:
        super().__init__(name="cress-executor")
        self._center = center
        self._chunk = chunk
        self._python = python
        self._spool = spool
        self._keys = keys
        self._bell = threading.Condition()
        self._waiting: list[PendingCall] = []
        # When the first and the last of the waiting calls came.
        self._first = self._last = 0.0
        self._sent: list[Sent] = []
        self._stopped = self._aborted = self._cancelled = False
        self._places = (0, 0.0)

    # --- for the executor ---------------------------------------------------------------------------------------------

    def add(self, entry: PendingCall) -> None:
        """Add a call."""
        with self._bell:
            if self._stopped:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._last = time.monotonic()
            if not self._waiting:
                self._first = self._last
                self._bell.notify()
            self._waiting.append(entry)
            if not self.ident:
                self.start()
        entry.future.add_done_callback(self._note)

    def stop(self, *, cancel: bool) -> None:
        """Accept no more calls, and end when the present ones are settled."""
        with self._bell:
            self._stopped = True
            entries = [*self._waiting, *(entry for sent in self._sent for chunk in sent.chunks for entry in chunk)]
            self._bell.notify()
        if cancel:
            for entry in entries:
                entry.future.cancel()

    def abort(self) -> None:
        """Give up all calls."""
        with self._bell:
            self._stopped = self._aborted = True
            self._bell.notify()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the thread, if it was started."""
        if self.ident:
            super().join(timeout)

    def _note(self, future: Future[Any]) -> None:
        if future.cancelled():
            self._cancelled = True

    # --- the thread ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the thread; see the class."""
        pause = SOON
        while True:
            with self._bell:
                if not self._stopped and not threading.main_thread().is_alive():
                    self._stopped = self._aborted = True
                if self._aborted:
                    break
                if not self._waiting and not self._sent:
                    if self._stopped:
                        return
                    self._bell.wait(IDLE)
                    continue
                ready = self._ready()
            if ready:
                self._send(ready)
                pause = SOON
            elif self._look():
                pause = SOON
            else:
                time.sleep(pause)
                pause = min(pause * 1.5, SELDOM)
        self._leave()

    def _ready(self) -> list[PendingCall]:
        """Return the calls to send now, which have waited long enough for others."""
        if not self._waiting:
            return []
        now = time.monotonic()
        busy = sum(len(sent.bundle.missing) for sent in self._sent) >= self._places[0] > 0
        quiet = now - self._last >= QUIET and not busy
        if not (quiet or self._stopped or now - self._first >= (MOST_BUSY if busy else MOST)):
            return []
        ready, self._waiting = self._waiting, []
        return ready

    def _send(self, ready: list[PendingCall]) -> None:
        entries = []
        for entry in ready:
            if entry.future.cancelled():
                entry.begin()
            else:
                entries.append(entry)
        if not entries:
            return
        try:
            size = self._chunk or chunk_size(len(entries), self._count_places())
            chunks = [entries[begin : begin + size] for begin in range(0, len(entries), size)]
            bundle = self._start(chunks)
        except Exception as error:  # noqa: BLE001 – the futures carry it
            for entry in entries:
                entry.fail(error)
        else:
            self._sent.append(Sent(bundle, chunks))

    def _start(self, chunks: list[list[PendingCall]]) -> ChunkBundle:
        from cress.client import packing

        folder = created(self._spool)
        bundle = ChunkBundle(folder, [len(chunk) for chunk in chunks])
        try:
            pickles = [[entry.pickles for entry in chunk] for chunk in chunks]
            packing.send(folder, CALLS, None, pickles)
            job = job_of(bundle, CALLS, self._python, self._keys)
            bundles.submit(bundle, job, "", self._center)
        except BaseException:
            folder.clear()
            raise
        return bundle

    def _count_places(self) -> int:
        count, known = self._places
        if not count or time.monotonic() - known > PLACES_KNOWN:
            count = bundles.places(self._keys.get("resource"), self._center)
            self._places = (count, time.monotonic())
        return count

    def _look(self) -> bool:
        """Set new results on their futures; return whether there were any."""
        cancelled, self._cancelled = self._cancelled, False
        moved = False
        for sent in self._sent:
            try:
                found = bundles.poll(sent.bundle, 0.0, self._center)
                sent.deliver(found)
                if cancelled:
                    sent.drop_cancelled()
            except Exception as error:  # noqa: BLE001 – the futures carry it
                found = []
                sent.fail(error)
            moved = moved or bool(found)
        over = [sent for sent in self._sent if not sent.bundle.missing]
        with self._bell:
            self._sent = [sent for sent in self._sent if sent.bundle.missing]
        for sent in over:
            self._end(sent)
        return moved or bool(over)

    def _end(self, sent: Sent) -> None:
        with contextlib.suppress(Exception):  # remaining files do no harm
            bundles.end(sent.bundle, self._center.at_most(GONE))

    def _leave(self) -> None:
        """Cancel all calls."""
        for entry in self._waiting:
            entry.future.cancel()
            entry.begin()
        for sent in self._sent:
            for chunk in sent.chunks:
                for entry in chunk:
                    entry.future.cancel()
            sent.fail(RuntimeError("the executor was left before the call was over"))
            self._end(sent)
