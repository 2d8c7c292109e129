"""Widening: a running scheduler continues with more dimensions."""

from __future__ import annotations

import msgspec

from cress.core.scheduler import Scheduler
from cress.core.stored.state import CoreState, Foreseen
from cress.model.attributes import check_attributes
from cress.model.errors import InputError, NotAccepted
from cress.model.resources import Dimensions, ResourceVector

_replace = msgspec.structs.replace


def widened(core: Scheduler, dimensions: Dimensions) -> Scheduler:
    """Return a scheduler that continues from the state of another; ``dimensions`` are its own, followed by new ones.

    Foreseen values are computed again. Raises ``InputError`` if a node has an attribute with the name of a new
    dimension.
    """
    new = ", ".join(dimensions.custom[len(core.dimensions.custom) :])
    for node in core.cluster.specs:
        try:
            check_attributes(dict(node.attributes), dimensions)
        except InputError as error:
            raise NotAccepted(f"{new} cannot be declared: node {node.name}: {error.what}", hint=error.hint) from None
    state = core.export()
    _widen(state, dimensions)
    return Scheduler.restore(state)


def _widen(state: CoreState, dimensions: Dimensions) -> None:
    """Pad all amounts; foreseen values are kept only if they contain no amounts."""

    def padded(amounts: ResourceVector) -> ResourceVector:
        return dimensions.padded(amounts)

    state.dimensions = dimensions.custom
    for node in state.nodes:
        node.node = _replace(node.node, capacity=padded(node.node.capacity))
    for job in state.jobs:
        parts = tuple(_replace(part, request=padded(part.request)) for part in job.job.parts)
        job.job = _replace(job.job, request=padded(job.job.request), parts=parts)
    for attempt in state.attempts:
        attempt.amounts = padded(attempt.amounts)
        attempt.held = None if attempt.held is None else padded(attempt.held)
        attempt.parts = tuple((lease, device, padded(amounts), end) for lease, device, amounts, end in attempt.parts)
        attempt.inside = tuple((lease, device, padded(amounts)) for lease, device, amounts in attempt.inside)
    for stranger in state.others:
        stranger.held = padded(stranger.held)
    for lease in state.lending.leases:
        lease.idle = [(device, padded(amounts)) for device, amounts in lease.idle]
        lease.wanted = padded(lease.wanted) if lease.wanted else lease.wanted
    for claim in state.claims:
        claim.leased = tuple(_replace(part, amounts=padded(part.amounts)) for part in claim.leased)
    foreseen = state.foreseen = state.foreseen or Foreseen()
    for group in foreseen.groups.values():
        group.start = group.victims = None
        if group.bounds is not None:
            group.memo, group.bounds = None, []
    empty = Foreseen()
    foreseen.reservations, foreseen.plans = empty.reservations, empty.plans
