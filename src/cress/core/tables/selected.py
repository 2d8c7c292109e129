"""Owners of tasks to which clauses of other jobs refer: selected jobs, and jobs that exclude others."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Selected(NamedTuple):
    """The tasks of the jobs that match a selector, for a job of ``group``."""

    group: str
    jobs: str
    kind: str = "selected"


class Repelling(NamedTuple):
    """The tasks of the jobs of ``group`` that exclude the jobs matched by ``jobs``, by the attribute ``key``."""

    group: str
    jobs: str
    key: str
    kind: str = "repelling"


# An exclusion of a job by others: their tasks, and the attribute as written.
Avoid: TypeAlias = tuple[Repelling, str]
