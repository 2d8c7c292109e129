"""Jobs and tasks that are not offered for a while: tried again later, held, or behind another job."""

from __future__ import annotations

import pytest

from cress.core.placing.vetoes import Verdict
from cress.model.errors import InputError
from cress.model.events import JobAfter, JobHeld, Outcome, TaskEnded
from cress.model.times import SECOND
from tests.core.builders import JobBuilder, World, group, job, node, nodes


def one_node(cores: int = 4) -> World:
    return World(group("g", 9), group("h", 9), nodes=nodes(1, cpu=cores))


def test_a_failed_task_is_tried_again_when_its_time_has_come() -> None:
    world = one_node()
    world.run(job("etl").tasks(2).group("g"))
    assert not world.finish("etl", 1, outcome=Outcome.FAILED, again=True, after=20)
    assert world.core.next_wakeup() == 20 * SECOND
    assert not world.wait(20, -1).decide()
    world.wake()
    assert [(each.task, each.at) for each in world.starts[2:]] == [(1, 20)]
    assert world.core.next_wakeup() is None


def test_what_waits_for_its_time_holds_nothing_and_nobody_up() -> None:
    world = one_node(cores=1)
    world.run(job("first").group("g"))
    world.submit(job("second").group("g"))
    world.finish("first", outcome=Outcome.FAILED, again=True, after=20)
    assert world.started()[-1] == "second"


def test_a_task_that_is_tried_again_has_its_old_place() -> None:
    world = one_node(cores=1)
    world.run(job("old").group("g"))
    world.finish("old", outcome=Outcome.FAILED, again=True, after=5)
    world.wait(1).run(job("runs").group("g"))
    world.wait(1).submit(job("young").group("g")).decide()
    world.wait(8).finish("runs")
    assert world.started()[-1] == "old"


def test_a_job_is_not_over_while_a_task_waits_for_its_time() -> None:
    world = one_node()
    world.run(job("etl").group("g"))
    world.finish("etl", outcome=Outcome.FAILED, again=True, after=20)
    assert world.veto("etl").kind is Verdict.BACKOFF
    world.wake()
    world.finish("etl")
    assert not world.core.jobs


def test_a_gang_starts_again_as_a_whole_after_the_backoff_of_its_failed_task() -> None:
    world = one_node()
    world.run(job("mpi").tasks(3).gang().group("g"))
    assert len(world.finish("mpi", 1, outcome=Outcome.FAILED, again=True, after=30)) == 2, "the others are stopped"
    assert world.veto("mpi").kind is Verdict.GANG_RUNS
    world.wait(3).yield_victims()
    assert world.veto("mpi").kind is Verdict.BACKOFF
    world.wake()
    assert [(each.job, each.at) for each in world.starts[3:]] == [("mpi", 30)] * 3


@pytest.mark.parametrize("outcome", [Outcome.PREEMPTED, Outcome.LOST])
def test_what_the_task_is_not_to_blame_for_waits_for_no_time(outcome: Outcome) -> None:
    world = one_node()
    world.run(job("etl").group("g"))
    assert len(world.finish("etl", outcome=outcome, again=True, after=20)) == 1


def test_a_cancelled_job_waits_for_nothing() -> None:
    world = one_node()
    world.run(job("etl").tasks(2).group("g"))
    world.finish("etl", 0, outcome=Outcome.FAILED, again=True, after=20)
    world.cancel("etl").decide()
    world.yield_victims()
    assert world.core.next_wakeup() is None
    assert not world.core.jobs


def test_a_held_job_is_not_offered_until_it_is_released_in_its_old_place() -> None:
    world = one_node(cores=1)
    world.submit(job("held").group("g")).hold("held")
    world.wait(1).run(job("runs").group("g"))
    world.wait(1).submit(job("young").group("g")).hold("held", False).decide()
    world.finish("runs")
    assert world.started() == ["runs", "held"]


def test_what_runs_of_a_held_job_goes_on() -> None:
    world = one_node(cores=2)
    world.submit(job("etl").tasks(4).group("g")).decide()
    world.hold("etl").decide()
    assert len(world.running) == 2
    assert not world.finish("etl", 0)
    assert world.veto("etl").kind is Verdict.HELD
    world.hold("etl", False)
    assert len(world.decide()) == 1


