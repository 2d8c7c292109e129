"""Run the tests in two pools at once: tests that compute in one, tests that mostly wait for programs in the other.

Each pool collects its own folders only, and the processors are busy while the other pool waits:

    python tools/run_tests.py -m 'not long' -k backfill

Everything is handed to both. ``WORKERS`` is the number of processes of the second pool; 0 runs all in one process. The
first pool has one process for each processor. They give way to the second pool (``GIVES_WAY``): it is done first, and
no processor is idle then.

Tests that wait start real programs, and one in thousands fails because others held the processors just then. Up to
``AGAIN`` of these that failed run once more, alone, when both pools are done. A test that passes alone is named on the
last lines, since it depends on the machine and wants mending, but does not fail the run. Tests that compute have no
second try, unless all that is wrong is their time (``tests/budget.py``): it is measured again, alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
# The folders of tests/ that compute; all others wait.
COMPUTING = (
    "core",
    "faults",
    "formats",
    "house",
    "language",
    "lifecycle",
    "model",
    "network",
    "protocol",
    "simulator",
    "slurm",
    "store",
    "upgrade",
)
# What pytest returns when no test was chosen, and when tests failed.
NONE_CHOSEN = 5
FAILED = 1
# A slow machine that stands still for a minute fails a dozen and more of the tests that wait. With more than these,
# something is broken, and each must pass alone in any case.
AGAIN = 20
# What is added to the nice value of the pool that computes.
GIVES_WAY = 5
_BAD = ("failed", "error", "errors")
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?)")
_LAST = re.compile(r"^(=+ )?.*\b(\d+ (passed|failed|errors?|skipped|deselected)|no tests ran)\b.* in [\d.]+s")


def main(arguments: list[str]) -> int:
    """Run both pools, print what they print line by line, and one last line for both; return the exit code."""
    if any("/" in each and Path(each.partition("::")[0]).exists() for each in arguments):
        # Some files alone.
        return subprocess.call(_command(2, arguments), cwd=ROOT)
    workers = int(os.environ.get("WORKERS") or 2 * (os.cpu_count() or 1))
    if not workers:
        return subprocess.call(_command(0, arguments), cwd=ROOT)
    names = sorted(place.name for place in (ROOT / "tests").iterdir() if _has_tests(place))
    computing = [f"tests/{name}" for name in names if name in COMPUTING]
    waiting = [f"tests/{name}" for name in names if name not in COMPUTING]
    begun = time.monotonic()
    pools = [
        _Pool(
            "computing",
            os.cpu_count() or 1,
            [*arguments, *computing],
            nice=GIVES_WAY,
        ),
        _Pool("waiting", workers, [*arguments, *waiting]),
    ]
    codes = [pool.wait() for pool in pools]
    counts: Counter[str] = sum((pool.counts for pool in pools), Counter())
    for index, pool in enumerate(pools):
        failed = pool.failed() if codes[index] == FAILED else []
        if not 0 < len(failed) <= AGAIN or (pool.name == "computing" and not set(failed) <= pool.above_budget()):
            continue
        print(f"==== tests of the {pool.name} pool that failed run once more, alone ====", flush=True)
        codes[index] = subprocess.call(_command(0, [*arguments, *failed]), cwd=ROOT)
        if not codes[index]:
            for kind in _BAD:
                counts[kind] -= pool.counts[kind]
            counts["passed alone"] += len(failed)
            for name in failed:
                print(f"failed beside others, passed alone: {name}", flush=True)
    took = time.monotonic() - begun
    told = ", ".join(f"{counts[kind]} {kind}" for kind in sorted(+counts, key=_order)) or "no tests ran"
    print(f"==== {told} in {took:.2f}s ({int(took) // 60}:{int(took) % 60:02}) ====", flush=True)
    if all(code == NONE_CHOSEN for code in codes):
        return NONE_CHOSEN
    return max((code for code in codes if code != NONE_CHOSEN), key=abs)


def _has_tests(place: Path) -> bool:
    return place.name.startswith("test_") or (place.is_dir() and any(place.glob("test_*.py")))


def _order(kind: str) -> int:
    shown = (*_BAD, "passed", "passed alone")
    return shown.index(kind) if kind in shown else len(shown)


def _command(workers: int, arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", f"-n{workers}", *arguments]


class _Pool:
    """One pytest, whose lines are printed as they come; its last line is kept for the sum."""

    def __init__(self, name: str, workers: int, arguments: list[str], *, nice: int = 0) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self._cache = ROOT / ".pytest_cache" / name
        # Lines of the summary about tests that failed.
        self._told: list[str] = []
        self._process = subprocess.Popen(
            _command(workers, [*arguments, "-o", f"cache_dir={self._cache}"]),
            cwd=ROOT,
            env={**os.environ, "TEST_POOL": name},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        # Its processes begin later, and inherit this.
        os.setpriority(os.PRIO_PROCESS, self._process.pid, nice)
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._print, args=(self._process.stdout,))
        self._reader.start()

    def _print(self, output: IO[str]) -> None:
        with output:
            for line in output:
                sys.stdout.write(line)
                sys.stdout.flush()
                if _LAST.match(line):
                    self.counts = Counter({kind: int(count) for count, kind in _COUNT.findall(line)})
                elif line.startswith(("FAILED ", "ERROR ")):
                    self._told.append(line.partition(" ")[2].rstrip())

    def failed(self) -> list[str]:
        """Return the names of the tests that failed; empty if pytest did not say all of them."""
        # The cache remembers failures of other runs too.
        names = self._cached("cache/lastfailed")
        found = {line: [name for name in names if f"{line} - ".startswith(f"{name} - ")] for line in self._told}
        if not all(found.values()) or len(self._told) != sum(self.counts[kind] for kind in _BAD):
            return []
        # One may have failed twice: itself, and what tidied up after it.
        return sorted({name for matching in found.values() for name in matching})

    def above_budget(self) -> frozenset[str]:
        """Return the names of the tests of which nothing is wrong but their time (``tests/budget.py``)."""
        return frozenset(self._cached("budget/above"))

    def _cached(self, name: str) -> Iterable[str]:
        kept = self._cache / "v" / name
        names: dict[str, bool] | list[str] = json.loads(kept.read_text()) if kept.exists() else []
        return names

    def wait(self) -> int:
        code = self._process.wait()
        self._reader.join()
        return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        # Both pools were interrupted as well, and say so themselves.
        sys.exit(130)
