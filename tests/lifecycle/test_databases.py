"""Databases: each task once at most, in order at first, at home as long as its node lives."""

from __future__ import annotations

import pytest

from cress.lifecycle.families.databases import bound
from cress.lifecycle.inputs import Drain, NodeDead, Restarted, Scale
from cress.model.events import NodeCordoned, Outcome
from cress.model.job import JobType
from cress.model.options import Options
from cress.model.records import JobState
from cress.model.reports import Cause
from cress.model.times import MINUTE, SECOND
from tests.lifecycle.kept import Site, database, waits_for_restart

OPTIONS = Options(backoff_most=MINUTE)


def test_tasks_start_in_order_each_when_the_one_before_is_ready() -> None:
    site = Site("n1", "n2", "n3")
    number = site.begin(database(3, checked=True))
    assert site.nodes(number).keys() == {0}
    assert site.machine.reason(number) == "task 1 starts when task 0 is ready"
    site.check(number, 0)
    assert site.nodes(number).keys() == {0, 1}
    site.check(number, 1)
    assert sorted(site.nodes(number).values()) == ["n1", "n2", "n3"]
    site.check(number, 2)
    assert site.machine.reason(number) == ""
    assert site.members(number)[0].job.type is JobType.DATABASE


@pytest.mark.parametrize(
    ("code", "cause", "outcome", "wait"),
    [
        (1, Cause.EXITED, Outcome.FAILED, 10),
        (0, Cause.EXITED, Outcome.SUCCEEDED, 10),
        (None, Cause.NOT_STARTED, Outcome.FAILED, 10),
        (None, Cause.UNKNOWN, Outcome.LOST, 0),
        (-15, Cause.TERM, Outcome.LOST, 0),
        (-15, Cause.STOPPED, Outcome.CANCELLED, 0),
    ],
)
def test_the_next_life_is_another_member_on_the_same_node(
    code: int | None, cause: Cause, outcome: Outcome, wait: float
) -> None:
    site = Site("n1", "n2", "n3", options=OPTIONS)
    number = site.begin(database(2, backoff=10 * SECOND))
    before, home = site.members(number)[1].job.id, site.nodes(number)[1]
    (record,) = site.die(number, 1, code, cause).attempts
    assert (record.outcome, record.final) == (outcome, True)
    if wait:
        how = "" if code is None else f" (exit code {code})"
        assert site.machine.reason(number) == f"task 1: ended{how} and is restarted in 10s"
    assert waits_for_restart(site, number, 1) == pytest.approx(wait, abs=0.1)
    assert site.members(number)[1].job.id != before
    assert site.nodes(number)[1] == home
    assert site.over[before].family == number
    assert (site.over[before].index, site.over[before].template) == (1, number)


def test_it_is_started_again_for_ever_after_longer_and_longer_waits() -> None:
    site = Site("n1", options=OPTIONS)
    number = site.begin(database(backoff=10 * SECOND))
    waits = []
    for _ in range(5):
        site.die(number, 0)
        waits.append(waits_for_restart(site, number))
    assert waits == [10, 20, 40, 60, 60]


def test_it_waits_for_its_node_and_moves_when_that_was_away_for_too_long() -> None:
    site = Site("n1", "n2")
    number = site.begin(database(2, move_after=5 * MINUTE))
    home = site.nodes(number)[0]
    site.leave(home)
    site.step(NodeDead(name=home))
    site.sleep(MINUTE)
    assert site.nodes(number).keys() == {1}
    assert (
        site.machine.reason(number)
        == f"task 0 waits for its node {home}, which is away; it moves to another node in 4m"
    )
    site.sleep(5 * MINUTE)
    (other,) = {"n1", "n2"} - {home}
    assert site.nodes(number) == {0: other, 1: other}
    assert site.machine.reason(number) == (
        f"task 0 has left node {home}, which was away for 5m; its directory is still there"
    )
    site.join(home)
    site.die(number, 0, cause=Cause.UNKNOWN)
    site.obey()
    assert site.nodes(number)[0] == other
    assert site.machine.reason(number) == ""


def test_a_node_that_is_back_in_time_has_its_task_again() -> None:
    site = Site("n1", "n2")
    number = site.begin(database(1, move_after=5 * MINUTE))
    home = site.nodes(number)[0]
    site.leave(home)
    site.step(NodeDead(name=home))
    site.sleep(4 * MINUTE)
    site.join(home)
    site.obey()
    assert site.nodes(number) == {0: home}
    site.sleep(10 * MINUTE)
    assert site.nodes(number) == {0: home}


def test_a_node_that_is_none_of_the_cluster_any_more_is_not_waited_for() -> None:
    site = Site("n1", "n2")
    number = site.begin(database(1))
    home = site.nodes(number)[0]
    site.leave(home)
    site.step(NodeDead(name=home, forget=True))
    site.obey()
    assert site.nodes(number)[0] != home
    assert "was removed from the cluster" in site.machine.reason(number)


def test_a_task_that_may_still_run_is_not_replaced() -> None:
    site = Site("n1", "n2")
    number = site.begin(database(1, move_after=0))
    home = site.nodes(number)[0]
    site.leave(home)
    site.sleep(10 * MINUTE)
    assert site.nodes(number) == {0: home}
    site.step(NodeDead(name=home))
    site.obey()
    assert site.nodes(number)[0] != home


