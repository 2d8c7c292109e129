"""The unfinished jobs and tasks of each user: an index derived from the jobs, for limits."""

from __future__ import annotations

from collections.abc import Iterable

from cress.core.accounts import Numbers
from cress.model.errors import NotAccepted
from cress.model.job import Job


class UserLoad:
    """The number of unfinished jobs, and of all their tasks, by user."""

    def __init__(self) -> None:
        self.jobs = Numbers()
        self.tasks = Numbers()

    def add(self, job: Job, sign: int = 1) -> None:
        """Count a new job; ``sign`` -1: remove an ended one."""
        self.jobs.add(job.user, sign)
        self.tasks.add(job.user, sign * job.tasks)

    def check(self, jobs: Iterable[Job], most_jobs: int, most_tasks: int) -> None:
        """Raise NotAccepted if the new ``jobs`` exceed a user's maximum of jobs or tasks; 0: no limit."""
        new = UserLoad()
        for job in jobs:
            new.jobs.add(job.user)
            # The tasks of dags, and of recurring jobs, are those of their members.
            new.tasks.add(job.user, job.tasks if job.plan is None else 0)
        for user in new.jobs.users:
            for what, most, has, more in (
                ("jobs", most_jobs, self.jobs, new.jobs),
                ("tasks", most_tasks, self.tasks, new.tasks),
            ):
                found = has.beyond(most or None, more.of(user), user)
                if found is not None:
                    raise NotAccepted(
                        f"{user} would have {found.has + found.asks:,} {what} that wait or run",
                        hint=f"at most {most:,} of one user; wait for some to end, or ask an operator (--user-{what})",
                    )
