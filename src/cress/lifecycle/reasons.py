"""Why tasks of a job wait, as a sentence for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.core.explain import sentence
from cress.core.vetoes import Verdict
from cress.lifecycle.family import Family
from cress.lifecycle.live import LiveJob
from cress.model.units import format_duration

if TYPE_CHECKING:
    from cress.lifecycle.machine import Machine

# Times are told to a tenth of a second.
_TENTH = 100_000


def reason(machine: Machine, number: int, now: int | None = None) -> str:
    """Why tasks of a job wait; empty when none does. ``now`` (µs, the machine's clock) if it is later than the step."""
    job = machine.jobs.get(number)
    veto = machine.core.veto(number)
    if job is None or veto is None:
        return ""
    if veto.kind is Verdict.HELD:
        return f"it is held by {job.held_by}" if job.held_by else sentence(veto)
    if veto.kind is Verdict.AFTER:
        return comes_after(machine, job)
    if veto.kind is Verdict.BACKOFF and veto.until is not None:
        wait = lasting(veto.until - max(machine.now, now or 0))
        return f"a task of it failed and is tried again in {wait}" if job.kept is None else again_in(wait)
    if not any(node.connected for node in machine.nodes.values()):
        return "no executor is connected"
    if not machine.core.cluster.usable_count:
        return f"no node takes tasks at the moment{_first_closed(machine)}"
    return sentence(veto)


def again_in(wait: str) -> str:
    """What is said of a task of a service or database that ended."""
    return f"it ended and is started again in {wait}"


def lasting(left: int) -> str:
    """A time (µs) that is left, for people."""
    return format_duration(-(-max(0, left) // _TENTH) * _TENTH)


def comes_after(machine: Machine, job: LiveJob | Family) -> str:
    """What it comes after."""
    first, _ = job.unmet[0]
    name = (machine.jobs.get(first) or machine.families[first]).job.name
    more = f", and {len(job.unmet) - 1} more" if len(job.unmet) > 1 else ""
    return f"it comes after job {first}{f' ({name})' if name else ''}{more}"


def _first_closed(machine: Machine) -> str:
    """What keeps tasks off the first node that is connected."""
    for name, node in machine.nodes.items():
        if node.connected and node.why:
            return f"; {name}: {node.why}"
    return ""
