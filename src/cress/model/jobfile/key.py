"""A key of job files: its values, the types of jobs that may have it, the structs that get it, its documentation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from cress.model.job import JobType
from cress.model.jobfile import values
from cress.model.jobfile.schemas import Schema

BATCH, SERVICE, DATABASE, CRON, DAG = (
    JobType.BATCH,
    JobType.SERVICE,
    JobType.DATABASE,
    JobType.CRON,
    JobType.DAG,
)
ALL = frozenset(JobType)
# Types whose tasks end.
ENDING = frozenset({BATCH, CRON, DAG})
# Types whose tasks are replaced when they end.
KEPT = frozenset({SERVICE, DATABASE})

# The structs in which the value of a key becomes the field with the same name.
JOB, RUN, JOB_AND_RUN, FAMILY = ("job",), ("run",), ("job", "run"), ("family",)
# Texts of the constraint language, which become the requirement or the rank of the job.
CLAUSES, RANK = ("clauses",), ("rank",)


class Key(msgspec.Struct, frozen=True):
    """One key of job files.

    ``read`` parses a value, or raises ``InputError``; keys without it are read together with others (``job.py``,
    ``dag.py``). ``into``: the structs that have the value as a field, whose default is the field's. ``types``: the
    types of jobs that may have the key; ``step``: steps of dags may have it too, ``only_steps``: of batch jobs only
    they may. ``about`` and ``default`` are Markdown.
    """

    name: str
    schema: Schema
    read: Callable[[object], Any] | None = None
    into: tuple[str, ...] = ()
    types: frozenset[JobType] = ALL
    step: bool = True
    only_steps: bool = False
    about: str = ""
    default: str = ""

    @property
    def description(self) -> str:
        """``about`` as a sentence, without links."""
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", self.about)
        return f"{text[:1].upper()}{text[1:]}."


def truth(meaning: str) -> Callable[[object], bool]:
    """Return a parser of true and false; ``meaning`` of true is the hint for anything else."""
    return lambda value: values.truth(value, meaning)
