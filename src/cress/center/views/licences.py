"""Views of licences: their numbers, and the jobs that hold them or wait for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cress.center.process.turns import chunks, in_turns
from cress.protocol.lease_views import LicencesPage, LicenceUse, LicenceView

if TYPE_CHECKING:
    from cress.center.committing.committer import Committer
    from cress.core.jobs import JobEntry

# Most jobs named as holders, and as waiting.
MOST_JOBS = 100


async def licences_page(committer: Committer) -> LicencesPage:
    """Return all licences of the cluster, and others that jobs request, by name."""
    core = committer.machine.core
    known = core.relations.licences
    having: dict[str, dict[int, LicenceUse]] = {}
    waiting: dict[str, dict[int, LicenceUse]] = {}
    async for part in in_turns(chunks(list(core.jobs.values()))):
        _add(committer, part, having, waiting)
    names = sorted({*known.counts, *known.taken, *waiting})
    return LicencesPage(
        licences=tuple(
            LicenceView(
                name=name,
                total=known.counts.get(name, 0),
                in_use=known.taken.get(name, 0),
                free=max(0, known.free(name)),
                having=len(having.get(name, ())),
                waiting=len(waiting.get(name, ())),
                jobs=tuple(list(having.get(name, {}).values())[:MOST_JOBS]),
                waiters=tuple(list(waiting.get(name, {}).values())[:MOST_JOBS]),
            )
            for name in names
        )
    )


def _add(
    committer: Committer,
    jobs: Iterable[JobEntry],
    having: dict[str, dict[int, LicenceUse]],
    waiting: dict[str, dict[int, LicenceUse]],
) -> None:
    """Add the uses of these jobs to the holders of a licence, and to the jobs that wait for one."""
    known = committer.machine.core.relations.licences
    for job in jobs:
        for name, number in job.job.licences:
            if job.attempts:
                _count(committer, having.setdefault(name, {}), job, number * len(job.attempts))
            if job.queued and (short := known.short(job.shape.wants.licences)):
                wanted = {licence.account: licence.asks for licence in short}
                if name in wanted:
                    _count(committer, waiting.setdefault(name, {}), job, wanted[name])


def _count(committer: Committer, uses: dict[int, LicenceUse], job: JobEntry, number: int) -> None:
    """Count the uses of a licence by a job; all tasks of a service or database count as one job."""
    shown = job.job.counted_as
    before = uses.get(shown)
    machine = committer.machine
    name = machine.families[shown].job.name if shown in machine.families else job.job.name
    uses[shown] = LicenceUse(
        job=shown, name=name, group=job.group.name, number=number + (before.number if before else 0)
    )
