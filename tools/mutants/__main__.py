"""Tries small mutants of what a change touches against the nearest tests.

    python -m tools.mutants                          lines changed since the last landed commit
    python -m tools.mutants --base main~3            lines changed since that commit
    python -m tools.mutants --files src/cress/store  all lines of these files or folders

First the nearest tests run without a mutant, with a probe at each point: so it is known which tests come by it, and how
long they take. Then each mutant is tried with the tests that come by, the quickest first. Everything happens in copies
of the project below the folder for temporary files. Exit code: 0 if every mutant is killed, 1 if one survives or was
not tried, 2 for wrong use.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.nearest import nearest
from tools.mutants.points import Point, chosen, files_below, read
from tools.mutants.trials import Copy, Records, Stopped

PACKAGE = "src/cress"
# The share of the time that the run without mutants may take.
BASELINE = 0.35
# A mutant may take so many times as long as its tests took without it, and some seconds to begin.
SLOWER, BEGINNING = 3, 30
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


class WrongUse(Exception):
    """What is asked for does not exist; the text says what, and what to do."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: killed, survived, or not tried."""

    word: str
    why: str


def main(arguments: Sequence[str] | None = None, root: Path | None = None) -> int:
    """Try mutants, print what became of each; return the exit code."""
    options = _options(arguments)
    root = root or Path(__file__).resolve().parents[2]
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    begun = time.time()
    try:
        what, points = _points(root, options.files, options.base)
    except WrongUse as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    some = chosen(points, options.count, random.Random(seed))
    files = len({point.path for point in points})
    print(f"seed {seed}: {len(some)} of {len(points)} possible mutants in {files} files: {what}", flush=True)
    if not some:
        print("0 mutants: nothing to try")
        return 0
    place = Path(tempfile.mkdtemp(prefix="cress-mutants-"))
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    copies: list[Copy] = []
    try:
        copies += (Copy(root, place / f"copy{number}", seed) for number in range(min(os.cpu_count() or 1, len(some))))
        verdicts = _Run(copies, some, begun + 60 * options.minutes).verdicts(nearest(root, {p.path for p in some}))
    except KeyboardInterrupt:
        print("mutants: interrupted", file=sys.stderr)
        return 130
    finally:
        for copy in copies:
            copy.stop()
        shutil.rmtree(place, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)
    words = [verdict.word for verdict in verdicts]
    counts = ", ".join(f"{words.count(word)} {word}" for word in ("killed", "SURVIVED", "not tried") if word in words)
    took = int(time.time() - begun)
    print(f"{len(words)} mutants: {counts.lower()}; SEED={seed}; {took // 60}:{took % 60:02} minutes")
    return 0 if set(words) == {"killed"} else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    def positive(text: str) -> int:
        if not text.isdecimal() or not int(text):
            raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
        return int(text)

    parser = argparse.ArgumentParser(prog="mutants", description="try small mutants of a change")
    parser.add_argument("--base", help="the commit whose later changes are tried")
    parser.add_argument("--files", nargs="+", default=[], help="try all lines of these files or folders instead")
    parser.add_argument("--count", type=positive, default=20, help="how many mutants (20)")
    parser.add_argument("--seed", type=int, help="the seed of an earlier run, to repeat it")
    parser.add_argument("--minutes", type=positive, default=10, help="how long it may take in all (10)")
    return parser.parse_args(arguments)


def _points(root: Path, names: Sequence[str], base: str | None) -> tuple[str, list[Point]]:
    """Return a word on what is tried, and all points of it."""
    if names and base:
        raise WrongUse("BASE= and FILES= exclude each other: one tries changed lines, the other whole files")
    if names:
        for name in names:
            place = (root / name).resolve()
            if not place.exists() or not place.is_relative_to(root / PACKAGE):
                raise WrongUse(f"{name} is no file or folder of {PACKAGE}")
        files = dict.fromkeys(files_below(root, [os.path.relpath((root / name).resolve(), root) for name in names]))
        return "whole files", [point for path in files for point in read(root, path)]
    base = base or _landed(root)
    lines = changed_lines(root, base)
    shown = _git(root, "rev-parse", "--short", base).strip()
    return f"lines changed since {shown}", [point for path in lines for point in read(root, path, lines[path])]


def changed_lines(root: Path, base: str) -> dict[str, set[int]]:
    """Return the lines of source files that were changed since a commit, files that git does not know yet included."""
    result: dict[str, set[int]] = {}
    path = ""
    for line in _git(root, "diff", "--unified=0", "--no-color", "--no-ext-diff", base, "--", PACKAGE).splitlines():
        if line.startswith("+++ "):
            path = line[6:] if line.startswith("+++ b/") else ""
        elif (hunk := _HUNK.match(line)) and path.endswith(".py"):
            first, count = int(hunk[1]), int(hunk[2] or "1")
            result.setdefault(path, set()).update(range(first, first + count))
    for path in _git(root, "ls-files", "--others", "--exclude-standard", "--", PACKAGE).splitlines():
        if path.endswith(".py"):
            result[path] = set(range(1, len((root / path).read_bytes().splitlines()) + 1))
    return result


def _landed(root: Path) -> str:
    """Return the last landed commit: where this branch left main, or on main itself the commit before."""
    for main_branch in ("origin/main", "main"):
        try:
            base = _git(root, "merge-base", "HEAD", main_branch).strip()
        except WrongUse:
            continue
        changed = base != _git(root, "rev-parse", "HEAD").strip() or _git(root, "status", "--porcelain", "--", PACKAGE)
        return base if changed else "HEAD~1"
    return "HEAD~1"


