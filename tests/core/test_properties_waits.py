"""A unit that waits for something other than room keeps nobody of its group waiting, under every policy, and nobody is
told to wait behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cress.core.diagnostics.sentences import sentence
from cress.core.jobs import GroupState
from cress.core.placing.vetoes import Verdict, Veto
from cress.model.advance import AdvanceReservation
from cress.model.decisions import Preempt, Start
from cress.model.events import AdvanceReserved, JobCancelled
from cress.model.times import HOUR, MINUTE, SECOND
from tests.core.builders import GroupBuilder, JobBuilder, World, group, job, node
from tests.examples import examples

NOT_FOR_ROOM = {
    Verdict.FORBIDDEN,
    Verdict.KEPT,
    Verdict.LICENCE,
    Verdict.MAX_QUOTA,
    Verdict.NEVER,
    Verdict.NEVER_SATISFIED,
    Verdict.NEVER_TOGETHER,
    Verdict.NO_GAP,
    Verdict.NO_NODE,
    Verdict.RUNNING_LIMIT,
    Verdict.UNSATISFIED,
    Verdict.USER_LIMIT,
}
POLICIES = ("FIFO", "Priority", "Capacity", "BackFill", "Urgency", "EDF")
NOON, MAINTENANCE = "2026-12-01T12:00+00:00", "2026-12-01T14:00+00:00"


def some_options(random: Random) -> dict[str, Any]:
    options: dict[str, object] = {
        "backfill": random.choice(("easy", "conservative", "off")),
        "preemption": random.choice(("on", "off")),
        "behind_blocked": random.choice(("reserve", "quota_only")),
        "drain_after": random.choice((0, 10 * MINUTE)),
    }
    rare = {
        "backfill_depth": (1, 2, 5),
        "user_limit_factor": (0.5, 1),
        "backfill_order": ("shortest_first", "expansion_factor"),
    }
    for name, values in rare.items():
        if random.random() < 0.3:
            options[name] = random.choice(values)
    if options["backfill"] != "easy":
        options.pop("backfill_order", None)
    return options


def some_groups(random: Random) -> list[GroupBuilder]:
    """Two or three groups, in one of three worlds two of them in a tree, with bounds of all sorts."""
    found = []
    in_a_tree = random.random() < 1 / 3
    if in_a_tree:
        top = group("top", random.choice((0, 10)))
        found.append(top.most(random.randint(10, 14)) if random.random() < 0.3 else top)
    for i in range(random.randint(2, 3)):
        quota = random.randint(2, 5)
        one = group(f"g{i}", quota, random.choice(POLICIES))
        one = one.inside("top") if in_a_tree and i < 2 else one
        one = one.most(random.randint(max(quota, 5), 8)) if random.random() < 0.3 else one
        one = one.lends(random.randint(0, 2)) if random.random() < 0.3 else one
        found.append(one.limits(running_per_user=random.randint(1, 2)) if random.random() < 0.2 else one)
    return found


def some_job(random: Random, name: str, group_name: str) -> JobBuilder:
    """A task, some tasks, a gang or a gang with parts; some wait for a port, a licence, a job or a rack."""
    one = job(name).group(group_name).user(random.choice("ab")).priority(random.randint(0, 3))
    one = one.cpu(random.choice((1, 1, 1, 2, 3)))
    sort = random.random()
    if sort < 0.35:
        one = one.tasks(random.randint(2, 12)).gang()
    elif sort < 0.45:
        small, large = random.randint(1, 3), random.randint(1, 4)
        one = one.parts(job("small").cpu(1).tasks(small), job("large").cpu(2).tasks(large))
    elif sort < 0.6:
        one = one.tasks(random.randint(1, 4))
    if random.random() < 0.8:
        one = one.limit(f"{random.choice((30, 60, 90, 180, 300, 600))}m")
    waits_for = random.random()
    if one.in_parts or waits_for > 0.26:
        return one
    if waits_for < 0.08:
        return one.ports(http=80)
    if waits_for < 0.14:
        return one.licences(lic=1)
    return one.requires("JobDependency = ghost" if waits_for < 0.2 else f'Rack = "r{random.randint(0, 1)}"')


def some_world(random: Random) -> World:
    places = [node(f"n{i}").cpu(random.choice((4, 6, 8))).rack(f"r{i % 2}") for i in range(random.randint(1, 3))]
    groups = some_groups(random)
    names = [each.name for each in groups if each.name != "top"]
    world = World(
        *groups, nodes=places, check=False, grace=0, cooling=0, cooling_above_quota=0, **some_options(random)
    ).set_clock(NOON)
    world.licences(lic=1)
    kept = tuple((place.name, 1) for place in places if random.random() < 0.6)
    if kept and random.random() < 0.4:
        start = round(datetime.fromisoformat(MAINTENANCE).timestamp()) * SECOND
        patch = AdvanceReservation(name="patch", start=start, end=start + HOUR, places=kept)
        world.observe([AdvanceReserved(patch)])
    for number in range(random.randint(0, 6)):
        world.submit(some_job(random, f"old-{number}", random.choice(names)))
    world.decide()
    while world.told:
        world.yield_victims()
    world.wait(random.randint(1, 1_500))
    if random.random() < 0.2 and len(places) > 1:
        world.cordon("n0")
    for number in range(random.randint(2, 10)):
        world.submit(some_job(random, f"new-{number}", random.choice(names)))
    world.decide()
    if random.random() < 0.5:
        world.wait(700).decide()
    return world


def started_without(world: World, owner: GroupState, jobs: Iterable[int], latest: int) -> list[str]:
    """The jobs of a group that start now, and end by ``latest``, once these are cancelled; none if others have to
    stop for them.
    """
    core = world.core.clone()
    core.observe(world.now, [JobCancelled(number) for number in jobs])
    decided = core.decide(world.now).items
    if any(isinstance(fact, Preempt) for fact in decided):
        return []
    starts = [core.jobs[fact.job] for fact in decided if isinstance(fact, Start)]
    mine = [entry for entry in starts if entry.group.name == owner.name and not _is_late(world, entry.job.id)]
    return [world.names[entry.job.id] for entry in mine if world.now + entry.duration <= latest]


def _is_late(world: World, number: int) -> bool:
    """A planned start whose room others took: it is planned again at the next end."""
    veto = world.core.veto(number)
    return veto is not None and veto.kind is Verdict.PLANNED and veto.until is not None and veto.until <= world.now


@examples(24)
@given(seed=st.integers(0, 2**32))
def test_without_those_that_wait_for_something_else_nobody_starts_who_does_not_start_beside_them(seed: int) -> None:
    world = some_world(Random(seed))
    core = world.core
    for owner in core.groups:
        vetoes: dict[int, Veto] = {
            number: veto
            for number, entry in core.jobs.items()
            if entry.group is owner and (veto := core.veto(number)) is not None
        }
        refused = [number for number, veto in vetoes.items() if veto.kind in NOT_FOR_ROOM]
        ahead = [number for number, veto in vetoes.items() if veto.kind is Verdict.RESERVED_AHEAD]
        for number, veto in vetoes.items():
            told = f"{world.names[number]}: {sentence(veto)}"
            assert veto.kind is not Verdict.BEHIND or veto.behind not in refused, told
        assert started_without(world, owner, refused, 2**62) == [], (owner.name, refused)
        # The room of one that waits for a reservation to end may be promised, and the next one waits for that room.
        if all(veto.kind is not Verdict.RESERVED for veto in vetoes.values()):
            assert started_without(world, owner, ahead, 2 * HOUR) == [], (owner.name, ahead)
