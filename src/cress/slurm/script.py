"""Scripts with directives: ``#SBATCH``, ``#PBS`` and ``#CRESS`` lines in their head."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from cress.model.errors import InputError

WORDS = ("SBATCH", "PBS", "CRESS")
# Most bytes of a script: it travels in the arguments of the command.
MOST_BYTES = 700_000


# Most bytes of a head that is looked at before the whole script is read.
MOST_HEAD = 10_000
# Comments, and a directive.
_DIRECTED = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*?#(SBATCH|PBS|CRESS)\s")


# Directives of other systems, which are comments here.
_FOREIGN = {
    "BSUB": "LSF",
    "$": "Grid Engine",
    "flux:": "Flux",
    "OAR": "OAR",
    "PJM": "Fujitsu's PJM",
    "COBALT": "Cobalt",
    "MSUB": "Moab",
}
_FOREIGN_LINE = re.compile(rf"#({'|'.join(map(re.escape, _FOREIGN))})[ \t]+-", re.ASCII)


class Directive(NamedTuple):
    """The words of one directive, and its line."""

    kind: str
    words: tuple[str, ...]
    line: int


class Script(NamedTuple):
    """A script: its ``name``, the whole ``text``, its directives, and notes on those of other systems."""

    name: str
    text: str
    directives: tuple[Directive, ...]
    notes: tuple[str, ...] = ()

    @property
    def kinds(self) -> set[str]:
        """The kinds of its directives."""
        return {directive.kind for directive in self.directives}


def begins_script(text: str) -> bool:
    """Return whether a text begins as a script: with ``#!``, or with comments and a directive of PBS."""
    return text.startswith("#!") or _is_for_pbs(text)


def _is_for_pbs(text: str) -> bool:
    head = _DIRECTED.match(text)
    return head is not None and head[1] == "PBS"


def read_script(text: str, file: str, *, pbs: bool = True) -> Script:
    """Return a script. Directives stand before the first line that is neither empty nor a comment.

    A script for PBS whose first line names no interpreter gets that of ``-S``, by default bash. Without ``pbs``, and
    beside directives of Slurm, ``-S`` is not read. Raises InputError with the line.
    """
    if not begins_script(text):
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
    notes: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if not line.lstrip().startswith("#"):
            break
        match = re.match(r"#(SBATCH|PBS|CRESS)(?=\s|$)(.*)", line)
        if match is None:
            foreign = _FOREIGN_LINE.match(line)
            if foreign is not None and not notes:
                what = f"#{foreign[1]} lines are of {_FOREIGN[foreign[1]]} and are passed over"
                notes.append(f"{file}:{number}: {what}: write #SBATCH or #CRESS lines (docs/slurm.md)")
            continue
        words = _words(match[2], file, number)
        if words:
            found.append(Directive(match[1], tuple(words), number))
    counts = pbs and not any(directive.kind == "SBATCH" for directive in found)
    whole = _with_interpreter(text, found if counts else [], file)
    # Beside directives that are read, those of other systems are on purpose.
    return Script(file.rpartition("/")[2], whole, tuple(found), () if found else tuple(notes))


def _with_interpreter(text: str, directives: Sequence[Directive], file: str) -> str:
    """Return a script with the interpreter of ``#PBS -S``, which may not differ from that of its first line."""
    first = text.partition("\n")[0]
    shell = "/bin/bash"
    for directive in directives:
        for word, following in zip(directive.words, (*directive.words[1:], ""), strict=True):
            if directive.kind == "PBS" and word.startswith("-S"):
                shell = word[2:] or following
                if text.startswith("#!") and shell.rpartition("/")[2] not in re.split(r"[\s/]+", first.strip()):
                    what = f"-S names another interpreter than the first line, {first}"
                    raise InputError(what, hint="the same in both lines", file=file, line=directive.line)
    return text if text.startswith("#!") else f"#!{shell}\n{text}"


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
