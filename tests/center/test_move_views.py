"""The sentence of a plan that moves nothing: the rule that prevents a place, then the counts."""

from __future__ import annotations

from typing import cast

import pytest

from cress.center.committing.committer import Committer
from cress.center.views.moves import plan_view
from cress.core.moving.plan import Free, MovePlan, Prevented, Stays

HOUR = 3_600_000_000
NOTHING = cast("Committer", None)  # A plan without moves asks it for nothing.


def plan(rule: Prevented | None, **stays: int) -> MovePlan:
    free = Free(nodes=0, devices=0, all_nodes=2, all_devices=0)
    counts = {Stays[name]: number for name, number in stays.items()}
    return MovePlan(moves=(), before=free, after=free, job=12, movable=3, stays=counts, prevented=rule)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            Prevented(short=("cpu", "memory")),
            "all nodes together have too little cpu and memory left, and moves make no more of it",
        ),
        (
            Prevented(moves=2, cost=30 * 1000 * HOUR),
            "2 moves that would do so, with 30.0 hours of lost work, are more than the limits allow",
        ),
        (
            Prevented(moves=1, cost=0),
            "1 move that would do so, with 0.0 hours of lost work, is more than the limits allow",
        ),
        (
            Prevented(stays=(Stays.GANG, Stays.UNDECLARED)),
            (
                "tasks would have to move that never move or not now: those of gangs and of batch jobs without "
                "movable: true"
            ),
        ),
        (
            Prevented(),
            (
                "the tasks that would have to move find no other node with room for them that their clauses and quotas "
                "allow"
            ),
        ),
    ],
)
def test_no_moves_let_a_job_start_for_a_reason(rule: Prevented, said: str) -> None:
    note = plan_view(NOTHING, plan(rule, GANG=4), 12, lambda _: True).note
    assert note == f"no moves let job 12 start, because {said}: 3 running tasks may move, 4 of gangs may not"


def test_a_plan_without_a_job_has_no_such_rule() -> None:
    note = plan_view(NOTHING, plan(None), 0, lambda _: True).note
    assert note == "there is nothing worth moving: 3 running tasks may move"
