"""Parts of a gang, whose tasks are numbered part by part (design note 0035)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class HasTasks(Protocol):
    """A part with a number of tasks."""

    @property
    def tasks(self) -> int:
        """The number of its tasks."""


_Part = TypeVar("_Part", bound=HasTasks)


def part_of(parts: Iterable[_Part], task: int) -> tuple[_Part, int] | None:
    """Return the part of a task, and the task's number in the part; ``None`` if there are no parts."""
    for part in parts:
        if task < part.tasks:
            return part, task
        task -= part.tasks
    return None
