"""Parts of a gang with too few places, for people."""

from __future__ import annotations

from typing import NamedTuple

from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.placing.constraints import Wants
from cress.core.placing.kinds import TaskKind, kinds_of, lasting_wants
from cress.core.placing.shape import Shape
from cress.core.questions import never_fits
from cress.model.job import Job


class Short(NamedTuple):
    """Sentences about the parts with too few places now, and the shape of the first of them; ``None`` if each has
    enough alone.
    """

    told: tuple[str, ...]
    first: Shape | None


def short_parts(core: Books, job: JobEntry) -> Short:
    """Return the parts that keep a gang of several kinds waiting, counted in free room without regard to
    reservations.
    """
    kinds = kinds_of(job.job, core.dimensions)
    room = core.fit.free(job.shape)
    told: list[str] = []
    first: Shape | None = None
    for i, (asked, shape) in enumerate(zip(job.shape.wants.kinds, job.shape.kinds, strict=True)):
        places = min(int(room.copies(i).sum()), asked.size)
        if places < asked.size:
            told.append(f"{named(job.job, kinds[asked.number])}: {places:,} of {asked.size:,} places")
            first = first or shape
    return Short(tuple(told) or ("each part has room by itself, but not all of them together",), first)


def never_part(core: Books, job: Job) -> tuple[TaskKind, Wants] | None:
    """Return the kind of tasks of a gang that could never run alone, with its lasting wants; ``None`` if each could."""
    for kind in kinds_of(job, core.dimensions):
        if never_fits(core, kind.job):
            return kind, core.asking.as_asked((kind.job,), lasting_wants(kind.job, core.dimensions))
    return None


def named(job: Job, kind: TaskKind) -> str:
    """Return the parts of a kind: ``part driver``, ``parts a and b``."""
    starts = {span.start for span in kind.spans}
    names, first = [], 0
    for part in job.parts:
        if first in starts:
            names.append(part.name)
        first += part.tasks
    return f"part{'s' * (len(names) > 1)} {' and '.join(names)}"
