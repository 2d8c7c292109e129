"""Programs that cannot be started, and the decision between two causes: the node or the job.

The task is retried while its node rests, so that another node gets it; without another node it fails at once. If the
program then runs elsewhere, this is evidence against the nodes where it did not start. A node with enough evidence,
from more than one job, takes no tasks until an operator has looked at it. A program that starts nowhere is its job's
own mistake. A job of which no program ever ran fails as a whole, so that a typo in an array of a million tasks does not
disturb a whole cluster. If the node reports that it lacks room, on a disk for example, no job is blamed: its tasks wait
until there is room.
"""

from __future__ import annotations

from cress.lifecycle.context import Context
from cress.lifecycle.jobs.jobs import fail
from cress.lifecycle.jobs.outcomes import backoff
from cress.lifecycle.nodes import cordons
from cress.lifecycle.tables.family_rows import ReplicaState
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.lifecycle.tables.timers import REST


def elsewhere(context: Context, attempt: LiveAttempt) -> bool:
    """Return whether a node other than the attempt's takes tasks."""
    return any(name != attempt.node and not node.closed for name, node in context.nodes.items())


def succeeded(context: Context, attempt: LiveAttempt, job: LiveJob) -> None:
    """Note that a program runs: earlier failed starts of its task are blamed on their nodes."""
    job.unstarted.pop(attempt.task, None)
    node = context.nodes[attempt.node]
    if node.failures or node.rests:
        cordons.forgive(context, node)
        cordons.tell(context, attempt.node)
    for name in job.suspects:
        if name != attempt.node:
            _blame(context, name, job)
    if job.suspects:
        job.suspects = ()


def failed(context: Context, attempt: LiveAttempt, job: LiveJob, error: str, *, again: bool) -> None:
    """Handle a failed start; ``again``: the task is retried."""
    if job.kept is not None and (not again or _given_up(context, job) or not elsewhere(context, attempt)):
        # It is retried for ever: a task that fails to start on many nodes must not close them to all others for ever.
        return
    if again:
        if attempt.node not in job.suspects:
            job.suspects = (*job.suspects, attempt.node)
        _rest(context, attempt.node, f"resting after a failed start: {error}")
        cordons.tell(context, attempt.node)
    reason = f"the program could not be started: {error or 'no reason was reported'}"
    if not again:
        job.reason = reason
    if job.started or job.kept is not None:
        return
    job.start_failures += 1
    if job.start_failures >= context.core.options.start_failures:
        fail(context, job, reason)


def _given_up(context: Context, job: LiveJob) -> bool:
    """Return whether a task of a service failed to start so often that the task itself is the cause."""
    state = context.families[job.job.family].state
    return isinstance(state, ReplicaState) and state.failures.get(job.index, 0) > context.core.options.start_tries


def _blame(context: Context, name: str, job: LiveJob) -> None:
    """Count evidence against a node: a program that failed to start there runs elsewhere."""
    node = context.nodes.get(name)
    if node is None:
        return
    node.failures += 1
    if job.job.id not in node.failed_jobs and len(node.failed_jobs) < 2:
        node.failed_jobs = (*node.failed_jobs, job.job.id)
    if node.failures >= context.core.options.start_failures and len(node.failed_jobs) > 1:
        context.noticed.cordon(node)
        node.rest = (
            f"{node.failures} programs could not be started here and ran on other nodes, the last of job {job.job.id}"
        )
        context.timers.drop(REST, name)
        cordons.tell(context, name)


def no_room(context: Context, attempt: LiveAttempt, error: str) -> None:
    """Rest a node that had no room for an attempt, longer each time; this never closes it for good."""
    _rest(context, attempt.node, f"resting: the node could not start a program: {error}")
    cordons.tell(context, attempt.node)


def _rest(context: Context, name: str, why: str) -> None:
    # A task that was placed here before the rest does not prolong it when it fails too.
    node, options = context.nodes[name], context.core.options
    if not node.rest:
        context.noticed.cordon(node)
        node.rest = why
        first = 2 * options.start_backoff
        context.timers.set(REST, name, context.now + backoff(first, node.rests, max(first, options.start_rest_most)))
        node.rests += 1
