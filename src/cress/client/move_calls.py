"""Calls about moving running tasks, as values."""

from __future__ import annotations

from collections.abc import Sequence

from cress.client.calls import Call
from cress.protocol.moveviews import PlanView, RoundView

# A plan for thousands of nodes takes some seconds.
PLAN_SECONDS = 60.0
_PATH = "/v1/rebalance"


def plan(
    job: int | None = None, goals: Sequence[str] = (), moves: int | None = None, lost: float | None = None
) -> Call[PlanView]:
    """Return the moves that let a waiting job start, or that serve these goals; at most so many, that lose so many
    hours of cores and devices together.
    """
    query: dict[str, object] = {"for": job, "moves": moves, "lost": lost}
    given: dict[str, object] = {name: value for name, value in query.items() if value is not None}
    if goals:
        given["goal"] = ",".join(goals)
    return Call(PlanView, "GET", _PATH, given, wait=PLAN_SECONDS)


def begin(found: PlanView) -> Call[RoundView]:
    """Carry out a plan."""
    body: dict[str, object] = {
        "moves": [{"attempt": each.attempt, "to": each.to, "goal": each.goal} for each in found.moves],
        "job": found.job or 0,
        "place": found.place,
    }
    return Call(RoundView, "POST", _PATH, body=body, again=False)


def stop() -> Call[RoundView]:
    """End the round that is under way after its present step."""
    return Call(RoundView, "DELETE", _PATH, again=False)


def last_round() -> Call[RoundView]:
    """Return the round that is under way, or the last one."""
    return Call(RoundView, "GET", f"{_PATH}/round")
