"""Check the rules of the house; print what breaks them and exit with 1 if anything does."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.house import circles, counts, words
from tools.house.length import MOST_LINES, too_long
from tools.house.pure import check_source, pure_files

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Return the exit code: 0 when every rule is kept."""
    package = ROOT / "src" / "cress"
    files = list(pure_files(package))
    complaints = [
        str(finding)
        for path in files
        for finding in check_source(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    ]
    complaints += [
        f"{path.relative_to(ROOT)}: {lines} lines; at most {MOST_LINES}, a file is one idea"
        for folder in ("src", "tests", "tools", "benchmarks")
        for path, lines in too_long(ROOT / folder)
    ]
    complaints += circles.check(package)
    complaints += words.check(package)
    complaints += counts.check(ROOT)
    for complaint in complaints:
        print(complaint)
    print(f"Rules of the house: {len(files)} files of pure rooms read, {len(complaints)} complaints")
    return 1 if complaints or not files else 0


if __name__ == "__main__":
    sys.exit(main())
