"""New options or additional dimensions for a scheduler in use and its state."""

from __future__ import annotations

import msgspec

from cress.core.live_options import are_live, take_over
from cress.core.scheduler import Scheduler
from cress.core.widening import widened
from cress.lifecycle.facts import Configured, Widened
from cress.lifecycle.inputs import ChangeJobs, Input, NodeJoined, Submit, Update
from cress.lifecycle.tables.family_rows import ReplicaState, Version
from cress.lifecycle.tables.tables import Tables
from cress.model.job import Job
from cress.model.node import Node
from cress.model.resources import Dimensions

_replace = msgspec.structs.replace


def configured(core: Scheduler, tables: Tables, fact: Configured | Widened, *, anew: bool = False) -> Scheduler:
    """Return a scheduler that continues the given one with the change in the fact; rows are updated without notes.

    It is the same object if only live options change, unless ``anew`` is set.
    """
    if isinstance(fact, Widened):
        dimensions = Dimensions(fact.dimensions)
        wider = widened(core, dimensions)
        _pad_rows(tables, dimensions)
        return wider
    if not anew and are_live(core.options, fact.options):
        take_over(core, fact.options)
        return core
    state = core.export()
    state.options = fact.options
    changed = Scheduler.restore(state)
    # As for live options: what was in vain under the old ones is tried again.
    changed.cluster.loosened += 1
    return changed


def padded(input_: Input, dimensions: Dimensions) -> Input:
    """Return an input in today's dimensions, if it was made before the last ones were declared."""
    match input_:
        case Submit() if any(len(job.request) < len(dimensions) for job in input_.jobs):
            return _replace(input_, jobs=tuple(_job(job, dimensions) for job in input_.jobs))
        case Update() if len(input_.spec.request) < len(dimensions):
            return _replace(input_, spec=_job(input_.spec, dimensions))
        case ChangeJobs() if len(input_.values.request) < len(dimensions):
            return _replace(input_, values=_job(input_.values, dimensions))
        case NodeJoined() if len(input_.node.capacity) < len(dimensions):
            return _replace(input_, node=_node(input_.node, dimensions))
    return input_


def _pad_rows(tables: Tables, dimensions: Dimensions) -> None:
    for job in tables.jobs.values():
        job.write_silently("job", _job(job.job, dimensions))
    for family in tables.families.values():
        family.write_silently("job", _job(family.job, dimensions))
        state = family.state
        if isinstance(state, ReplicaState) and state.good is not None:
            state.write_silently("good", Version(state.good.template, _job(state.good.job, dimensions)))
    for node in tables.nodes.values():
        node.write_silently("node", _node(node.node, dimensions))
        if node.reported is not None:
            node.write_silently("reported", _node(node.reported, dimensions))


def _job(job: Job, dimensions: Dimensions) -> Job:
    parts = tuple(_replace(part, request=dimensions.padded(part.request)) for part in job.parts)
    return _replace(job, request=dimensions.padded(job.request), parts=parts)


def _node(node: Node, dimensions: Dimensions) -> Node:
    return _replace(node, capacity=dimensions.padded(node.capacity))
