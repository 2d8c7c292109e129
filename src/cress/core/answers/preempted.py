"""The rule by which a task is preempted, with the numbers of the moment."""

from __future__ import annotations

from cress.core.answers.groups import use_of
from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.model.decisions import Preempt
from cress.model.group import SchedPolicy


def rule_of(core: Books, fact: Preempt) -> str:
    """Return the rule of a preemption that was decided just now, as a sentence; empty if its jobs are gone."""
    attempt, taker = core.attempts.get(fact.attempt), core.jobs.get(fact.by)
    if attempt is None or taker is None:
        return ""
    victim = attempt.job
    if victim.group is taker.group:
        return f"inside group {victim.group.name}: {_rank(taker)} comes before {_rank(victim)}"
    ours, theirs = taker.group, victim.group
    return (
        f"group {ours.name} is owed its quota (uses {use_of(core, ours)}), and group {theirs.name} uses "
        f"{use_of(core, theirs)}"
    )


def _rank(job: JobEntry) -> str:
    """Return a job with what its group orders by."""
    if job.group.spec.policy in (SchedPolicy.URGENCY, SchedPolicy.EDF):
        return f"job {job.job.counted_as} ({'with' if job.job.deadline else 'without'} a deadline)"
    return f"job {job.job.counted_as} (priority {job.job.priority})"
