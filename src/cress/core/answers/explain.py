"""The explanation of one waiting job, from trials on copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from cress.core.answers.changes import NOBODY, Counterfactual, changes_for
from cress.core.answers.nearest import clause_effects, nearest_nodes
from cress.core.scheduler import Scheduler
from cress.model.explanation import Explanation, Remedy

# The number of changes of one kind that are tried: each trial is a decision of the whole cluster.
MOST_TRIED = 5


def explain(
    core: Scheduler,
    number: int,
    reason: str,
    helps: Callable[[Counterfactual], bool],
    absent: Mapping[str, bool] = NOBODY,
) -> Explanation:
    """Return the explanation of a waiting job whose reason is known, without its start.

    ``helps`` tries a change on a copy, and says whether the job starts at once then; ``absent`` as in ``changes_for``.
    """
    books, job = core.books, core.jobs[number]
    # A task that starts together with others starts with the one that leads them.
    leader = job if job.queued or not job.carried else job.carried[min(job.carried)]
    return Explanation(
        job=number,
        reason=reason,
        clauses=clause_effects(books, job),
        nearest=() if job.job.parts else nearest_nodes(books, job),
        remedies=_that_help(list(changes_for(books, leader, absent)), helps),
    )


def _that_help(changes: Iterable[Counterfactual], helps: Callable[[Counterfactual], bool]) -> tuple[Remedy, ...]:
    """Return the changes that let the unit start at once: of each kind the first ones, among the first few."""
    found: dict[str, list[Remedy]] = {}
    tried: Counter[str] = Counter()
    for change in changes:
        helped = found.setdefault(change.kind, [])
        if len(helped) == change.most or tried[change.kind] == MOST_TRIED:
            continue
        tried[change.kind] += 1
        if helps(change):
            helped.append(Remedy(change.kind, change.text, dict(change.keys)))
    return tuple(remedy for helped in found.values() for remedy in helped)
