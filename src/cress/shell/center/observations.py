"""Events about nodes and observations: cordons, overloaded nodes, data that cannot be located, licences, deadlines."""

from __future__ import annotations

from collections.abc import Sequence

from cress.lifecycle.effects import (
    CordonChanged,
    DataMissing,
    DeadlineAtRisk,
    DeadlineMissed,
    LeaseChanged,
    LeaseResized,
    NodeDrained,
    Notice,
    Overloaded,
    Recovered,
    RolledBack,
    RoundEnded,
    RunSkipped,
    TaskMoved,
)
from cress.lifecycle.machine import Machine
from cress.model.group import DEFAULT_GROUP
from cress.model.times import SECOND
from cress.protocol.cluster_views import EventView


def of_notice(machine: Machine, at: float, notice: Notice) -> EventView:
    """Return the event of a notice at ``at``, in seconds."""
    match notice:
        case CordonChanged():
            kind = "node.cordoned" if notice.cordoned else "node.uncordoned"
            return EventView(at=at, kind=kind, node=notice.node, text=notice.why)
        case NodeDrained():
            return EventView(at=at, kind="node.drained", node=notice.node)
        case Overloaded():
            return EventView(at=at, kind="node.overloaded", node=notice.node, text=notice.what)
        case Recovered():
            return EventView(at=at, kind="node.recovered", node=notice.node)
        case DataMissing():
            return EventView(at=at, kind="data.missing", text=f"{notice.data}: {notice.problem}")
        case DeadlineAtRisk() | DeadlineMissed():
            kind = "job.deadline_missed" if isinstance(notice, DeadlineMissed) else "job.deadline_at_risk"
            name, group = notice.name, notice.group
            return EventView(at=at, kind=kind, job=notice.job, name=name, group=group, text=notice.text)
        case RunSkipped():
            group, text = notice.group, notice.text
            return EventView(at=at, kind="job.run_skipped", job=notice.job, name=notice.name, group=group, text=text)
        case LeaseChanged():
            return EventView(
                at=at,
                kind="lease.stopping" if notice.stopping else "lease.used",
                job=notice.job,
                task=notice.task,
                attempt=notice.attempt,
                node=notice.node,
                group=notice.group,
                text=notice.text,
            )
        case LeaseResized():
            return EventView(
                at=at,
                kind="lease.resized",
                job=notice.job,
                task=notice.task,
                attempt=notice.attempt,
                node=notice.node,
                group=notice.group,
                name=notice.workload,
                text=notice.text,
            )
        case TaskMoved():
            return EventView(
                at=at,
                kind="task.moved",
                job=notice.job,
                task=notice.task,
                attempt=notice.attempt,
                node=notice.node,
                group=notice.group,
                user=notice.by,
                text=notice.text,
            )
        case RoundEnded():
            return EventView(at=at, kind="rebalance.ended", user=notice.by, text=notice.text)
        case RolledBack():
            family = machine.families.get(notice.job)
            name, group = (family.job.name, family.job.group or DEFAULT_GROUP) if family is not None else ("", "")
            return EventView(at=at, kind="job.rolled_back", job=notice.job, name=name, group=group, text=notice.why)


def of_licences(machine: Machine, counts: Sequence[tuple[str, int]]) -> EventView:
    """Return the event of a new list of licences."""
    told = ", ".join(f"{name} {count}" for name, count in counts)
    return EventView(at=machine.utc / SECOND, kind="licences.changed", text=told or "none")
