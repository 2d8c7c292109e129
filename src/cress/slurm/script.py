"""Scripts with directives: ``#SBATCH``, ``#PBS`` and ``#CRESS`` lines in their head."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from cress.model.errors import InputError

WORDS = ("SBATCH", "PBS", "CRESS")
# Most bytes of a script: it travels in the arguments of the command.
MOST_BYTES = 700_000


class Directive(NamedTuple):
    """The words of one directive, and its line."""

    kind: str
    words: tuple[str, ...]
    line: int


class Script(NamedTuple):
    """A script: its ``name``, the whole ``text``, and its directives."""

    name: str
    text: str
    directives: tuple[Directive, ...]

    @property
    def kinds(self) -> set[str]:
        """The kinds of its directives."""
        return {directive.kind for directive in self.directives}


def is_script(text: str) -> bool:
    """Return whether a text is a script: it begins with ``#!``."""
    return text.startswith("#!")


def read_script(text: str, file: str) -> Script:
    """Return a script. Directives stand before the first line that is neither empty nor a comment.

    Raises InputError with the line.
    """
    if not is_script(text):
        raise InputError(
            "is not a batch script: its first line names no interpreter", hint="#!/bin/sh", file=file, line=1
        )
    if "\r\n" in text:
        raise InputError(
            "has the line ends of DOS, which interpreters do not accept", hint="dos2unix", file=file, line=1
        )
    if len(text.encode()) > MOST_BYTES:
        raise InputError(f"has more than {MOST_BYTES:,} bytes", hint="a short script that starts it", file=file)
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if not line.lstrip().startswith("#"):
            break
        match = re.match(r"#(SBATCH|PBS|CRESS)(?=\s|$)(.*)", line)
        if match is None:
            continue
        words = _words(match[2], file, number)
        if words:
            found.append(Directive(match[1], tuple(words), number))
    return Script(file.rpartition("/")[2], text, tuple(found))


def _words(text: str, file: str, line: int) -> list[str]:
    reader = shlex.shlex(text, posix=True, punctuation_chars=False)
    reader.whitespace_split = True
    # A comment begins with a word, so that `a#b` stays one.
    reader.commenters = ""
    try:
        words = list(reader)
    except ValueError:
        raise InputError(
            "has a quotation mark without its pair", hint=text.strip()[:80], file=file, line=line
        ) from None
    comment = next((place for place, word in enumerate(words) if word.startswith("#")), len(words))
    return words[:comment]
