"""Owners of tasks that clauses of other jobs ask for: jobs that are selected, and jobs that keep others away."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Selected(NamedTuple):
    """The tasks of the jobs that a selector selects, for a job of ``group``."""

    group: str
    jobs: str
    kind: str = "selected"


class Repelling(NamedTuple):
    """The tasks of the jobs of ``group`` that keep away from what ``jobs`` selects, by the attribute ``key``."""

    group: str
    jobs: str
    key: str
    kind: str = "repelling"


# What a job keeps away from because others keep away from it: their tasks, and how the attribute is written.
Avoid: TypeAlias = tuple[Repelling, str]
