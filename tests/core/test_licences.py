"""Licences: taken and given back with tasks, waited for without being in anybody's way."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.placing.vetoes import Verdict
from cress.core.scheduler import Scheduler
from cress.model.decisions import Preempt
from cress.model.errors import InputError
from cress.model.events import JobSubmitted, Outcome
from cress.model.resources import Dimensions
from tests.core.builders import World, group, job, nodes
from tests.examples import examples


def world(*, cpu: int = 100, policy: str = "FIFO", **licences: int) -> World:
    return World(group("g", 100, policy=policy), nodes=nodes(1, cpu=cpu)).licences(**licences)


def started(world: World) -> list[str]:
    return [each.job for each in world.starts]


def test_as_many_tasks_run_as_there_are_licences_and_the_next_one_with_the_next_end() -> None:
    w = world(matlab=2)
    w.submit(job("a").tasks(5).licences(matlab=1).group("g")).decide()
    assert len(w.running) == 2
    w.wait(1).finish("a", 0)
    assert [each.task for each in w.starts] == [0, 1, 2]


def test_who_waits_for_a_licence_is_in_nobodys_way() -> None:
    w = world(matlab=1)
    w.run(job("has").licences(matlab=1).group("g"))
    w.submit(job("waits").licences(matlab=1).group("g"), job("plain").group("g")).decide()
    assert started(w) == ["has", "plain"]


def test_each_licence_counts_for_itself_and_a_task_takes_all_of_its_own_or_none() -> None:
    w = world(matlab=1, ansys=1)
    w.run(job("a").licences(ansys=1).group("g"))
    w.submit(job("both").licences(matlab=1, ansys=1).group("g"), job("m").licences(matlab=1).group("g")).decide()
    assert started(w) == ["a", "m"]
    w.finish("a")
    assert w.why("both") == "waiting for licence matlab: 1 of 1 in use"
    w.finish("m")
    assert started(w)[-1] == "both"


def test_a_gang_takes_them_for_all_its_tasks_or_not_at_all() -> None:
    w = world(matlab=4)
    w.run(job("one").licences(matlab=1).group("g"))
    w.submit(job("gang").tasks(2).gang().licences(matlab=2).group("g")).decide()
    assert w.why("gang") == "waiting for 4 of licence matlab: 1 of 4 in use"
    w.finish("one")
    assert started(w) == ["one", "gang", "gang"]


def test_a_gang_of_which_some_tasks_are_done_needs_licences_for_the_others_only() -> None:
    w = world(matlab=3)
    w.run(job("gang").tasks(3).gang().licences(matlab=1).group("g"))
    w.finish("gang", 0)
    w.finish("gang", 1, 2, outcome=Outcome.FAILED, again=True, decide=False)
    w.submit(job("other").licences(matlab=1).group("g")).decide()
    assert len(w.running) == 3


def test_more_licences_wake_who_waits_and_fewer_stop_nobody() -> None:
    w = world(matlab=1)
    w.submit(job("a").tasks(4).licences(matlab=1).group("g")).decide()
    w.licences(matlab=3).decide()
    assert len(w.running) == 3
    w.licences(matlab=1).decide()
    assert len(w.running) == 3
    w.finish("a", 0)
    assert w.why("a") == "waiting for licence matlab: 2 of 1 in use"
    w.finish("a", 1, 2)
    assert [each.task for each in w.starts] == [0, 1, 2, 3]


def test_more_than_there_are_is_never_and_so_is_a_licence_that_is_not_there_until_counts_change() -> None:
    w = world(matlab=2)
    w.submit(job("much").licences(matlab=3).group("g"), job("gang").tasks(3).gang().licences(matlab=1).group("g"))
    w.submit(job("other").licences(ansys=1).group("g")).decide()
    assert w.why("much") == w.why("gang") == "3 of licence matlab are needed, but only 2 exist"
    assert w.why("other") == "there is no licence ansys"
    assert w.veto("much").never
    assert w.core.never_fits(w.state("gang").job)
    w.licences(matlab=9, ansys=1).decide()
    assert sorted(started(w)) == ["gang", "gang", "gang", "much", "other"]


def test_what_else_keeps_it_waiting_is_told_too() -> None:
    w = World(group("g", 9), nodes=nodes(2, cpu=9)).licences(matlab=1)
    w.run(job("a").ports(http=80).licences(matlab=1).group("g"))
    w.submit(job("b").ports(http=80).licences(matlab=1).group("g")).decide()
    told = "waiting for licence matlab: 1 of 1 in use (of 2 nodes 1 does not satisfy Port = 80)"
    assert w.why("b") == told


def test_nobody_is_preempted_for_a_unit_that_waits_for_a_licence() -> None:
    w = World(group("old", 1), group("new", 9), nodes=nodes(1, cpu=4)).licences(matlab=1)
    w.run(job("has").licences(matlab=1).group("new"), job("a").tasks(3).group("old"))
    w.wait(1000).submit(job("waits").licences(matlab=1).group("new")).decide()
    assert not [each for each in w.decisions if isinstance(each, Preempt)]
    assert w.veto("waits").kind is Verdict.LICENCE


def test_a_preempted_task_gives_its_licence_back_with_its_end() -> None:
    w = World(group("old", 1), group("new", 9), nodes=nodes(1, cpu=2)).licences(matlab=3)
    w.run(job("a").tasks(2).licences(matlab=1).group("old"))
    w.wait(1000).submit(job("b").licences(matlab=2).group("new")).decide()
    assert w.why("b") == "waiting for 2 of licence matlab: 2 of 3 in use"
    w.submit(job("c").licences(matlab=1).group("new")).decide()
    w.yield_victims()
    assert started(w) == ["a", "a", "c"]
    assert w.core.relations.licences.taken == {"matlab": 2}


@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity", "BackFill"])
def test_every_policy_passes_over_who_waits(policy: str) -> None:
    w = world(policy=policy, matlab=1)
    w.submit(job("a").tasks(2).licences(matlab=1).limit(60).group("g"), job("b").limit(60).group("g")).decide()
    assert sorted(started(w)) == ["a", "b"]
    w.finish("a", 0)
    assert sorted(started(w)) == ["a", "a", "b"]


def test_conservative_plans_wait_for_licences_too() -> None:
    w = World(group("g", 100, policy="BackFill").with_options(backfill="conservative"), nodes=nodes(1, cpu=9)).licences(
        matlab=1
    )
    w.submit(job("a").tasks(3).licences(matlab=1).limit(60).group("g"), job("b").limit(60).group("g")).decide()
    assert sorted(started(w)) == ["a", "b"]
    w.finish("a", 0)
    assert sorted(started(w)) == ["a", "a", "b"]


def test_what_starts_again_together_needs_the_licences_of_all_its_members() -> None:
    w = World(group("g", 100), nodes=nodes(2, cpu=9), node_order="first").licences(matlab=2)
    w.run(job("db").licences(matlab=1).group("g"))
    w.run(job("web").requires("JobDependency = db").licences(matlab=1).group("g"))
    w.lose_node("n1").licences(matlab=1).decide()
    # Together they need two, of which there is one: both wait.
    assert started(w) == ["db", "web"]
    assert w.why("db") == "together with job 2, which depends on job 1: waiting for 2 of licence matlab: 0 of 1 in use"
    w.licences(matlab=2).decide()
    assert started(w)[-2:] == ["db", "web"]


def test_counts_and_who_has_them_come_back() -> None:
    w = world(matlab=2)
    w.submit(job("a").tasks(3).licences(matlab=1).group("g")).decide()
    again = Scheduler.restore(w.core.export())
    assert again.relations.licences.counts == {"matlab": 2}
    assert again.relations.licences.taken == {"matlab": 2}
    assert again.veto(1) == w.core.veto(1)


@pytest.mark.parametrize("licences", [(("matlab", 0),), (("matlab", 1), ("matlab", 2)), (("matlab", 2**60),)])
def test_what_makes_no_sense_is_refused(licences: tuple[tuple[str, int], ...]) -> None:
    w = world(matlab=2)
    wrong = job("a").group("g")._set(licences=licences).build(1, Dimensions())
    with pytest.raises(InputError, match="licence"):
        w.core.observe(0, [JobSubmitted(wrong)])


@examples(4)
@given(st.integers(0, 2**32), st.sampled_from(["FIFO", "Priority", "Capacity", "BackFill"]))
def test_never_more_than_there_are_and_nobody_waits_for_what_is_free(seed: int, policy: str) -> None:
    # Licences are all that is scarce: there is room for everything.
    rng = Random(seed)
    w = world(cpu=10_000, policy=policy, a=3, b=2)
    counts = {"a": 3, "b": 2}
    for step in range(25):
        before = dict(w.core.relations.licences.taken)
        what = rng.random()
        if what < 0.5:
            wanted = {name: rng.randint(1, 2) for name in counts if rng.random() < 0.6}
            each = job(f"j{step}").licences(**wanted).tasks(rng.choice((1, 1, 2, 3))).group("g")
            w.submit(each.gang() if rng.random() < 0.4 else each)
        elif what < 0.8 and w.running:
            w.end([rng.choice(list(w.running.values()))], rng.choice(list(Outcome)), again=rng.random() < 0.4)
        elif what < 0.9:
            counts = {name: rng.randint(0, 5) for name in counts}
            w.licences(**counts)
        else:
            w.log.calls.clear()
            w.core = Scheduler.restore(w.core.export())
        w.decide()
        known = w.core.relations.licences
        for name, number in known.taken.items():
            # More than there are only where there were more before: they were given back since, none was taken.
            assert number <= counts[name] or number <= before.get(name, 0)
        for state in w.core.jobs.values():
            assert not state.queued or known.short(state.shape.wants.licences), f"{state} waits for nothing"
