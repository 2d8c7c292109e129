"""A file is one idea: no file is longer than 800 lines, tests and tools included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

MOST_LINES = 800


def too_long(folder: Path, most: int = MOST_LINES) -> Iterator[tuple[Path, int]]:
    """Yield the Python files under ``folder`` with more than ``most`` lines, and how many they have, sorted."""
    for path in sorted(folder.rglob("*.py")):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > most:
            yield path, lines
