"""Versions of the machine's compilers and languages, found by running each program once for each version of its file.

The answers are kept in the executor's directory, by path, size and time of change of the program. So only the first
start of an executor has to wait for them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import msgspec

from cress.protocol.regular_files import read_regular

# Seconds for a program to print its version; a machine that has just started is slow.
PATIENCE = 5.0
CACHE = "versions.json"


class Question(msgspec.Struct, frozen=True):
    """The command to run, and the pattern of the version in its output."""

    attribute: str
    command: tuple[str, ...]
    answer: re.Pattern[str]


QUESTIONS = (
    Question("GCC", ("gcc", "-dumpfullversion", "-dumpversion"), re.compile(r"\A\s*(\d[\w.+~-]*)")),
    Question("Java", ("java", "-version"), re.compile(r'\bversion "([^"\s]+)"')),
    Question("Python", ("python3", "--version"), re.compile(r"\APython (\d[\w.+]*)")),
)


class ProgramVersion(msgspec.Struct, frozen=True):
    """The version that a program printed, and the identity of its file. An empty ``version``: none was found."""

    path: str
    size: int
    changed: int
    version: str


def versions(directory: Path, search: str | None = None) -> dict[str, str]:
    """Return the versions of the programs that exist, by attribute. Blocks for up to ``PATIENCE`` seconds.

    ``directory`` keeps the answers; ``search`` is the search path, ``None``: that of this process.
    """
    known = _load(directory / CACHE)
    answers: dict[str, ProgramVersion] = {}
    asked: list[tuple[Question, ProgramVersion, subprocess.Popen[bytes] | None]] = []
    for question in QUESTIONS:
        place = _place(question.command[0], search)
        if place is None:
            continue
        before = known.get(question.attribute)
        if before is not None and msgspec.structs.replace(before, version="") == place:
            answers[question.attribute] = before
        else:
            asked.append((question, place, _ask(question, place)))
    deadline = time.monotonic() + PATIENCE
    for question, place, process in asked:
        version = _hear(question, process, deadline)
        # A program that was merely too slow is run again at the next start.
        if version is not None:
            answers[question.attribute] = msgspec.structs.replace(place, version=version)
    if asked:
        _store(directory / CACHE, answers)
    return {name: answer.version for name, answer in answers.items() if answer.version}


def _place(program: str, search: str | None) -> ProgramVersion | None:
    """Return the file of a program, without a version; ``None``: there is none."""
    found = shutil.which(program, path=search)
    if found is None:
        return None
    # Links in the path stay, since some programs evaluate their name. Size and time are those of the file behind them.
    try:
        status = os.stat(found)  # noqa: PTH116 - a text, as shutil gives it
    except OSError:
        return None
    return ProgramVersion(found, status.st_size, status.st_mtime_ns, "")


def _ask(question: Question, place: ProgramVersion) -> subprocess.Popen[bytes] | None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CRESS_")} | {"LC_ALL": "C"}
    try:
        return subprocess.Popen(
            [place.path, *question.command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd="/",
        )
    except OSError:
        return None


def _hear(question: Question, process: subprocess.Popen[bytes] | None, deadline: float) -> str | None:
    """Return the version; empty if the program printed none or did not start, ``None`` if it was too slow."""
    if process is None:
        return ""
    with process:
        try:
            said, _ = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
        except (subprocess.TimeoutExpired, OSError):
            process.kill()
            return None
    found = question.answer.search(said[:10_000].decode(errors="replace"))
    return found[1] if found and process.returncode == 0 else ""


def _load(path: Path) -> dict[str, ProgramVersion]:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(read_regular(path), type=dict[str, ProgramVersion])
    return {}


def _store(path: Path, answers: dict[str, ProgramVersion]) -> None:
    new = path.with_suffix(".new")
    with contextlib.suppress(OSError):
        new.write_bytes(msgspec.json.encode(answers))
        new.replace(path)
