"""Arrays of Slurm: ``1-100:2%5``, and the tasks of Cress that stand for their elements."""

from __future__ import annotations

import re
from typing import NamedTuple

from cress.model.errors import InputError
from cress.slurm.values import number

MOST_ELEMENT = 4_000_000
# The id that only one element has is that of its job, plus this for each of its tasks.
OWN_ID = 1_000_000_000


class Array(NamedTuple):
    """Elements by the number of their task, from 0; ``most_running`` is 0 without a bound. ``text`` has no bound."""

    text: str
    elements: tuple[int, ...]
    most_running: int = 0

    @property
    def step(self) -> int:
        """The step of the first range, 1 if there is none."""
        found = re.match(r"\d+-\d+:(\d+)", self.text)
        return int(found[1]) if found else 1


def parse_array(text: str) -> Array:
    """Return an array such as ``1-100``, ``0-15:4%2`` or ``1,5,9-20``. Raises InputError."""
    hint = "such as 1-100, 0-15:4, 1,5,9-20, or 1-100%5 for 5 at once"
    body, percent, bound = text.strip().partition("%")
    most = number(bound) if percent else 0
    elements: list[int] = []
    for part in body.split(","):
        found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", part.strip())
        if found is None:
            raise InputError(f"{text!r} is not an array", hint=hint)
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if last < first or step < 1 or last > MOST_ELEMENT:
            raise InputError(f"{part!r} is not a range of an array", hint=f"{hint}; at most {MOST_ELEMENT:,}")
        elements += range(first, last + 1, step)
    if len(set(elements)) < len(elements):
        raise InputError(f"{text!r} has an element twice", hint="each once")
    return Array("".join(body.split()), tuple(elements), most)


def compressed(numbers: list[int]) -> str:
    """Return ascending numbers as ranges: ``1-3,7``."""
    ranges: list[list[int]] = []
    for value in numbers:
        if ranges and value == ranges[-1][1] + 1:
            ranges[-1][1] = value
        else:
            ranges.append([value, value])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)


class JobName(NamedTuple):
    """A job as commands name it: its id, and the elements meant, all if ``None``; ``task`` counts from 0."""

    id: int
    elements: tuple[int, ...] | None = None
    task: int | None = None
    step: str = ""


def job_words(text: str) -> list[str]:
    """Return the names in a list of jobs, in which commas inside brackets separate nothing: ``12_[1,5],13``."""
    return [word.strip() for word in re.split(r",(?![^\[]*\])", text) if word.strip()]


def parse_job(text: str) -> JobName:
    """Return the job in ``12``, ``12_3``, ``12_[1-5]``, ``12.batch``, or the own id of an element.

    Raises InputError.
    """
    found = re.fullmatch(r"(\d{1,16})(?:_(?:(\d{1,9})|\[([\d,:%-]+)\]|\*))?(?:\.(\w+))?", text.strip())
    if found is None:
        raise InputError(f"Invalid job id specified: {text!r}", hint="such as 12, or 12_3 for an element of an array")
    id, step = int(found[1]), found[4] or ""
    if found[2] is not None:
        return JobName(id, (int(found[2]),), step=step)
    if found[3] is not None:
        return JobName(id, parse_array(found[3]).elements, step=step)
    if id > OWN_ID:
        return JobName(id % OWN_ID, task=id // OWN_ID - 1, step=step)
    return JobName(id, step=step)
