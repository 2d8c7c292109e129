"""Selectors of jobs in ``near`` and ``away_from``: a name, labels, a condition over the job, or the job itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from cress.language.checks import Checker
from cress.language.jobfacts import keys_in_expression, names_jobs
from cress.language.namepatterns import is_pattern, parse_pattern
from cress.language.names import JOB, key_of
from cress.language.sense import Sense
from cress.language.syntax import parse_raw
from cress.language.tree import Expression, Name, leaves
from cress.language.trouble import trouble
from cress.model.errors import InputError
from cress.model.job import Job

SELF = "self"
ANY_GROUP = "*"
MOST_TEXT = 1_000
MOST_LABELS = 16
HINT = 'a name (db, web-*, group/db), labels (tier=db, env!=test), a condition (Job.User = "ann"), or self'
_LABEL = re.compile(r"\s*([A-Za-z][\w.-]*)\s*(!?=)\s*([\w.:/+-]+)\s*")
_NAME = re.compile(r"[\w.*?\[\],-]+")
_GROUP = re.compile(r"\w+|\*")


@dataclass(frozen=True, slots=True)
class Selector:
    """A selector: one of ``name``, ``labels`` and ``condition``; without any of them, the job itself.

    The name may be a pattern; labels have a key, a flag for equality and a value. ``group`` limits it to jobs of this
    group, ``ANY_GROUP`` allows all; "" means the group of the job that has the selector.
    """

    group: str = ""
    name: str = ""
    labels: tuple[tuple[str, bool, str], ...] = ()
    condition: Expression | None = None

    @property
    def is_self(self) -> bool:
        """Return whether the selector means the job itself."""
        return not self.name and not self.labels and self.condition is None

    def among(self, group: str) -> str:
        """Return the group whose jobs it selects for a job of ``group``; ``ANY_GROUP``: of all groups."""
        return self.group or group

    def names(self, job: Job) -> bool:
        """Return whether a job has the name or the labels; group and condition are not checked."""
        if self.name:
            fits = parse_pattern(self.name).fits(job.name) if is_pattern(self.name) else job.name == self.name
            return bool(job.name) and fits
        has = {key_of(key): value.casefold() for key, value in job.labels}
        return bool(self.labels) and all((has.get(key) == value) is equal for key, equal, value in self.labels)


@lru_cache(maxsize=4096)
def parse_selector(text: str) -> Selector:
    """Return the selector. Raise InputError."""
    if len(text) > MOST_TEXT:
        raise InputError(f"{len(text)} characters are too many", hint=f"at most {MOST_TEXT:,}")
    if names_jobs(text):
        return _condition(text)
    if text.strip().casefold() == SELF:
        return Selector()
    group, slash, rest = text.strip().rpartition("/") if "=" not in text.partition("/")[0] else ("", "", text)
    if slash and not _GROUP.fullmatch(group):
        raise InputError(f"{group!r} is not the name of a group", hint=HINT)
    if "=" in rest:
        return Selector(group, labels=_labels(rest))
    if not _NAME.fullmatch(rest):
        raise InputError(f"{rest!r} selects no jobs", hint=HINT)
    if is_pattern(rest):
        parse_pattern(rest)
    return Selector(group, rest)


def check_selector(text: str) -> None:
    """Raise InputError, which points at the character, if the condition of a selector is meaningless."""
    condition = parse_selector(text).condition
    if condition is not None:
        Sense(text).condition(condition)


def _labels(text: str) -> tuple[tuple[str, bool, str], ...]:
    found: list[tuple[str, bool, str]] = []
    for part in text.split(","):
        match = _LABEL.fullmatch(part)
        if match is None:
            raise InputError(f"{part.strip()!r} is not a label", hint=HINT)
        found.append((key_of(match[1]), match[2] == "=", match[3].casefold()))
    if len(found) > MOST_LABELS:
        raise InputError(f"{len(found)} labels are too many", hint=f"at most {MOST_LABELS}")
    return tuple(dict.fromkeys(found))


def _condition(text: str) -> Selector:
    """Return the selector of a condition that tests only the job."""
    expression = Checker(text).condition(parse_raw(text))
    for leaf in leaves(expression):
        if isinstance(leaf, Name) and not leaf.key.startswith(JOB):
            what = f"{leaf} is an attribute of a node, and jobs are selected"
            raise trouble(text, leaf.at, what, f"Job.{leaf}, or Job.Labels.{leaf} for a label")
    keys = keys_in_expression(expression)
    return Selector(ANY_GROUP if JOB + "group" in keys else "", condition=expression)
