"""Rules for what a folder does not bring to a job: patterns as in ``.gitignore``, in a file of the folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

# Never brought: it is large, and of no use without the rest of the tools for it.
ALWAYS = (".git/",)


class IgnorePattern(NamedTuple):
    """A pattern: ``brings`` files that an earlier pattern left out; ``folders``: it matches folders only."""

    matches: re.Pattern[str]
    brings: bool
    folders: bool


class IgnoreRules:
    """The patterns of one folder; the last one that matches decides."""

    def __init__(self, lines: Sequence[str] = ()) -> None:
        self._patterns = [found for line in (*ALWAYS, *lines) if (found := parse_pattern(line)) is not None]

    @classmethod
    def of_folder(cls, folder: Path, names: Sequence[str]) -> Self:
        """Return the rules in the first of these files that the folder has. Raises OSError."""
        for name in names:
            try:
                return cls((folder / name).read_text(encoding="utf-8", errors="surrogateescape").splitlines())
            except FileNotFoundError:
                continue
        return cls()

    def leaves_out(self, name: str, *, is_folder: bool) -> bool:
        """Return whether a path below the folder is left out; what lies in a folder that is left out is so too."""
        found = False
        for pattern in self._patterns:
            if (is_folder or not pattern.folders) and pattern.matches.fullmatch(name):
                found = not pattern.brings
        return found

    def walk(self, folder: Path, below: str = "") -> Iterator[tuple[Path, str]]:
        """Yield what the folder brings, in the order of names: paths, and names below the folder. Raises OSError."""
        with os.scandir(folder / below) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            name, is_folder = below + entry.name, entry.is_dir(follow_symlinks=False)
            if self.leaves_out(name, is_folder=is_folder):
                continue
            yield folder / name, name
            if is_folder:
                yield from self.walk(folder, f"{name}/")


def parse_pattern(line: str) -> IgnorePattern | None:
    """Parse one line; ``None`` for an empty one or a comment."""
    text = re.sub(r"(?<!\\)\s+$", "", line)
    if not text or text.startswith("#"):
        return None
    brings = text.startswith("!")
    text = text[1:] if brings else text
    folders = text.endswith("/")
    text = text.rstrip("/")
    if not text:
        return None
    anywhere = "/" not in text
    return IgnorePattern(re.compile(("(?:.*/)?" if anywhere else "") + _expression(text.lstrip("/"))), brings, folders)


def _expression(text: str) -> str:
    """Return a pattern as a regular expression: ``*`` and ``?`` stay inside a name, ``**`` passes through folders."""
    made, place = "", 0
    while place < len(text):
        rest = text[place:]
        if rest.startswith("**/"):
            made, place = made + "(?:.*/)?", place + 3
        elif rest.startswith("/**") and len(rest) == 3:
            made, place = made + "/.*", place + 3
        elif rest[0] == "*":
            made, place = made + "[^/]*", place + 1
        elif rest[0] == "?":
            made, place = made + "[^/]", place + 1
        elif rest[0] == "[" and (end := text.find("]", place + 2)) > 0:
            inner = text[place + 1 : end].replace("\\", r"\\")
            made, place = made + "[" + ("^" + inner[1:] if inner[0] in "!^" else inner) + "]", end + 1
        elif rest[0] == "\\" and len(rest) > 1:
            made, place = made + re.escape(rest[1]), place + 2
        else:
            made, place = made + re.escape(rest[0]), place + 1
    return made
