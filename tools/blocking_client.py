"""Writes src/cress/client/blocking: the blocking client, made of the one for asyncio in src/cress/client/aio.

Waiting words (``async``, ``await``) go, names lose their ``Async``, and what asyncio calls otherwise is mapped. What
the two halves do differently stands in two files called ``runtime.py``, both written by hand. Run after a change in
aio:

    python -m tools.blocking_client
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src" / "cress" / "client"
WRITTEN, GENERATED = CLIENT / "aio", CLIENT / "blocking"
BY_HAND = {"__init__.py", "runtime.py"}
# Patterns and what takes their place, in this order.
RULES = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"\bawait ", ""),
        (r"\basync (def|with|for)\b", r"\1"),
        (r"\bAsyncGenerator\[(.+), None\]", r"Generator[\1, None, None]"),
        (r"\bAsync(?=[A-Z])", ""),
        (r"\basynccontextmanager\b", "contextmanager"),
        (r"\baclosing\b", "closing"),
        (r"\bStopAsyncIteration\b", "StopIteration"),
        (r"\b__a(iter|next|enter|exit)__\b", r"__\1__"),
        (r"\banext\(", "next("),
        (r"\.a(close|read|iter_\w+)\b", r".\1"),
        (r"\bcress\.client\.aio\b", "cress.client.blocking"),
    )
)
# Sorted imports, and what reads better where nothing is awaited: ``yield from``.
FIXES = ["--quiet", "--exit-zero", "--fix", "--unsafe-fixes", "--select", "I,UP028"]
MARK = "# Written by tools/blocking_client.py: edit aio/{name}.\n"


def blocking(name: str, text: str) -> str:
    """Return the blocking half of a file."""
    for pattern, new in RULES:
        text = pattern.sub(new, text)
    path = str(GENERATED / name)
    text = _ruff(["check", *FIXES, "--stdin-filename", path, "-"], text)
    return MARK.format(name=name) + _ruff(["format", "--quiet", "--stdin-filename", path, "-"], text)


def _ruff(options: list[str], text: str) -> str:
    command = [sys.executable, "-m", "ruff", *options]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=CLIENT).stdout


def files() -> dict[str, str]:
    """Return the generated files by their names."""
    paths = sorted(path for path in WRITTEN.glob("*.py") if path.name not in BY_HAND)
    return {path.name: blocking(path.name, path.read_text(encoding="utf-8")) for path in paths}


def main() -> None:
    """Write the files; remove those of which the asyncio half is gone."""
    made = files()
    for path in GENERATED.glob("*.py"):
        if path.name not in made and path.name not in BY_HAND:
            path.unlink()
    for name, text in made.items():
        (GENERATED / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