def test_what_was_kept_for_a_held_job_is_there_for_others() -> None:
    world = World(group("new", 9), group("old", 1), nodes=nodes(1, cpu=3), cooling=0)
    world.run(job("old").tasks(3).group("old"))
    world.submit(job("new").cpu(2).group("new")).decide()
    assert world.core.claims
    world.hold("new").decide()
    assert not world.core.claims
    world.yield_victims()
    assert world.started()[-1] == "old"


def test_a_held_blocked_job_has_no_reservation() -> None:
    world = World(group("g", 9, "BackFill"), nodes=nodes(1, cpu=4))
    world.run(job("runs").cpu(3).limit(50).group("g"))
    world.submit(job("blocked").cpu(4).limit(20).group("g"), job("late").limit(100).group("g")).decide()
    assert world.started() == ["runs"]
    world.hold("blocked").decide()
    assert world.started() == ["runs", "late"]


def test_a_job_behind_another_one_is_not_offered() -> None:
    world = one_node()
    world.submit(job("first").group("g"), job("then").group("h")).come_after("then", "first").decide()
    assert world.started() == ["first"]
    veto = world.veto("then")
    assert (veto.kind, veto.behind, veto.behind_group) == (Verdict.AFTER, world.ids["first"], "g")
    world.come_after("then", None).decide()
    assert world.started() == ["first", "then"]


def test_a_job_may_be_held_and_behind_another_one() -> None:
    world = one_node()
    world.submit(job("first").group("g"), job("then").group("g")).come_after("then", "first").hold("then").decide()
    world.come_after("then", None).decide()
    assert world.veto("then").kind is Verdict.HELD
    world.hold("then", False).decide()
    assert world.started() == ["first", "then"]


def test_words_about_jobs_that_are_gone_change_nothing() -> None:
    world = one_node()
    world.observe([JobHeld(99), JobAfter(99, 98), TaskEnded(77, again=True, after=5)])
    assert not world.decide()


def test_a_time_before_the_end_is_refused() -> None:
    world = one_node()
    with pytest.raises(InputError, match="0 or more"):
        world.core.observe(0, [TaskEnded(1, Outcome.FAILED, again=True, after=-1)])


# --- bounds that never allow a job ------------------------------------------------------------------------------------


def wide(tasks: int = 61) -> JobBuilder:
    return job("wide").group("b").tasks(tasks).gang()


NEVER_LENT = (
    "job 1 can never start, even on the empty cluster: it asks for 61 cores, and at most 43 cores may be used at once "
    "in group b: the cluster has 72 cores, of which {whose} (Lendable); "
    "to let it start, ask for at most 43 cores, or raise Lendable of {raised} by 18 cores"
)
KEEPERS = {
    "one group": ((group("a", 30).lends(1), group("b", 20)), "group a keeps 29 cores for itself", "group a"),
    "two groups": (
        (group("a", 15).lends(1), group("c", 16).lends(1), group("b", 20)),
        "group c keeps 15 cores and group a keeps 14 cores for themselves",
        "groups c and a together",
    ),
    "its sibling": (
        (group("top", 0), group("a", 30).inside("top").lends(1), group("b", 20).inside("top")),
        "group a keeps 29 cores for itself",
        "group a",
    ),
    "a group with groups in it": (
        (group("top", 30).lends(1), group("a", 30).inside("top"), group("b", 20)),
        "group top keeps 29 cores for itself",
        "group top",
    ),
    "at all times of the week": (
        (group("a", 30).windows("07:30-09:00 = 40").lends(1), group("b", 20).windows("07:30-09:00 = 25")),
        "group a keeps 29 cores for itself",
        "group a",
    ),
}