def test_a_center_that_was_away_does_not_count_its_own_absence() -> None:
    site = Site("n1", "n2")
    number = site.begin(database(1, move_after=5 * MINUTE))
    home = site.nodes(number)[0]
    site.die(number, 0, cause=Cause.SHUTDOWN)
    site.step(Restarted(epoch=2), after=20 * MINUTE)
    site.sleep(4 * MINUTE)
    site.join(home)
    site.join("n1" if home == "n2" else "n2")
    site.obey()
    assert site.nodes(number) == {0: home}


def test_a_drained_task_waits_for_its_node() -> None:
    site = Site("n1", "n2")
    number = site.begin(database(1))
    home = site.nodes(number)[0]
    site.step(Drain(name=home, deadline=0, reason="new disk"))
    site.obey()
    assert site.nodes(number) == {}
    assert site.machine.reason(number).startswith("task 0: ")
    site.step(NodeCordoned(name=home, cordoned=False))
    site.obey()
    assert site.nodes(number) == {0: home}


def test_a_life_that_never_began_binds_nobody() -> None:
    site = Site("n1", "n2", options=OPTIONS)
    number = site.begin(database(1, backoff=SECOND))
    attempt = site.attempt(number, 0)
    attempt.started = 0
    site.machine.families[number].state.nodes.clear()  # type: ignore[union-attr]
    site.die(number, 0, None, Cause.NOT_STARTED)
    assert site.machine.families[number].state.nodes == {}  # type: ignore[union-attr]


def test_fewer_and_more_from_the_highest_and_back_at_home() -> None:
    site = Site("n1", "n2", "n3")
    number = site.begin(database(3))
    homes = site.nodes(number)
    site.scale(number, 1)
    assert site.nodes(number) == {0: homes[0]}
    site.scale(number, 3)
    assert site.nodes(number) == homes


def test_it_is_scaled_down_one_by_one() -> None:
    site = Site("n1", "n2", "n3")
    number = site.begin(database(3))
    site.step(Scale(job=number, tasks=0))
    assert [member.cancelling for _, member in sorted(site.members(number).items())] == [False, False, True]


def test_its_own_requirement_holds_beside_its_home() -> None:
    site = Site("n1", "n2", "n3")
    number = site.begin(database(1, requirement='Name = "n2" || Name = "n3"'))
    home = site.nodes(number)[0]
    assert home in ("n2", "n3")
    for _ in range(3):
        site.die(number, 0, cause=Cause.UNKNOWN)
        site.obey()
        assert site.nodes(number) == {0: home}


@pytest.mark.parametrize(
    ("requirement", "node", "text"),
    [
        ("", "n1", 'Name = "n1"'),
        ("SSD", "n1", '(SSD) && Name = "n1"'),
        ("", 'a"b\\c', 'Name = "a\\"b\\\\c"'),
    ],
)
def test_how_a_task_is_bound(requirement: str, node: str, text: str) -> None:
    assert bound(requirement, node) == text


@pytest.mark.parametrize("requirement", ["", "CPU >= 1", "CPU >= 1 || Rack = x", "!(CPU > 99)"])
@pytest.mark.parametrize("name", ["n1", "web-1.example.org", "a b", "10", "1.2.3.4", 'quo"te', "back\\slash", "n'1"])
def test_it_is_bound_to_nodes_of_any_name_by_any_requirement(name: str, requirement: str) -> None:
    site = Site(name)
    number = site.begin(database(1, requirement=requirement))
    site.join("n0")
    site.join("n9")
    site.die(number, 0, cause=Cause.UNKNOWN)
    site.obey()
    assert site.nodes(number) == {0: name}


def test_what_gives_in_with_time_of_a_requirement_does_so_and_the_home_does_not() -> None:
    site = Site("n1", "n2")
    number = site.begin(database(1, requirement='Rack = "x" && f(x) = (Waittime > 1s)'))
    site.sleep(2 * SECOND)
    home = site.nodes(number)[0]
    for _ in range(2):
        site.die(number, 0, cause=Cause.UNKNOWN)
        site.sleep(2 * SECOND)
        assert site.nodes(number) == {0: home}
    site.step(NodeCordoned(name=home, cordoned=True))
    site.die(number, 0, cause=Cause.UNKNOWN)
    site.sleep(MINUTE)
    assert site.nodes(number) == {}


def test_cancelled_while_it_waits_for_its_next_life() -> None:
    site = Site("n1")
    number = site.begin(database(2, backoff=MINUTE))
    site.die(number, 1)
    site.cancel(number)
    site.obey()
    assert site.over[number].state is JobState.CANCELLED
    assert not site.machine.jobs
    assert not site.machine.timers.times


def test_a_life_that_an_update_has_not_come_to_goes_on_as_it_was() -> None:
    site = Site("n1", "n2", "n3")
    number = site.begin(database(3, checked=True))
    for index in range(3):
        site.check(number, index)
    new = site.update(number, database(3, checked=True, priority=1))
    site.die(number, 0, cause=Cause.UNKNOWN)
    site.obey()
    assert site.versions(number) == [number, number, new]


def test_an_update_of_a_first_task_that_never_gets_ready() -> None:
    site = Site("n1", options=OPTIONS)
    number = site.begin(database(2, checked=True, backoff=MINUTE))
    site.die(number, 0)
    new = site.update(number, database(2, checked=True, priority=1))
    waits_for_restart(site, number)
    site.check(number, 0)
    site.check(number, 1)
    assert site.versions(number) == [new, new]
    assert site.up(number) == [0, 1]
