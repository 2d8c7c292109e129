"""Widening: a scheduler that has begun goes on with more dimensions than it had."""

from __future__ import annotations

from collections.abc import Sequence

from cress.core.scheduler import Scheduler
from cress.core.state import State
from cress.model.attributes import check_attributes
from cress.model.errors import InputError, NotAccepted
from cress.model.resources import Dimensions


def widened(core: Scheduler, dimensions: Dimensions) -> Scheduler:
    """Return a scheduler that goes on from where one is; ``dimensions`` are its own and, behind them, new ones.

    What is only foreseen is worked out again. Raises InputError if a node has an attribute of the name of a new one.
    """
    new = ", ".join(dimensions.custom[len(core.dimensions.custom) :])
    for node in core.cluster.specs:
        try:
            check_attributes(dict(node.attributes), dimensions)
        except InputError as error:
            raise NotAccepted(f"{new} cannot be declared: node {node.name}: {error.what}", hint=error.hint) from None
    return Scheduler.restore(_wider(core.export(), dimensions))


def _wider(state: State, dimensions: Dimensions) -> State:
    state["dimensions"] = list(dimensions.custom)
    for entry in state["nodes"]:
        entry["node"]["capacity"] = dimensions.padded(tuple(entry["node"]["capacity"]))
    for entry in state["jobs"]:
        entry["job"]["request"] = dimensions.padded(tuple(entry["job"]["request"]))
        for part in entry["job"].get("parts", ()):
            part["request"] = dimensions.padded(tuple(part["request"]))
    for entry in (*state["attempts"], *state["others"]):
        for name in ("held", "amounts"):
            if name in entry:
                entry[name] = list(dimensions.padded(tuple(entry[name])))
    _widen_leases(state, dimensions)
    # These refer to amounts as they were.
    state["reservations"] = {"loosened": -1, "kept": []}
    state["plans"] = {}
    for group in state["memory"]["groups"].values():
        group |= {"failed": None, "no_victims": None}
        if "bounds" in group:
            group |= {"memo": None, "bounds": []}
    return state


def _widen_leases(state: State, dimensions: Dimensions) -> None:
    """Pad the amounts of leases of workloads, of what tasks have of them, and of what claims take."""

    def padded(amounts: Sequence[int]) -> list[int]:
        return list(dimensions.padded(tuple(amounts)))

    for lease in state["lending"]["leases"]:
        lease["idle"] = [[device, padded(amounts)] for device, amounts in lease["idle"]]
        lease["wanted"] = padded(lease["wanted"]) if lease["wanted"] else lease["wanted"]
    for entry in state["attempts"]:
        for name in ("parts", "inside"):
            if name in entry:
                entry[name] = [[lease, device, padded(amounts), *end] for lease, device, amounts, *end in entry[name]]
    for claim in state["claims"]:
        claim["leased"] = [[lease, padded(amounts), *device] for lease, amounts, *device in claim["leased"]]
