"""Which compilers and languages the machine has: they are asked by running them, once for each version of their file.

The answers stay in the executor's directory, known by path, size and time of change of the program, so that only its
first start has to wait for them.
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

# Seconds that a program has to say its version; a machine that is just starting is slow.
PATIENCE = 5.0
CACHE = "versions.json"


class Question(msgspec.Struct, frozen=True):
    """What is run, and how the version is read from what it says."""

    attribute: str
    command: tuple[str, ...]
    answer: re.Pattern[str]


QUESTIONS = (
    Question("GCC", ("gcc", "-dumpfullversion", "-dumpversion"), re.compile(r"\A\s*(\d[\w.+~-]*)")),
    Question("Java", ("java", "-version"), re.compile(r'\bversion "([^"\s]+)"')),
    Question("Python", ("python3", "--version"), re.compile(r"\APython (\d[\w.+]*)")),
)


class Answer(msgspec.Struct, frozen=True):
    """What a program said, and which file it was. An empty ``version``: nothing that could be understood."""

    path: str
    size: int
    changed: int
    version: str


def versions(directory: Path, search: str | None = None) -> dict[str, str]:
    """The versions by attribute; what is not there is absent. May take ``PATIENCE`` seconds: for a thread.

    ``directory`` keeps the answers; ``search`` is the search path, ``None``: that of this process.
    """
    known = _load(directory / CACHE)
    answers: dict[str, Answer] = {}
    asked: list[tuple[Question, Answer, subprocess.Popen[bytes] | None]] = []
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
        # One that was only too slow is asked again at the next start.
        if version is not None:
            answers[question.attribute] = msgspec.structs.replace(place, version=version)
    if asked:
        _store(directory / CACHE, answers)
    return {name: answer.version for name, answer in answers.items() if answer.version}


def _place(program: str, search: str | None) -> Answer | None:
    """The file of a program, without a version; ``None``: there is none."""
    found = shutil.which(program, path=search)
    if found is None:
        return None
    # The name stays as it was found: some programs look at it. The file behind all links is the one that changes.
    try:
        status = os.stat(found)  # noqa: PTH116 - a text, as shutil gives it
    except OSError:
        return None
    return Answer(found, status.st_size, status.st_mtime_ns, "")


def _ask(question: Question, place: Answer) -> subprocess.Popen[bytes] | None:
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
    """The version; empty if what is said is no answer, ``None`` if it took too long or could not be waited for."""
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


def _load(path: Path) -> dict[str, Answer]:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Answer])
    return {}


def _store(path: Path, answers: dict[str, Answer]) -> None:
    new = path.with_suffix(".new")
    with contextlib.suppress(OSError):
        new.write_bytes(msgspec.json.encode(answers))
        new.replace(path)