def _git(root: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongUse(f"git {' '.join(arguments[:2])}: {done.stderr.strip()}")
    return done.stdout


class _Run:
    """All mutants of one run, tried in several copies at once."""

    def __init__(self, copies: Sequence[Copy], points: Sequence[Point], until: float) -> None:
        self._copies = copies
        self._points = dict(enumerate(points, 1))
        self._until = until
        self._verdicts: dict[int, Verdict] = {}
        self._printing = threading.Lock()
        # Test files, the nearest first; seconds of each test without a mutant; tests that come by each point.
        self._files: list[str] = []
        self._passed: dict[str, float] = {}
        self._reached: dict[int, set[str]] = {}

    def verdicts(self, files: Sequence[str]) -> list[Verdict]:
        """Run the tests without mutants, then with each; return a verdict for each point."""
        self._files = list(files)
        self._baseline()
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in self._points:
            waiting.put(number)

        def work(copy: Copy) -> None:
            while True:
                try:
                    number = waiting.get_nowait()
                except queue.Empty:
                    return
                self._tell(number, self._tried(copy, number))

        self._at_once(work)
        return [self._verdicts[number] for number in self._points]

    def _at_once(self, work: object) -> None:
        """Do the same in each copy, and wait; what goes wrong in one ends them all."""
        assert callable(work)
        wrong: list[BaseException] = []

        def guarded(copy: Copy) -> None:
            try:
                work(copy)
            except Stopped:
                return
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                wrong.append(error)
                for other in self._copies:
                    other.stop()

        threads = [threading.Thread(target=guarded, args=(copy,), daemon=True) for copy in self._copies]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                # A wait without end would not hear Ctrl-C on every machine.
                thread.join(0.5)
        if wrong:
            raise wrong[0]

    def _baseline(self) -> None:
        begun = time.time()
        until = begun + BASELINE * (self._until - begun)
        records: list[Records] = []

        def work(copy: Copy) -> None:
            before = copy.probe(self._points)
            # Each copy takes its turn of the files: so both come to the far ones last.
            files = self._files[self._copies.index(copy) :: len(self._copies)]
            if files:
                records.append(copy.run(files, None, until + BEGINNING - time.time(), until))
            copy.write(before)

        self._at_once(work)
        failed = sorted({test for each in records for test in each.failed})
        for each in records:
            self._passed |= each.passed
        for number, point in self._points.items():
            tests = {test for each in records for test in each.reached[number]}
            # What a module does when it is imported, and what one test did for all, concerns every test.
            self._reached[number] = set(self._passed) if point.at_import or "" in tests else tests & set(self._passed)
        ran = len({test.partition("::")[0] for test in self._passed})
        print(
            f"without mutants: {len(self._passed)} tests of {ran} of the {len(self._files)} nearest files passed in "
            f"{time.time() - begun:.0f} s",
            flush=True,
        )
        if failed:
            print(f"left out, since they fail with no mutant but the probes: {', '.join(failed)}", flush=True)

    def _tried(self, copy: Copy, number: int) -> Verdict:
        point = self._points[number]
        if not self._reached[number]:
            return Verdict("SURVIVED", "no test comes by")
        tests, expected = self._tests(number)
        left = self._until - time.time()
        limit = min(SLOWER * expected + BEGINNING, left)
        if left < expected + BEGINNING / 3:
            return Verdict("not tried", "the time is up")
        before = copy.mutate(point)
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        begun = time.time()
        records = copy.run(files, tests, limit)
        copy.write(before)
        took = f"{time.time() - begun:.0f} s"
        if records.failed:
            return Verdict("killed", f"by {records.failed[0]} ({took})")
        if records.ended:
            by = records.last or "the import of the tests"
            if left <= SLOWER * expected + BEGINNING:
                return Verdict("not tried", f"the time is up, in {by}")
            return Verdict("killed", f"by the time limit of {took}, in {by}")
        if records.code not in (0, 5):
            return Verdict(
                "killed", f"by {records.last or 'the import of the tests'}, exit code {records.code} ({took})"
            )
        return Verdict("SURVIVED", f"{len(tests)} of {len(self._reached[number])} tests that come by pass ({took})")

    def _tests(self, number: int) -> tuple[list[str], float]:
        """Return the tests for a mutant, file by file, and the seconds that they take: as many as its share allows."""
        place = {path: rank for rank, path in enumerate(self._files)}

        def rank(test: str) -> tuple[int, float, str]:
            # Of a table that is read at the import, all tests know something: the nearest know most.
            file = place[test.partition("::")[0]] if self._points[number].at_import else 0
            return file, self._passed[test], test

        # What mutants before it did not need is shared by the others.
        share = (self._until - time.time()) * len(self._copies) / (len(self._points) - len(self._verdicts))
        room = max(5.0, 0.7 * share - 6)
        tests: list[str] = []
        expected = 0.0
        for test in sorted(self._reached[number], key=rank):
            if tests and expected + self._passed[test] > room:
                continue
            tests.append(test)
            expected += self._passed[test]
        quickest: dict[str, int] = {}
        for test in tests:
            quickest.setdefault(test.partition("::")[0], len(quickest))
        # Fixtures of a file are made once.
        return sorted(tests, key=lambda test: quickest[test.partition("::")[0]]), expected

    def _tell(self, number: int, verdict: Verdict) -> None:
        with self._printing:
            self._verdicts[number] = verdict
            width = len(str(len(self._points)))
            print(f"{number:{width}} {verdict.word:9} {self._points[number]}  {verdict.why}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
