"""Accounts: what tasks and claims are charged to is counted the same way however they entered the books."""

from __future__ import annotations

from typing import Any

import pytest

from cress.core.charging import recharge
from cress.core.groups.policies.capacity import UseByUser
from cress.core.scheduler import Scheduler
from tests.core.builders import World, group, job, node, nodes
from tests.core.settings import EVERYTHING, seeded_operations, seeded_setting
from tests.core.stories import Player


def counts(core: Scheduler) -> dict[str, Any]:
    """Return everything that accounts have counted."""
    found: dict[str, Any] = {"licences": dict(core.relations.licences.taken)}
    for each in (*core.groups, *core.groups.tree.upwards):
        found[each.name] = list(each.used), list(each.leaving), list(each.claimed)
    for state in core.groups:
        users = [account.used for account in state.policy.accounts if isinstance(account, UseByUser)]
        found[f"{state.name} by user"] = [{user: list(used) for user, used in each.items()} for each in users]
        running = [counter.counts() for counter in state.counters]
        found[f"{state.name} runs"] = [tuple(dict(each) for each in counted) for counted in running]
    return found


@pytest.mark.parametrize("seed", range(6))
def test_charging_everything_again_and_a_restore_count_what_was_counted_step_by_step(seed: int) -> None:
    player = Player(seeded_setting(seed), check=False).play(seeded_operations(seed, 60, EVERYTHING))
    core = player.core
    before = counts(core)
    assert counts(Scheduler.restore(core.export())) == before
    recharge(core.books)
    assert counts(core) == before
    assert core.validate() == []


def test_a_user_at_the_bound_of_a_restored_scheduler_still_is() -> None:
    world = World(group("g", 10, "Capacity").with_options(user_limit_factor="1"), nodes=nodes(1, cpu=99))
    world.submit(job("a").tasks(20).user("ann").group("g"), job("b").user("bob").group("g")).decide()
    told = world.why("a")
    assert "user ann already uses the most" in told
    restored = Scheduler.restore(world.core.export())
    assert counts(restored) == counts(world.core)
    veto = restored.veto(1)
    assert veto is not None
    (bound,) = veto.at_bound
    assert (bound.account, bound.user) == ("g", "ann")
    assert bound.has + bound.asks > bound.most


def test_a_charge_that_changes_is_counted_once_for_a_task_that_is_stopping() -> None:
    """The charge of a task is a share of its node's capacity: with less memory it takes more of the node."""
    world = World(group("g", 10), nodes=[node("n1").cpu(8).memory("8G")])
    world.run(job("a").memory("4G").group("g"))
    state = world.core.groups.get("g")
    world.cancel("a")
    assert state.used == state.leaving == [4000]
    world.change_node(node("n1").cpu(8).memory("4G"))
    assert state.used == state.leaving == [8000]
    assert world.core.validate() == []
