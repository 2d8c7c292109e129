"""Plans and rounds of moves as views."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cress.center.committing.committer import Committer
from cress.center.committing.lookup import recent_job, spec_of
from cress.core.moving.plan import Free, Move, MovePlan, Prevented
from cress.lifecycle.tables.rounds import Round
from cress.lifecycle.tables.rows import LiveJob
from cress.model.group import DEFAULT_GROUP
from cress.model.times import HOUR, SECOND
from cress.protocol.lease_views import DeviceName, FreeView, MoveView, PlanView, RoundView, StaysView

# µs × millicores in a core hour.
CORE_HOUR = 1000 * HOUR
Seen = Callable[[int], bool]


def plan_view(committer: Committer, plan: MovePlan, job: int, seen: Seen) -> PlanView:
    """Return a plan for ``job`` (0: none), reduced to the jobs that are ``seen`` by the caller."""
    return PlanView(
        moves=_moves(committer, plan.moves, seen),
        before=_free(plan.before),
        after=_free(plan.after),
        movable=plan.movable,
        stays=tuple(StaysView(reason=reason.value, tasks=number) for reason, number in plan.stays.items()),
        nodes=plan.nodes,
        devices=tuple(DeviceName(node=node, kind=kind, id=id) for node, kind, id in plan.devices),
        spread=tuple(number for number in plan.spread if seen(number)),
        job=job or None,
        place=dict(plan.place),
        lost=plan.lost / CORE_HOUR,
        lost_devices=plan.lost_devices / CORE_HOUR,
        note="" if plan.moves or plan.place else _why_nothing(plan, job),
    )


def _why_nothing(plan: MovePlan, job: int) -> str:
    what = f"no moves let job {job} start" if job else "there is nothing worth moving"
    if plan.prevented is not None:
        what = f"{what}, because {_prevented(plan.prevented)}"
    parts = [f"{number:,} {reason.value}" for reason, number in plan.stays.items()]
    movable = f"{plan.movable:,} running tasks may move"
    return f"{what}: {movable}" + (f", {_listed(parts)} may not" if parts else "")


def _prevented(rule: Prevented) -> str:
    if rule.short:
        return f"all nodes together have too little {_listed(list(rule.short))} left, and moves make no more of it"
    if rule.moves:
        would = f"{rule.moves:,} move{'s' * (rule.moves > 1)} that would do so"
        are = "are" if rule.moves > 1 else "is"
        return f"{would}, with {rule.cost / CORE_HOUR:.1f} hours of lost work, {are} more than the limits allow"
    if rule.stays:
        return f"tasks would have to move that never move or not now: those {_listed([r.value for r in rule.stays])}"
    return "the tasks that would have to move find no other node with room for them that their clauses and quotas allow"


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def round_view(committer: Committer, number: int, round_: Round, seen: Seen) -> RoundView:
    """Return a round."""
    return RoundView(
        number=number,
        state=round_.state,
        by=round_.by,
        begun=round_.begun / SECOND,
        ended=round_.ended / SECOND or None,
        job=round_.job if round_.job and seen(round_.job) else None,
        done=_moves(committer, round_.done, seen),
        under_way=_moves(committer, round_.under_way, seen),
        left=_moves(committer, round_.left, seen),
        skipped=_moves(committer, round_.skipped, seen),
        problem=round_.problem,
    )


def _free(free: Free) -> FreeView:
    return FreeView(
        nodes=free.nodes, devices=free.devices, all_nodes=free.all_nodes, all_devices=free.all_devices
    )  # fmt: skip


def _moves(committer: Committer, moves: Iterable[Move], seen: Seen) -> tuple[MoveView, ...]:
    return tuple(_move(committer, move, seen) for move in moves)


def _move(committer: Committer, move: Move, seen: Seen) -> MoveView:
    found = recent_job(committer, move.job)
    job, task, name, group = move.job, move.task, "", ""
    if found is not None:
        spec = spec_of(found)
        name, group = spec.name, spec.group or DEFAULT_GROUP
        if isinstance(found, LiveJob) and found.kept is not None:
            job, task = found.job.family, found.index
    shown = seen(job)
    return MoveView(
        attempt=move.attempt,
        job=job if shown else None,
        task=task if shown else None,
        name=name if shown else "",
        group=group,
        node=move.node,
        to=move.to,
        goal=move.goal.value,
        lost=move.lost / CORE_HOUR,
        lost_devices=move.lost_devices / CORE_HOUR,
    )
