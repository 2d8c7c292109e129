"""Dependencies of Slurm: ``afterok:12:13,afterany:14``, ``singleton``."""

from __future__ import annotations

from typing import NamedTuple

from cress.model.errors import InputError
from cress.model.whole_numbers import whole_number
from cress.slurm.arrays import parse_job

_CONDITIONS = {"afterok": "ok", "afterany": "any", "afternotok": "failed", "aftercorr": "tasks"}
_INSTEAD = {
    "after": "afterany: a job cannot wait for the start of another",
    "afterburstbuffer": "there are no burst buffers",
    "expand": "resources of a job do not grow",
}


class Dependency(NamedTuple):
    """Jobs that must end first, and how, as ``after`` of a job file says it; or ``singleton``."""

    condition: str = ""
    ids: tuple[int, ...] = ()
    singleton: bool = False


def parse_dependency(text: str) -> tuple[Dependency, ...]:
    """Return the dependencies of a text. Raises InputError."""
    hint = "such as afterok:12:13, afterany:12, afternotok:12, aftercorr:12 or singleton; all of them must hold"
    found = []
    if "?" in text:
        raise InputError(f"{text!r}: one of several dependencies is not supported", hint=hint)
    word = ""
    for item in filter(None, text.strip().split(",")):
        kind, colon, jobs = item.strip().partition(":")
        if not colon and word and whole_number(kind) is not None:
            # `afterok:12,13` means both.
            kind, jobs = word, kind
        if kind == "singleton":
            found.append(Dependency(singleton=True))
            continue
        if kind in _INSTEAD:
            raise InputError(f"{kind!r} is not supported", hint=_INSTEAD[kind])
        if kind not in _CONDITIONS or not jobs:
            raise InputError(f"{item!r} is not a dependency", hint=hint)
        word = kind
        names = [parse_job(job.partition("+")[0]) for job in jobs.split(":")]
        if any(name.elements is not None or name.task is not None for name in names):
            raise InputError(f"{item!r} names an element of an array", hint="the id of the array: all its elements")
        found.append(Dependency(_CONDITIONS[kind], tuple(name.id for name in names)))
    return tuple(found)
