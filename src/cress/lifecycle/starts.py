"""Programs that cannot be started: is it the node, or the job?

The task is tried again while its node rests, so that another node gets it if there is one. A node on which many starts
in a row fail, of more than one job, takes nothing any more until somebody has looked at it; a job none of whose programs
ever ran is failed as a whole: a typo in an array of a million must not march over a cluster. Where the node says that it
is its own lack of room, on a disk for one, no job is blamed: its tasks wait until there is room, there or elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.lifecycle import cordons
from cress.lifecycle.jobs import fail
from cress.lifecycle.live import LiveAttempt, LiveJob
from cress.lifecycle.outcomes import backoff
from cress.lifecycle.timers import REST

if TYPE_CHECKING:
    from cress.lifecycle.machine import Machine


def succeeded(machine: Machine, attempt: LiveAttempt, job: LiveJob) -> None:
    """A program runs: neither its job nor its node is to blame for failures before."""
    job.unstarted.pop(attempt.task, None)
    node = machine.nodes[attempt.node]
    if node.failures or node.rests:
        cordons.forgive(machine, node)
        cordons.tell(machine, attempt.node)


def failed(machine: Machine, attempt: LiveAttempt, job: LiveJob, error: str, *, again: bool) -> None:
    """The program of an attempt could not be started; whether its task is tried ``again``."""
    _blame_node(machine, attempt, error)
    reason = f"a program of it could not be started: {error or 'nobody said why'}"
    if not again:
        job.reason = reason
    if job.started:
        return
    job.start_failures += 1
    if job.start_failures >= machine.core.options.start_failures:
        fail(machine, job, reason)


def _blame_node(machine: Machine, attempt: LiveAttempt, error: str) -> None:
    name, options = attempt.node, machine.core.options
    node = machine.nodes[name]
    node.failures += 1
    if attempt.job not in node.failed_jobs and len(node.failed_jobs) < 2:
        node.failed_jobs.append(attempt.job)
    if node.failures >= options.start_failures and len(node.failed_jobs) > 1:
        node.rest = f"{node.failures} programs in a row could not be started here, the last one: {error}"
        machine.timers.drop(REST, name)
    else:
        _rest(machine, name, f"it rests for a moment, since a program could not be started: {error}")
    cordons.tell(machine, name)


def no_room(machine: Machine, attempt: LiveAttempt, error: str) -> None:
    """A node had no room for an attempt: it rests, longer each time, and is never closed for that."""
    _rest(machine, attempt.node, f"it rests for a moment, since it had no room for a program: {error}")
    cordons.tell(machine, attempt.node)


def _rest(machine: Machine, name: str, why: str) -> None:
    # What was placed here before the rest and fails too makes the rest no longer.
    node, options = machine.nodes[name], machine.core.options
    if not node.rest:
        node.rest = why
        first = 2 * options.start_backoff
        machine.timers.set(REST, name, machine.now + backoff(first, node.rests, max(first, options.start_rest_most)))
        node.rests += 1
