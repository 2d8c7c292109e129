"""Deadlines for traces without any: drawn for a share of the jobs, as multiples of time limits or run times."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from cress.model.errors import InputError
from cress.simulator.workload import NO_LIMIT, Workload

EXAMPLE = "tight=1.1-1.5,normal=1.5-3,loose=3-10,share=0.6"
_RANGE = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class DeadlineSpec:
    """Choice of deadlines: the ``share`` of the jobs that get one, and the ``ranges`` of its factor, equally frequent.

    The deadline is the factor times the time limit, or times the run time with ``by_run``. Within a range all values
    are equally likely.
    """

    ranges: tuple[tuple[str, float, float], ...]
    share: float = 1.0
    by_run: bool = False


def parse_deadlines(text: str) -> DeadlineSpec:
    """Return the spec of a text such as ``tight=1.1-1.5,loose=3-10,share=0.6,of=run``. Raise ``InputError``."""
    ranges: list[tuple[str, float, float]] = []
    share, by_run, given = 1.0, False, set[str]()
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        found = _RANGE.fullmatch(value)
        if key in given:
            raise InputError(f"{key} is given twice", hint=EXAMPLE, field="--deadlines")
        given.add(key)
        if key == "share" and equals:
            share = _share(value)
        elif key == "of" and value in ("requested", "run"):
            by_run = value == "run"
        elif key and found and 0 < float(found[1]) <= float(found[2]):
            ranges.append((key, float(found[1]), float(found[2])))
        else:
            raise InputError(f"{part.strip()!r} is not a part of deadlines", hint=EXAMPLE, field="--deadlines")
    if not ranges:
        raise InputError(f"{text!r} names no range of factors", hint=EXAMPLE, field="--deadlines")
    return DeadlineSpec(tuple(ranges), share, by_run)


def _share(text: str) -> float:
    if not re.fullmatch(r"0?\.\d+|1(\.0*)?|0", text):
        raise InputError(f"share: {text!r} is not a share", hint="from 0 to 1, such as 0.6", field="--deadlines")
    return float(text)


def with_deadlines(workload: Workload, spec: DeadlineSpec, seed: int) -> Workload:
    """Return the workload with deadlines, and with the range from which each was drawn."""
    random = np.random.default_rng(seed)
    n = len(workload)
    # Each job has draws of its own, so a part of a trace gets the same deadlines with the same seed.
    chosen, kind, place = random.random(n), random.integers(0, len(spec.ranges), n), random.random(n)
    least = np.array([low for _, low, _ in spec.ranges])[kind]
    most = np.array([high for _, _, high in spec.ranges])[kind]
    length = workload.run if spec.by_run else workload.limit
    having = (chosen < spec.share) & (length != NO_LIMIT)
    factor = least + place * (most - least)
    deadline = np.where(having, workload.submit + (length * factor).astype(np.int64), NO_LIMIT)
    names = tuple(name for name, _, _ in spec.ranges)
    return replace(workload, deadline=deadline, tightness_index=kind, tightness_names=names)
