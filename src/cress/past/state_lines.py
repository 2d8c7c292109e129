"""The state of a machine as a few lines, for the message about a decision that differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cress.lifecycle.machine import Machine
from cress.lifecycle.replay import Difference

# Most jobs and nodes that are named.
MOST = 8


def state_lines(machine: Machine, different: Difference) -> list[str]:
    """Return what runs, what waits and why, and the nodes and jobs that the different values name."""
    attempts, jobs, nodes = machine.attempts, machine.jobs, machine.nodes
    waiting = [number for number, job in jobs.items() if job.waiting]
    up = sum(node.connected for node in nodes.values())
    lines = [
        (
            f"{len(jobs)} jobs, {len(waiting)} of them with waiting tasks; {len(attempts)} attempts; "
            f"{up} of {len(nodes)} nodes connected"
        ),
    ]
    named = set(_leaves((different.stored, different.replayed)))
    concerned = [number for number in jobs if number in named]
    for number in (concerned or waiting)[:MOST]:
        job = jobs[number]
        reason = machine.reason(number)
        lines.append(f"job {number}: {job.waiting} wait, {job.running} run{f'; {reason}' if reason else ''}")
    for name in [name for name in nodes if name in named][:MOST]:
        there = sorted(attempt.id for attempt in attempts.values() if attempt.node == name)
        closed = f", closed ({nodes[name].why})" if nodes[name].closed else ""
        lines.append(f"node {name}: attempts {', '.join(map(str, there)) or 'none'}{closed}")
    return lines


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the texts and numbers in plain data."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(key)
            yield from _leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, str | int):
        yield value
