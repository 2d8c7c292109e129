"""Calls about moving running tasks: plans, and rounds that carry them out (design note 0027)."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import read, reply
from cress.center.api.context import check_steers, committer_of, demand, seen_job, sees_number, user_of
from cress.center.api.routes import Routes, query_of
from cress.center.views.moves import CORE_HOUR, plan_view, round_view
from cress.core.moving.movable import lost_by, lost_devices_by
from cress.core.moving.plan import ANY, Budget, Goal, Move
from cress.core.moving.planner import GOALS
from cress.lifecycle.inputs import Rebalance, StopMoves
from cress.lifecycle.moving.planning import PlanPurpose, waiting_unit
from cress.model.errors import InputError, NotAccepted
from cress.model.units import one_of
from cress.protocol.bodies import RebalanceBody
from cress.protocol.calls import lease_calls
from cress.protocol.lease_views import RoundView
from cress.protocol.queries import MOST_MOVES, MovesQuery
from cress.protocol.rights import Action

router = Routes()

_GOALS = {goal.value: goal for goal in GOALS}


@router.answers(lease_calls.PLAN_MOVES)
async def plan(request: Request) -> Response:
    """Return a plan of moves that spreads services and frees devices and nodes, or (``for``) lets a waiting job start.

    Nothing is moved. The plan moves at most ``moves`` tasks, which lose at most ``lost`` hours of cores and devices
    together. ``goal`` restricts it to some of spread, devices and nodes (``spread,nodes``). Users may ask for their own
    jobs; everything else is for admins.
    """
    committer, query, number = committer_of(request), query_of(request, MovesQuery), 0
    lost = ANY if query.lost is None else min(ANY, round(query.lost * CORE_HOUR))
    budget = Budget(moves=query.moves or MOST_MOVES, lost=lost)
    if query.job:
        if query.goal:
            raise InputError("cannot be combined with a job", hint="leave out `for` or `goal`", field="goal")
        job = await seen_job(request, query.job)
        check_steers(request, job)
        number = int(query.job)
        wanted = PlanPurpose(job=waiting_unit(committer.machine, number), budget=budget)
    else:
        demand(request, Action.MOVE_TASKS)
        words = [word.strip() for word in query.goal.split(",")] if query.goal else list(_GOALS)
        unknown = [word for word in words if word not in _GOALS]
        if unknown:
            raise InputError(f"{unknown[0]!r} is not a goal", hint=one_of(unknown[0], list(_GOALS)), field="goal")
        wanted = PlanPurpose(goals=tuple(_GOALS[word] for word in words), budget=budget)
    found = await request.app.state.planner.plan(wanted)
    return reply(plan_view(committer, found, number, partial(sees_number, request)))


@router.answers(lease_calls.BEGIN_MOVES)
async def begin(request: Request) -> Response:
    """Begin a round that moves these attempts to these nodes.

    The order is kept; ``for`` and ``place`` are as in the plan.
    """
    committer = committer_of(request)
    body = await read(request, RebalanceBody)
    machine = committer.machine
    moves = []
    for move in body.moves:
        attempt = machine.attempts.get(move.attempt)
        if attempt is None:
            raise NotAccepted(
                f"the cluster has changed: attempt {move.attempt} has ended", hint="plan again: `cress rebalance`"
            )
        goal = _GOALS.get(move.goal, Goal.PLACE if body.job else Goal.NODES)
        entry = machine.core.attempts[attempt.id]
        lost, of_devices = lost_by(machine.core.books, entry), lost_devices_by(machine.core.books, entry)
        moves.append(Move(attempt.id, attempt.job, attempt.task, attempt.node, move.to, lost, goal, of_devices))
    job = waiting_unit(machine, body.job) if body.job else 0
    place = tuple(body.place.items())
    await committer.submit(Rebalance(moves=tuple(moves), job=job, place=place, by=user_of(request)))
    return reply(_last(request), 201)


@router.answers(lease_calls.STOP_MOVES)
async def stop(request: Request) -> Response:
    """End the current round after its present step."""
    await committer_of(request).submit(StopMoves(by=user_of(request)))
    return reply(_last(request))


@router.answers(lease_calls.LAST_ROUND)
async def last_round(request: Request) -> Response:
    """Return the current round, or else the last one."""
    return reply(_last(request))


def _last(request: Request) -> RoundView:
    committer = committer_of(request)
    rounds = committer.machine.tables.rounds
    number = next(reversed(rounds), 0)
    return round_view(committer, number, rounds[number], partial(sees_number, request)) if number else RoundView()