@pytest.mark.parametrize("story", KEEPERS)
def test_who_asks_for_more_than_others_ever_lend_is_told_the_most_and_the_smallest_change(story: str) -> None:
    groups, whose, raised = KEEPERS[story]
    made = World(*groups, nodes=nodes(9, cpu=8)).submit(wide())
    made.decide()
    veto = made.veto("wide")
    assert (veto.kind, veto.never) == (Verdict.KEPT, True)
    assert made.why("wide") == NEVER_LENT.format(whose=whose, raised=raised)
    for tasks in (43, 44):
        bound = made.core.never_within_bounds(wide(tasks).build(9, made.dimensions))
        assert (bound is None) == (tasks == 43)


def test_who_fits_at_some_time_of_the_week_only_waits_for_it() -> None:
    made = World(group("a", 30).windows("07:30-09:00 = 10").lends(1), group("b", 20), nodes=nodes(9, cpu=8))
    made.submit(wide()).decide()
    assert (made.veto("wide").kind, made.veto("wide").never) == (Verdict.KEPT, False)
    assert made.core.never_within_bounds(wide(63).build(9, made.dimensions)) is None
    assert made.core.never_within_bounds(wide(64).build(9, made.dimensions)) is not None


@pytest.mark.parametrize("busy", [False, True])
def test_a_bound_that_comes_later_and_never_allows_a_job_is_its_reason_until_it_goes(*, busy: bool) -> None:
    made = World(group("a", 30), group("b", 20), nodes=nodes(9, cpu=8), preemption="off")
    made.run(job("old").group("a").tasks(30))
    made.submit(wide()).decide()
    assert made.veto("wide").kind is Verdict.FORBIDDEN
    made.apply(group("a", 30).lends(1), group("b", 20)).decide()
    assert made.veto("wide").never
    if not busy:
        made.finish("old")
        assert made.veto("wide").never
    made.apply(group("a", 30), group("b", 20).most(40)).decide()
    assert made.why("wide") == (
        "job 2 can never start, even on the empty cluster: it asks for 61 cores, and at most 40 cores may be used at "
        "once in group b, by the MaxQuota of group b; "
        "to let it start, ask for at most 40 cores, or raise MaxQuota of group b to 61 cores"
    )
    made.apply(group("a", 30), group("b", 20)).decide()
    if not busy:
        assert len(made.nodes_of("wide")) == 61
    else:
        assert made.veto("wide").kind is Verdict.FORBIDDEN


def test_who_would_fit_once_absent_nodes_are_back_may_run_later() -> None:
    made = World(group("a", 30).lends(1), group("b", 20), nodes=nodes(10, cpu=8))
    made.submit(wide(51)).lose_node("n1").lose_node("n2").decide()
    assert not made.veto("wide").never


# --- clauses that turn soft later -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("clock", "when"), [("", "in 5m"), ("2026-12-01T12:00+00:00", "at 12:05")])
def test_a_clause_that_turns_soft_later_is_told_with_the_moment(clock: str, when: str) -> None:
    made = World(group("g", 9), nodes=[node("n1").cpu(4).where(Zone="a"), node("n2").cpu(4).where(Zone="b")])
    if clock:
        made.set_clock(clock)
    made.run(job("full").group("g").cpu(4).requires("Nodes in (n2)"))
    later = job("later").group("g").requires('Zone = "b" && f(x) = (Waittime > 5min)')
    never = job("never").group("g").requires('Zone = "c" && f(x) = (Waittime > 5min)')
    made.submit(never, later).decide()
    assert made.why("later").endswith(f'; Zone = "b" turns soft {when}')
    assert made.why("never") == f'no node satisfies Zone = "c" (2 of 2 nodes do not); Zone = "c" turns soft {when}'
    made.wait(0, 5 * 60 * SECOND + 1).decide()
    assert made.nodes_of("later") == made.nodes_of("never") == ["n1"]


def test_a_gang_that_may_start_in_part_later_is_told_when() -> None:
    made = World(group("g", 9), nodes=nodes(2, cpu=2)).set_clock("2026-12-01T12:00+00:00")
    made.run(job("full").group("g").cpu(1))
    made.submit(
        job("gang").group("g").tasks(4).gang().requires("IssueAsWhole = 2 && f(x) = (Waittime > 5min)")
    ).decide()
    assert made.why("gang").endswith("; at 12:05 it may start with 2 tasks")
