"""Clauses that keep a unit waiting and turn soft later, with the moment."""

from __future__ import annotations

from collections.abc import Collection

from cress.core.advance.telling import time_of_day
from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.language.clauses import Kind, brief
from cress.model.times import NEVER
from cress.model.units import rounded_duration


def turns_soft(core: Books, job: JobEntry, holding: Collection[str]) -> tuple[str, ...]:
    """Return the clauses among ``holding`` that turn soft next by themselves, and when, as the end of a sentence.

    So it is told from when on a gang may start in part.
    """
    at = job.relaxes_at
    if at >= NEVER:
        return ()
    when = time_of_day(core, at)
    when = f"at {when}" if when else f"in {rounded_duration(at - core.now)}"
    load, told = core.balance.utilisation(), []
    for constraints in job.asked():
        soft, later = (constraints.soft_now(time - job.since, load) for time in (core.now, at))
        for i, clause in enumerate(constraints.requirement.clauses):
            if later & ~soft & 1 << i == 0:
                continue
            if clause.kind is Kind.WHOLE:
                few = f"{constraints.least} task{'s' * (constraints.least > 1)}"
                told.append(f"{when} it may start with {few}" if constraints.least else f"{when} it may start in part")
            elif str(clause.hard()) in holding:
                told.append(f"{brief(clause.hard())} turns soft {when}")
    return tuple(told)
