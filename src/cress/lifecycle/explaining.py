"""The explanation of a waiting job, with the estimates and the wall clock of the machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from cress.core.answers.changes import Counterfactual
from cress.core.answers.explain import explain
from cress.core.answers.groups import use_of, why_no_more
from cress.core.answers.nodes import free_of, why_not_fuller
from cress.lifecycle.context import Context
from cress.lifecycle.jobs import members
from cress.lifecycle.jobs.reasons import reason, told
from cress.lifecycle.machine import Machine
from cress.lifecycle.nodes.cordons import why_closed
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.lifecycle.trials.remedies import helps
from cress.model.estimates import RunEstimate
from cress.model.explanation import Explanation, Finding, GroupExplanation, NodeExplanation
from cress.model.job import JobType
from cress.model.units import format_amount

# The reasons told of all groups below an inner group.
MOST_BELOW = 20


class Copies(Protocol):
    """Copies of one machine, for a trial each; the machine itself stays as it is."""

    def holds(self, trial: Callable[[Machine], bool]) -> bool:
        """Return the result of a trial on a copy."""


def explained(context: Context, number: int, copies: Copies) -> Explanation | None:
    """Return why a job waits and what would change that, without its start; ``None`` if no task of it waits."""
    why = told(context, number)
    if not why.text:
        return None
    cluster = context.core.cluster
    closed = (cluster.names[f] for f in (~cluster.usable()).nonzero()[0].tolist())
    nodes = ((name, context.nodes[name]) for name in closed if name in context.nodes)
    absent = {name: not (node.cordoned or node.rest) for name, node in nodes if not node.connected}
    trials = partial(_helps, copies)
    return msgspec.structs.replace(explain(context.core, number, why.text, trials, absent), kind=why.kind)


def _helps(copies: Copies, change: Counterfactual) -> bool:
    return copies.holds(lambda machine: helps(machine, change))


def explained_group(context: Context, name: str) -> GroupExplanation | None:
    """Return why a group does not get more; ``None`` if there is no such group."""
    core, why = context.core, partial(reason, context)
    group = core.groups.by_name.get(name)
    if group is not None:
        found = why_no_more(core.books, group, core.veto, why)
        if group.spec.closed:
            found = (Finding("closed", "it is closed: no new job is accepted"), *found)
        return GroupExplanation(name, use_of(core.books, group), found)
    inner = core.groups.tree.inner.get(name)
    if inner is None:
        return None
    below = [other for other in core.groups if inner in other.path()]
    reasons = [
        Finding(finding.kind, f"{other.name}: {finding.text}")
        for other in below
        for finding in why_no_more(core.books, other, core.veto, why)
    ]
    return GroupExplanation(name, use_of(core.books, inner), tuple(reasons[:MOST_BELOW]))


def explained_node(context: Context, name: str) -> NodeExplanation:
    """Return why a node is empty or not fuller. The node must be known."""
    core, live = context.core, context.nodes[name]
    f = core.cluster.index[name]
    closed = why_closed(context, live, context.now) or ("cordoned" if live.closed else "")
    return NodeExplanation(
        node=name,
        tasks=len(context.on_node(name)),
        free={
            dimension: format_amount(amount, core.dimensions.measure(dimension))
            for dimension, amount in free_of(core.books, f).items()
        },
        reasons=why_not_fuller(core.books, f, closed, partial(reason, context)),
    )


def waiting_job(context: Context, job: LiveJob | Family) -> int | None:
    """Return the number of a job with a waiting task: the job itself, or the first such member of a family.

    A step of a dag that waits for other steps comes last: these are why it waits.
    """
    jobs = [job] if isinstance(job, LiveJob) else sorted(members.of(context, job), key=lambda live: bool(live.unmet))
    return next((live.job.id for live in jobs if context.core.veto(live.job.id) is not None), None)


def estimates(context: Context) -> dict[int, RunEstimate]:
    """Return what is known of the runs of jobs whose groups work without estimates."""
    return {
        number: context.estimator.expected(job.job)
        for number, job in context.core.jobs.items()
        if job.estimate is None and job.job.type is JobType.BATCH and not job.job.is_lease
    }
