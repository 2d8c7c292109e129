"""The unfinished jobs and tasks of each user: an index derived from the jobs, for limits."""

from __future__ import annotations

from collections.abc import Iterable

from cress.model.errors import NotAccepted
from cress.model.job import Job


class UserLoad:
    """The number of unfinished jobs, and of all their tasks, by user."""

    def __init__(self) -> None:
        self._load: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._load)

    def of(self, user: str) -> tuple[int, int]:
        """Return the numbers of jobs and tasks of a user."""
        jobs, tasks = self._load.get(user, (0, 0))
        return jobs, tasks

    def add(self, job: Job) -> None:
        """Count a new job."""
        load = self._load.setdefault(job.user, [0, 0])
        load[0] += 1
        load[1] += job.tasks

    def drop(self, job: Job) -> None:
        """Remove an ended job from the counts."""
        load = self._load[job.user]
        load[0] -= 1
        load[1] -= job.tasks
        if not load[0]:
            assert load[1] == 0, f"{job.user} has no jobs, and {load[1]} tasks"
            del self._load[job.user]

    def check(self, jobs: Iterable[Job], most_jobs: int, most_tasks: int) -> None:
        """Raise NotAccepted if the new ``jobs`` exceed a user's maximum of jobs or tasks; 0: no limit."""
        more: dict[str, list[int]] = {}
        for job in jobs:
            new = more.setdefault(job.user, [0, 0])
            new[0] += 1
            # The tasks of dags, and of recurring jobs, are those of their members.
            new[1] += job.tasks if job.plan is None else 0
        for user, new in more.items():
            for what, have, added, most in zip(
                ("jobs", "tasks"), self.of(user), new, (most_jobs, most_tasks), strict=True
            ):
                if most and have + added > most:
                    raise NotAccepted(
                        f"{user} would have {have + added:,} {what} that wait or run",
                        hint=f"at most {most:,} of one user; wait for some to end, or ask an operator (--user-{what})",
                    )
