"""The explanation of one waiting job, from trials on copies of the scheduler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from cress.core.answers.changes import Counterfactual, changes_for, holds
from cress.core.answers.nearest import clause_effects, nearest_nodes
from cress.core.scheduler import Scheduler
from cress.model.explanation import Explanation, Remedy


class Copies(Protocol):
    """Copies of one scheduler, for a trial each; the scheduler itself stays as it is."""

    def holds(self, trial: Callable[[Scheduler], bool]) -> bool:
        """Return the result of a trial on a copy."""


def explain(core: Scheduler, number: int, reason: str, copies: Copies) -> Explanation:
    """Return the explanation of a waiting job whose reason is known, without its start."""
    books, job = core.books, core.jobs[number]
    return Explanation(
        job=number,
        reason=reason,
        clauses=clause_effects(books, job),
        nearest=() if job.job.parts else nearest_nodes(books, job),
        remedies=_that_help(list(changes_for(books, job)), copies),
    )


def _that_help(changes: list[Counterfactual], copies: Copies) -> tuple[Remedy, ...]:
    """Return the changes that let the unit start at once: of each kind the first ones."""
    found: dict[str, list[Remedy]] = {}
    for change in changes:
        helped = found.setdefault(change.kind, [])
        if len(helped) < change.most and copies.holds(partial(_tried, change)):
            helped.append(Remedy(change.kind, change.text, dict(change.keys)))
    return tuple(remedy for helped in found.values() for remedy in helped)


def _tried(change: Counterfactual, core: Scheduler) -> bool:
    try:
        return holds(core, change)
    except ValueError:
        # The change itself is not accepted, for example because a limit of the group refuses the job.
        return False
