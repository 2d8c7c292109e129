"""Copies of the project in which mutants are tried, and runs of tests in them."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from tools.mutants.points import Point, with_probes

# What other files are written from, and the tool that writes them: a mutant of one is a mutant of both.
WRITERS = {"src/cress/client/aio/": "tools.blocking_client"}
# A mutant that collects values for ever must not take the machine with it.
_MEMORY = 8 << 30
_PROBE = Path(__file__).with_name("mutant_probe.py")
# What a cache of compiled loops consists of: it holds for the copy too, since the times of the files are kept.
_COMPILED = (".nbi", ".nbc")
_MARK = "CRESS_MUTANTS"


@dataclass
class Records:
    """What a run of tests has written down."""

    code: int = 0
    # Seconds that each test took, of those that passed; what did not pass, in order.
    passed: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    # Tests that came by a point; "" stands for no test, as when a module is imported.
    reached: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    last: str = ""
    # It took too long, and was ended.
    ended: bool = False

    @classmethod
    def read(cls, path: Path, code: int, *, ended: bool) -> Records:
        """Return what the file says; a test passed if all its parts did."""
        result = cls(code, ended=ended)
        seconds: dict[str, float] = defaultdict(float)
        out: set[str] = set()
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            kind, test, value = json.loads(line)
            if kind == "begins":
                result.last = test
            elif kind == "reached":
                result.reached[value].add(result.last if test is None else test)
            else:
                seconds[test] += value
                if kind == "failed":
                    result.failed.append(test)
                if kind != "passed":
                    out.add(test)
        result.passed = {test: took for test, took in seconds.items() if test not in out}
        return result


class Stopped(Exception):
    """The whole run is being ended."""


class Copy:
    """A copy of the project: its files with all changes, and the compiled loops."""

    def __init__(self, root: Path, place: Path, seed: int) -> None:
        self.place = place
        self._records = place.with_suffix(".records")
        self._tests = place.with_suffix(".tests")
        self._environment = {
            # Properties draw the same examples with and without the mutant.
            "CRESS_SEED": str(seed),
            **{name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
            "PYTHONPATH": os.pathsep.join((str(place / "src"), str(place))),
            "PYTHONDONTWRITEBYTECODE": "",
            "MUTANT_RECORDS": str(self._records),
            _MARK: str(place),
        }
        self._running: subprocess.Popen[bytes] | None = None
        self._stopped = False
        # A mutant as long as the one before, of the same second, would run from the bytecode of that one.
        self._time = int(time.time())
        for name in _files(root):
            source = root / name
            if source.is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, place / name)
        for source in (root / "src").rglob("__pycache__/*"):
            if source.suffix in _COMPILED:
                target = place / source.relative_to(root)
                target.parent.mkdir(exist_ok=True)
                shutil.copy2(source, target)
        shutil.copy2(_PROBE, place / "src" / _PROBE.name)

    def probe(self, numbered: Mapping[int, Point]) -> dict[str, bytes]:
        """Put a probe at each point; return the files as they were."""
        by_file: dict[str, dict[int, Point]] = defaultdict(dict)
        for number, point in numbered.items():
            by_file[point.path][number] = point
        before = {path: (self.place / path).read_bytes() for path in by_file}
        self.write({path: with_probes(before[path], some) for path, some in by_file.items()})
        return before

    def mutate(self, point: Point) -> dict[str, bytes]:
        """Make the mutant; return the file as it was."""
        before = (self.place / point.path).read_bytes()
        self.write({point.path: point.applied(before)})
        return {point.path: before}

    def write(self, sources: Mapping[str, bytes]) -> None:
        """Write source files, and what tools write from them."""
        self._time += 1
        for path, source in sources.items():
            (self.place / path).write_bytes(source)
            os.utime(self.place / path, (self._time, self._time))
        for folder, tool in WRITERS.items():
            if any(path.startswith(folder) for path in sources):
                subprocess.run([sys.executable, "-m", tool], cwd=self.place, env=self._environment, check=True)

    def run(
        self, files: Sequence[str], tests: Iterable[str] | None, limit: float, until: float | None = None
    ) -> Records:
        """Run the tests of some files, or those that are named, in that order up to the first that fails.

        ``limit`` is the number of seconds after which the run is ended; ``until`` a moment, in seconds since 1970,
        behind which no further test begins.
        """
        self._records.unlink(missing_ok=True)
        environment = dict(self._environment)
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "mutant_probe"]
        # A mutant may make a test slower than its budget, and so may another program.
        command += ["-p", "no:budget", "-m", "not long"]
        if tests is not None:
            self._tests.write_text(json.dumps(list(tests)), encoding="utf-8")
            environment["MUTANT_TESTS"] = str(self._tests)
            command.append("-x")
        if until is not None:
            environment["MUTANT_UNTIL"] = str(until)
        if self._stopped:
            raise Stopped
        self._running = subprocess.Popen(
            [*command, *files],
            cwd=self.place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        resource.prlimit(self._running.pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        ended = False
        try:
            self._running.wait(limit)
        except subprocess.TimeoutExpired:
            ended = True
        self._end()
        if self._stopped:
            raise Stopped
        return Records.read(self._records, self._running.returncode, ended=ended)

    def stop(self) -> None:
        """End what runs, from another thread; nothing begins any more."""
        self._stopped = True
        self._end()

    def _end(self) -> None:
        """End the running tests, and every program that they have started and left behind."""
        if self._running is not None and self._running.poll() is None:
            self._running.kill()
            self._running.wait()
        left = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(_MARK) == str(self.place):
                    process.kill()
                    left.append(process)
            except psutil.Error:
                continue
        psutil.wait_procs(left, timeout=5)


def _files(root: Path) -> list[str]:
    """Return the files of the project: those that git knows, and new ones that it does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")[:-1]
