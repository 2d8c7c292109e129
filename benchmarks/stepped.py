"""A center whose steps are measured: ``python -m benchmarks.stepped FILE center …`` runs ``cress center …``.

Its event loop is asyncio's own, since the steps of the faster one cannot be seen. Each step that takes more processor
time than ``NOTED`` is a line of ``FILE``: when it ended (s), processor time and time (ms), what the loop was called
for, and the place in which it was seen most often.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from cress.center import run
from cress.center.process.watchdog import described
from cress.center.web.tls_doors import TlsDoors
from cress.cli.main import main

# Seconds of processor time of a step that is noted, and seconds between two looks at a step.
NOTED, LOOK = 0.006, 0.001


class _Loop(TlsDoors, asyncio.SelectorEventLoop):
    """An event loop of asyncio's own, otherwise as that of a center."""


class Steps:
    """Measures the steps of the loop of this thread."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)
        # Only a step itself can be measured: the loop tells nobody of its steps.
        self._run = asyncio.events.Handle._run  # noqa: SLF001
        self._thread = threading.get_ident()
        self._begun = 0.0  # of the step under way; 0 between two steps
        self._seen: Counter[str] = Counter()

    def measure(self) -> None:
        """Begin to measure."""
        setattr(run, "CenterLoop", _Loop)  # noqa: B010 – the kinds of loops differ
        steps = self

        def measured(handle: Any) -> None:
            begun, spent = time.perf_counter(), time.thread_time()
            steps._begun = begun
            steps._run(handle)
            steps._begun = 0.0
            spent = time.thread_time() - spent
            if spent > NOTED:
                length = time.perf_counter() - begun
                seen, steps._seen = steps._seen, Counter()
                place = seen.most_common(1)[0][0] if seen else ""
                line = [time.time(), 1000 * spent, 1000 * length, _what(handle), place]
                steps._file.write(json.dumps(line) + "\n")

        setattr(asyncio.events.Handle, "_run", measured)  # noqa: B010
        threading.Thread(target=self._look_on, daemon=True).start()

    def _look_on(self) -> None:
        last = 0.0
        while True:
            time.sleep(LOOK)
            begun = self._begun
            if not begun or time.perf_counter() - begun < NOTED / 2:
                continue
            if begun != last:
                last, self._seen = begun, Counter()
            frame = sys._current_frames().get(self._thread)  # noqa: SLF001 – documented in spite of its name
            if frame is not None and self._begun == begun:
                self._seen[described(frame)] += 1


def _what(handle: Any) -> str:
    """What a step is of: a task by its name, else a function."""
    called = getattr(handle, "_callback", None)
    owner = getattr(called, "__self__", None)
    if isinstance(owner, asyncio.Task):
        coroutine: Any = owner.get_coro()
        return f"{owner.get_name()} {getattr(coroutine, '__qualname__', '')}"
    return getattr(called, "__qualname__", repr(called))


if __name__ == "__main__":
    Steps(Path(sys.argv.pop(1))).measure()
    main()
